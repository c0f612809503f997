/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status that the collector of continuous mode keeps as a file in the run directory. A file needs
 * no request, so no reader can keep the collector waiting.
 */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_COLLECTOR_FILE_H
#define HEAPPROFD_TOOLS_CLI_RECORD_COLLECTOR_FILE_H

#include <collector.pb-c.h>

#include "util/error.h"

#define COLLECTOR_FILE_NAME "collector.status"
#define COLLECTOR_FILE_BYTES_MAX (16u << 20)

/* Read the file. heapprofd__collector_status__free_unpacked() frees the result. Return NULL with a
 * message; -ENOENT: there is no file, continuous mode does not run. */
Heapprofd__CollectorStatus *collector_file_read(const char *directory, struct error *error);

#endif
