/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile symbol files. Input: a Breakpad symbol file, in which many addresses are looked up, close
 * and distant ones.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing.h"
#include "profile/symbols/breakpad.h"

#define NEAR 1024u
#define ADDRESSES (NEAR + 64u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int sink(void *context, size_t index, struct source_frame *frames, size_t count)
{
    size_t *sum = context;
    if (count == 0 || count > SOURCE_FRAMES_MAX || index >= ADDRESSES)
        abort();
    for (size_t i = 0; i < count; i++) {
        *sum += strlen(frames[i].function);
        *sum += frames[i].file != NULL ? strlen(frames[i].file) : 0;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t addresses[ADDRESSES];
    struct breakpad_module module;
    struct error error = {0};
    char path[FUZZ_PATH_BYTES];
    size_t sum = 0;
    for (unsigned i = 0; i < NEAR; i++)
        addresses[i] = 0x1000 + i / 2 * 3 + i % 2;
    for (unsigned i = 0; i < 64; i++)
        addresses[NEAR + i] = (UINT64_C(1) << 63) - 1 + (UINT64_C(1) << i);
    int fd = fuzz_file(path, data, size);
    int read = breakpad_read_module(path, &module, &error);
    int found = breakpad_find(path, addresses, ADDRESSES, sink, &sum, &error);
    if ((found < 0 && *error.message == '\0') || (read < 0 && found == 0))
        abort();
    close(fd);
    return 0;
}
