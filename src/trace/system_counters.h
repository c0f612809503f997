/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perfetto's numbers for the lines of /proc/meminfo and /proc/vmstat, and the names of those lines.
 */
#ifndef HEAPPROFD_TRACE_SYSTEM_COUNTERS_H
#define HEAPPROFD_TRACE_SYSTEM_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers are below these. */
#define MEMINFO_COUNTERS 39u
#define VMSTAT_COUNTERS 189u
#define SYSTEM_COUNTER_NAME_BYTES 64

/* Return the line's name, such as "MemAvailable"; NULL if there is no such number. */
const char *meminfo_counter_name(uint32_t counter);

/* Write the line's name, such as "pgmajfault". Return false if there is no such number. */
bool vmstat_counter_name(uint32_t counter, char name[SYSTEM_COUNTER_NAME_BYTES]);

#endif
