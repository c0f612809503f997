/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines of code addresses by llvm-symbolizer: the first of llvm-symbolizer,
 * llvm-symbolizer-25 and so on in PATH, one process for each file.
 */
#ifndef HEAPPROFD_SYMBOLIZE_LLVM_SYMBOLIZER_H
#define HEAPPROFD_SYMBOLIZE_LLVM_SYMBOLIZER_H

#include "symbols/debug_info.h"

/* As debug_info_find(), for all addresses that it knows. 0, what the sink returned, or a negative
 * errno with *error set if the program is missing, failed or was silent for too long. */
int llvm_symbolizer_find(const char *path, const uint64_t *addresses, size_t count,
                         debug_info_sink *sink, void *context, struct error *error);

#endif
