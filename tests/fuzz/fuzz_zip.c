/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile archives. Input: a zip archive. Each member must be within it, after the previous one,
 * and can be opened by its name.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing.h"
#include "profile/symbols/elf_source.h"
#include "profile/symbols/zip_archive.h"

#define OPENED_MAX 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(int fd, size_t size)
{
    struct zip_archive archive;
    struct error error = {0};
    uint64_t end = 0;
    int result = zip_archive_read(&archive, fd, &error);
    if (result < 0 && (error.code != result || error.message[0] == '\0'))
        abort();
    for (size_t i = 0; i < archive.count && result == 0; i++) {
        const struct zip_member *member = &archive.members[i];
        char path[70000];
        struct elf_source source;
        if (member->offset < end || member->offset > size || member->size > size - member->offset ||
            strlen(member->name) == 0)
            abort();
        end = member->offset + member->size;
        if (i >= OPENED_MAX)
            continue;
        snprintf(path, sizeof(path), "/proc/self/fd/%d!%s", fd, member->name);
        elf_source_open(&source, path, false);
        elf_source_close(&source);
    }
    zip_archive_clear(&archive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = fuzz_file(NULL, data, size);
    look(fd, size);
    close(fd);
    return 0;
}
