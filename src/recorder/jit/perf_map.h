/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perf maps, "/tmp/perf-PID.map": one line for each piece of generated code, "start size name",
 * both numbers hexadecimal. V8, HotSpot, CPython, .NET and others write them, perf reads them.
 */
#ifndef HEAPPROFD_RECORDER_JIT_PERF_MAP_H
#define HEAPPROFD_RECORDER_JIT_PERF_MAP_H

#include "recorder/jit/jit_names.h"

/* Longer files are read up to here. */
#define PERF_MAP_BYTES_MAX (UINT64_C(1) << 29)

/*
 * Name the addresses that the file describes. Other lines are counted and skipped, and so is a last
 * line without an end. Return 0 or -ENOMEM; other errors are in the report.
 */
int perf_map_read(int fd, struct jit_names *names, struct jit_file_report *report);

#endif
