/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable memory of a process, from /proc/PID/maps: generated code (memory without a file), and
 * mappings of files, which the dynamic loader may not know.
 */
#ifndef HEAPPROFD_RECORDER_JIT_CODE_RANGES_H
#define HEAPPROFD_RECORDER_JIT_CODE_RANGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Further ranges, at higher addresses, are ignored. */
#define CODE_RANGES_MAX 65536u

struct code_range {
    uint64_t start, end;
    uint64_t offset; /* in the file */
    uint32_t path;   /* in texts; 0: no file, generated code */
};

struct code_ranges {
    struct code_range *items; /* sorted by address */
    size_t count, capacity;
    char *texts; /* each terminated; [0] is a zero */
    size_t text_length, text_capacity;
    uint32_t jitdump; /* path of a jitdump file, which is mapped so that profilers find it: position
                         in `texts`; 0: none */
};

/* Read the ranges of a process. Return 0, or a negative errno (it has ended, or we may not inspect
 * it); after an error the ranges are unchanged. */
int code_ranges_read(struct code_ranges *ranges, pid_t pid);
/* Read the ranges from a file in the format of /proc/PID/maps. */
int code_ranges_read_file(struct code_ranges *ranges, const char *path);
void code_ranges_clear(struct code_ranges *ranges);

/* Find the range of a pc. Return NULL if no executable memory is there. */
const struct code_range *code_ranges_find(const struct code_ranges *ranges, uint64_t pc);

#endif
