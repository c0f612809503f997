/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf maps, "/tmp/perf-PID.map": a line for each piece of generated code, "start size name", both
 * numbers hexadecimal. Written by V8, HotSpot, CPython, .NET and others, read by perf.
 */
#ifndef HEAPPROFD_JIT_PERF_MAP_H
#define HEAPPROFD_JIT_PERF_MAP_H

#include "jit/jit_names.h"

/* Longer ones are read up to here. */
#define PERF_MAP_BYTES_MAX (UINT64_C(1) << 29)

/*
 * Names what it can. Lines that say no such thing are counted and passed over, as is a last line
 * that is not ended yet. 0 or -ENOMEM; what else went wrong stands in the report.
 */
int perf_map_read(int fd, struct jit_names *names, struct jit_file_report *report);

#endif
