/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of JIT compilers about their code: perf maps (first byte 'm'), jitdump files ('d') and
 * /proc/PID/maps ('p'). Whatever they contain, they are read without a crash and in bounded memory,
 * and names have a bounded length.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing.h"
#include "recorder/jit/code_ranges.h"
#include "recorder/jit/jit_names.h"
#include "recorder/jit/jitdump.h"
#include "recorder/jit/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_names(const struct jit_names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct jit_address *item = &names->items[i];
        if (item->name != NULL && strlen(item->name->bytes) > JIT_NAME_BYTES_MAX)
            abort();
        if (item->file != NULL && strlen(item->file->bytes) > JIT_NAME_BYTES_MAX)
            abort();
        if (jit_names_find(names, item->pc) != (item->name != NULL ? item : NULL))
            abort();
    }
}

static void read_names(int fd, bool is_map)
{
    static const uint64_t pcs[] = {0,      1,      0x1000,         0x1008,
                                   0x1010, 0x2000, 0x7f0000001000, UINT64_MAX - 1};
    struct jit_names names;
    struct jit_file_report report;
    if (jit_names_open(&names, pcs, sizeof(pcs) / sizeof(*pcs)) < 0)
        return;
    if ((is_map ? perf_map_read : jitdump_read)(fd, &names, &report) == 0)
        check_names(&names);
    jit_names_close(&names);
}

static void read_ranges(int fd)
{
    struct code_ranges ranges = {0};
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (code_ranges_read_file(&ranges, path) == 0) {
        for (size_t i = 0; i < ranges.count; i++) {
            if (ranges.items[i].path >= ranges.text_length)
                abort();
        }
        code_ranges_find(&ranges, 0x1000);
    }
    code_ranges_clear(&ranges);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    int fd = fuzz_file(NULL, data + 1, size - 1);
    if (data[0] == 'p')
        read_ranges(fd);
    else
        read_names(fd, data[0] == 'm');
    close(fd);
    return 0;
}
