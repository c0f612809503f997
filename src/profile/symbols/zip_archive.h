/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a zip archive (an .apk, a wheel) that are stored uncompressed, so that they can be
 * read in place. Nothing is ever unpacked.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_ZIP_ARCHIVE_H
#define HEAPPROFD_PROFILE_SYMBOLS_ZIP_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct zip_member {
    const char *name;
    uint64_t offset, size; /* in the archive */
};

struct zip_archive {
    struct zip_member *members; /* stored members, sorted by offset, without overlap */
    size_t count, capacity;
    char *directory; /* owns the names */
};

/* Read the list of members. Return 0; -ENOEXEC: not a zip archive; -EBADMSG: damaged; or another
 * negative errno. Clear *archive in any case. The caller keeps the descriptor. */
int zip_archive_read(struct zip_archive *archive, int fd, struct error *error);
void zip_archive_clear(struct zip_archive *archive);

#endif
