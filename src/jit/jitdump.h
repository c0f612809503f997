/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitdump files, "jit-PID.dump", as perf defines them: records of code that was generated, with
 * the lines that it was generated from. Of either byte order.
 */
#ifndef HEAPPROFD_JIT_JITDUMP_H
#define HEAPPROFD_JIT_JITDUMP_H

#include "jit/jit_names.h"

/* They hold the code itself, which is passed over. Longer ones are read up to here. */
#define JITDUMP_BYTES_MAX (UINT64_C(1) << 36)
#define JITDUMP_RECORDS_MAX (UINT64_C(1) << 23)

/*
 * Names what it can. Records that are not known are passed over by their size; one that is not
 * written to its end yet ends the reading. 0 or -ENOMEM; what else went wrong stands in the report.
 */
int jitdump_read(int fd, struct jit_names *names, struct jit_file_report *report);

#endif
