/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the kernel's pressure stall information (PSI) of memory. */
#ifndef HEAPPROFD_RECORDER_TIMELINE_PRESSURE_H
#define HEAPPROFD_RECORDER_TIMELINE_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#define PRESSURE_OF_MACHINE "/proc/pressure/memory"

/* Total time in which some or all tasks waited; UINT64_MAX: not in the file. */
struct pressure {
    uint64_t some_ns, full_ns;
};

/* Return false if the file cannot be read: a kernel without PSI, or with PSI turned off. */
bool pressure_read(const char *path, struct pressure *pressure);

#endif
