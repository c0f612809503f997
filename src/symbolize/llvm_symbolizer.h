/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines of code addresses as llvm-symbolizer has them: the
 * first of llvm-symbolizer, llvm-symbolizer-25 and so on in PATH, one process
 * for each file.
 */
#ifndef HEAPPROFD_SYMBOLIZE_LLVM_SYMBOLIZER_H
#define HEAPPROFD_SYMBOLIZE_LLVM_SYMBOLIZER_H

#include "symbols/debug_info.h"

/* As debug_info_find() does, of all addresses that it knows anything of. 0, what the sink returned,
 * or a negative errno with *error set where it is not there, failed or said nothing for long. */
int llvm_symbolizer_find(const char *path, const uint64_t *addresses, size_t count,
                         debug_info_sink *sink, void *context, struct error *error);

#endif
