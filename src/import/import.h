/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens whatever a heap profile may stand in as a profile: a trace, or a file of another profiler.
 * What it is, its first bytes tell (docs/formats.md); gzip and zstd are unpacked on the way.
 */
#ifndef HEAPPROFD_IMPORT_IMPORT_H
#define HEAPPROFD_IMPORT_IMPORT_H

#include "profile/profile.h"

/* As profile_read_as() of profile.h, of any of these files. options NULL: names in full. */
struct profile *import_profile(const char *path, const struct profile_read_options *options,
                               struct error *error);
/* The same of a file's bytes in memory. */
struct profile *import_profile_bytes(const void *bytes, size_t length,
                                     const struct profile_read_options *options,
                                     struct error *error);

enum import_kind {
    IMPORT_TRACE,
    IMPORT_PPROF,
    IMPORT_HEAPTRACK,
    IMPORT_COLLAPSED,
    IMPORT_TEXT_HEAP,
    IMPORT_MEMORY_INFRA
};

/* What a file that begins with these bytes, unpacked, is; `whole`: there are no more. */
enum import_kind import_kind_of(const void *bytes, size_t length, bool whole);

#endif
