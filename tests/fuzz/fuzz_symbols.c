/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile binaries, searched by build id and read for names, lines and inlined functions. Input: an
 * ELF file, which may be its own split DWARF package; every address of its code is looked up.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing.h"
#include "profile/symbols/debug_info.h"
#include "profile/symbols/elf_image.h"
#include "profile/symbols/symbols.h"

#define ADDRESSES_MAX 2048u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read the whole result. */
static int sink(void *context, size_t index, struct source_frame *frames, size_t count)
{
    size_t *sum = context;
    if (count == 0 || count > SOURCE_FRAMES_MAX || index >= ADDRESSES_MAX)
        abort();
    for (size_t i = 0; i < count; i++) {
        *sum += frames[i].function != NULL ? strlen(frames[i].function) : 0;
        *sum += frames[i].file != NULL ? strlen(frames[i].file) : 0;
    }
    return 0;
}

static void ask(const char *path)
{
    static uint64_t addresses[ADDRESSES_MAX];
    struct elf_image image;
    size_t count = 0, sum = 0;
    if (elf_image_read(path, &image) < 0)
        return;
    for (size_t i = 0; i < image.code_count && i < 2; i++) {
        uint64_t previous = count > 0 ? addresses[count - 1] : 0;
        for (uint64_t at = image.code[i].start;
             at < image.code[i].end && at > previous && count < (i + 1) * ADDRESSES_MAX / 2; at++)
            addresses[count++] = at;
    }
    struct debug_info *info = debug_info_open(path, NULL);
    if (info != NULL) {
        debug_info_use_package(info, path);
        debug_info_find(info, addresses, count, sink, &sum);
    }
    debug_info_close(info);
    struct symbol_file *symbols =
        symbol_file_open(path, image.build_id, image.build_id_length, NULL);
    static const char *names[ADDRESSES_MAX];
    bool are_named = symbols != NULL && symbol_file_names(symbols, addresses, count, names) == 0;
    for (size_t i = 0; i < count && are_named; i++)
        sum += names[i] != NULL ? strlen(names[i]) : 0;
    /* The symbols that decide a name do not depend on the other addresses. */
    const char *name;
    for (size_t i = 0; i < count && are_named; i += 409) {
        if (symbol_file_names(symbols, &addresses[i], 1, &name) == 0 &&
            ((name == NULL) != (names[i] == NULL) || (name != NULL && strcmp(name, names[i]) != 0)))
            abort();
    }
    symbol_file_close(symbols);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FUZZ_PATH_BYTES];
    int fd = fuzz_file(path, data, size);
    ask(path);
    close(fd);
    return 0;
}
