/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitdump files, "jit-PID.dump", in perf's format: records of generated code and its source lines,
 * in either byte order.
 */
#ifndef HEAPPROFD_RECORDER_JIT_JITDUMP_H
#define HEAPPROFD_RECORDER_JIT_JITDUMP_H

#include "recorder/jit/jit_names.h"

/* They contain the code itself, which is skipped. Longer files are read up to these limits. */
#define JITDUMP_BYTES_MAX (UINT64_C(1) << 36)
#define JITDUMP_RECORDS_MAX (UINT64_C(1) << 23)

/*
 * Name the addresses that the file describes. Unknown records are skipped by their size. A record
 * that is not written completely yet ends the reading. Return 0 or -ENOMEM; other errors are in the
 * report.
 */
int jitdump_read(int fd, struct jit_names *names, struct jit_file_report *report);

#endif
