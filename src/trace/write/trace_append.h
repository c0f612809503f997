/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends the packets of another recorder's trace to ours, so that both are one trace. Sequences
 * that both have by chance stay apart: those that are appended get other ids.
 */
#ifndef HEAPPROFD_TRACE_WRITE_TRACE_APPEND_H
#define HEAPPROFD_TRACE_WRITE_TRACE_APPEND_H

#include <stdint.h>

#include "util/error.h"

/* Added to the ids of sequences. Perfetto's service counts to 65,535, our writer to 2. */
#define TRACE_APPEND_SEQUENCES (UINT32_C(1) << 16)

struct trace_appended {
    uint64_t packets, bytes;
};

/* Append the packets of a file to a descriptor; compressed ones are unpacked. If the file is cut
 * off or damaged, the packets before that are appended. Return 0 or a negative errno with a
 * message. */
int trace_append(int to, const char *path, struct trace_appended *appended, struct error *error);

#endif
