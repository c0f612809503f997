/* SPDX-License-Identifier: Apache-2.0 */
/* Writes MemoryInfra JSON to a file, gzipped or plain. */
#ifndef HEAPPROFD_TOOLS_CLI_CONVERT_MEMORY_INFRA_FILE_H
#define HEAPPROFD_TOOLS_CLI_CONVERT_MEMORY_INFRA_FILE_H

#include "profile/memory_infra/write.h"
#include "util/error.h"

/* The file to write to. */
struct memory_infra_file {
    int fd;      /* stays the caller's */
    bool packed; /* gzip it */
    /* Called with the number of bytes so far, before compression. NULL: not called. */
    void (*tell)(void *context, uint64_t bytes);
    void *tell_context;
};

/* Write the given dumps. Return 0 or a negative errno. */
int memory_infra_file_write(const struct profile *profile, const struct export_dump *dumps,
                            size_t dump_count, const struct memory_infra_write_options *options,
                            const struct memory_infra_file *file, struct error *error);

/* Write all dumps of a profile. */
int memory_infra_file_write_all(const struct profile *profile, int fd, bool packed,
                                struct error *error);

#endif
