/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the daemon starts the collector of continuous mode, and where its program is. */
#ifndef HEAPPROFD_RECORDER_SERVICE_COLLECTOR_PROCESS_H
#define HEAPPROFD_RECORDER_SERVICE_COLLECTOR_PROCESS_H

#include <limits.h>
#include <stdbool.h>

/* Return whether the configuration ($HEAPPROFD_CONFIG, else /etc/heapprofd.conf, with its drop-in
 * directory) has a section [continuous], and the program is there: beside this one as in a build,
 * or where it is installed; false if $HEAPPROFD_NO_COLLECTOR is set. A configuration that cannot be
 * read is for the collector to explain. `log` receives why the program is missing. */
bool collector_process_is_wanted(char path[PATH_MAX], void (*log)(const char *line));

#endif
