/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of a zip archive (an .apk, a wheel) that are stored as they are,
 * so that they can be read in place. Nothing is ever unpacked.
 */
#ifndef HEAPPROFD_SYMBOLS_ZIP_ARCHIVE_H
#define HEAPPROFD_SYMBOLS_ZIP_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct zip_member {
    const char *name;
    uint64_t offset, size; /* in the archive */
};

struct zip_archive {
    struct zip_member *members; /* stored ones, in the order of their offsets, none overlapping */
    size_t count, capacity;
    char *directory; /* owns the names */
};

/* 0; -ENOEXEC: it is no zip archive; -EBADMSG: a damaged one; or another negative errno.
 * *archive is to be cleared in any case. The descriptor stays the caller's. */
int zip_archive_read(struct zip_archive *archive, int fd, struct error *error);
void zip_archive_clear(struct zip_archive *archive);

#endif
