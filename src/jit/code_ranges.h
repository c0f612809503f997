/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a process has executable memory, as /proc/PID/maps tells it: generated code (memory of no
 * file), and mappings of files, which the dynamic loader need not know of.
 */
#ifndef HEAPPROFD_JIT_CODE_RANGES_H
#define HEAPPROFD_JIT_CODE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What lies further up is not looked at. */
#define CODE_RANGES_MAX 65536u

struct code_range {
    uint64_t start, end;
    uint64_t offset; /* in the file */
    uint32_t path;   /* in texts; 0: no file, generated code */
};

struct code_ranges {
    struct code_range *items; /* by address */
    size_t count, capacity;
    char *texts; /* terminated one by one; [0] is a zero */
    size_t text_length, text_capacity;
    uint32_t jitdump; /* the path of a jitdump file that is mapped to be found, in texts; 0: none */
};

/* 0 or a negative errno (the process is gone, or not ours to look at), which leaves the ranges as
 * they were. */
int code_ranges_read(struct code_ranges *ranges, pid_t pid);
/* The same of a file in the form of /proc/PID/maps. */
int code_ranges_read_file(struct code_ranges *ranges, const char *path);
void code_ranges_clear(struct code_ranges *ranges);

/* NULL: nothing executable is there. */
const struct code_range *code_ranges_find(const struct code_ranges *ranges, uint64_t pc);

#endif
