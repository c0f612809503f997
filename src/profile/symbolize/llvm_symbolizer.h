/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, files and lines of code addresses by llvm-symbolizer: the first of llvm-symbolizer,
 * llvm-symbolizer-25 and so on in PATH, one process for each file.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLIZE_LLVM_SYMBOLIZER_H
#define HEAPPROFD_PROFILE_SYMBOLIZE_LLVM_SYMBOLIZER_H

#include "profile/symbols/debug_info.h"

/* Report the addresses that the program knows, as debug_info_find() does. Return 0, the sink's
 * result, or a negative errno with *error set: the program is missing, fails or does not answer in
 * time. */
int llvm_symbolizer_find(const char *path, const uint64_t *addresses, size_t count,
                         debug_info_sink *sink, void *context, struct error *error);

#endif
