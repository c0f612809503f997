/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's status as a file in the run directory, which `heap_profile status` reads. A file
 * needs no request, so no reader can keep the collector waiting. It is replaced as a whole, a few
 * seconds after the last one. Only the profiler's user and root may read it: it names programs of
 * all users.
 */
#ifndef HEAPPROFD_METRICS_STATUS_FILE_H
#define HEAPPROFD_METRICS_STATUS_FILE_H

#include <collector.pb-c.h>

#include "continuous/collector_status.h"
#include "util/error.h"

#define STATUS_FILE_NAME "collector.status"
#define STATUS_FILE_PERIOD_MS 5000u
#define STATUS_FILE_BYTES_MAX (16u << 20)

/* Replace the file in the directory. metrics_address: where metrics are served; "": nowhere. Return
 * 0 or a negative errno with a message. */
int status_file_write(const char *directory, const struct collector_status *status,
                      const char *metrics_address, struct error *error);

/* Remove the file: the collector ends. */
void status_file_remove(const char *directory);

/* Read the file. heapprofd__collector_status__free_unpacked() frees the result. Return NULL with a
 * message; -ENOENT: there is no file, continuous mode does not run. */
Heapprofd__CollectorStatus *status_file_read(const char *directory, struct error *error);

#endif
