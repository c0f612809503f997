/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the collector's status as a file in the run directory, which `heap_profile status` reads.
 * A file needs no request, so no reader can keep the collector waiting. It is replaced as a whole,
 * a few seconds after the last one. Only the profiler's user and root may read it: it names
 * programs of all users.
 */
#ifndef HEAPPROFD_PRODUCTION_METRICS_STATUS_FILE_H
#define HEAPPROFD_PRODUCTION_METRICS_STATUS_FILE_H

#include "production/continuous/collector_status.h"
#include "util/error.h"

#define STATUS_FILE_PERIOD_MS 5000u

/* Replace the file in the directory. metrics_address: where metrics are served; "": nowhere. Return
 * 0 or a negative errno with a message. */
int status_file_write(const char *directory, const struct collector_status *status,
                      const char *metrics_address, struct error *error);

/* Remove the file: the collector ends. */
void status_file_remove(const char *directory);

#endif
