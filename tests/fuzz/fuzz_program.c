/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile programs and debug files, as the file reader parses them for their facts and functions.
 * Input: two bytes, the length of the debug file; the debug file; the program.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing.h"
#include "recorder/reader/file_reader.h"
#include "recorder/reader/handlers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_facts(int fd, int debug_fd)
{
    struct program_file program, taken;
    if (program_file_parse(fd, debug_fd, &program) < 0)
        return;
    /* The profiler accepts what the reader makes of any file. */
    check(reader_program_take(&program, sizeof(program), &taken) == 0);
    check(program.allocator[0] == 0 || program.allocator_source != PROGRAM_SYMBOLS_NONE);
    check(debug_fd >= 0 || program.debug_file == PROGRAM_DEBUG_FILE_NONE);
    check(!program.has_all_functions || program.debug_file == PROGRAM_DEBUG_FILE_NONE);
}

static void find_functions(int fd, int debug_fd)
{
    static char names[] = "malloc\0free\0je_malloc\0_start\0*alloc";
    struct reader_result result = {0};
    const struct reader_call call = {
        .request = {.bytes = sizeof(names)}, .fd = fd, .debug_fd = debug_fd, .bytes = names};
    check(handle_functions(&call, &result) >= 0);
    check(reader_functions_take(result.bytes, result.length, 5) >= 0);
    free(result.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t debug_bytes = data[0] | (size_t)data[1] << 8;
    if (debug_bytes > size - 2)
        debug_bytes = size - 2;
    int debug_fd = debug_bytes > 0 ? fuzz_file(NULL, data + 2, debug_bytes) : -1;
    int fd = fuzz_file(NULL, data + 2 + debug_bytes, size - 2 - debug_bytes);
    read_facts(fd, debug_fd);
    find_functions(fd, debug_fd);
    close(fd);
    if (debug_fd >= 0)
        close(debug_fd);
    return 0;
}
