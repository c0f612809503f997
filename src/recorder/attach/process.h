/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc shows of a process, and whether it can be attached to. Nothing is stopped or traced.
 * The data may be forged or out of date: it only decides what to try, and each step is checked
 * again with all threads stopped.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_PROCESS_H
#define HEAPPROFD_RECORDER_ATTACH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/attach/attach.h"
#include "util/error.h"
#include "util/main_program.h"

struct process_region {
    uint64_t start, end, offset;
    bool readable, writable, executable;
    char path[256]; /* truncated if longer; "" for anonymous memory */
};

#define PROCESS_CLIENT_NAME "libheapprofd_preload.so"

struct process {
    pid_t pid;
    enum attach_moment moment;
    struct process_region *regions;
    size_t region_count;
    struct main_program program;
    uint64_t headers, header_count;     /* of the program: AT_PHDR, AT_PHNUM */
    uint64_t vdso;                      /* AT_SYSINFO_EHDR */
    struct executable_symbols *symbols; /* see locate.h; NULL: none, or not read */
};

/* Read everything. Return 0, or a negative errno with the refusal in `outcome` and a message in
 * `error`. */
int process_read(struct process *process, pid_t pid, enum attach_moment moment,
                 struct attach_outcome *outcome, struct error *error);

/* Read the mappings again. */
int process_read_regions(struct process *process);
void process_clear(struct process *process);

/* Return the region that contains an address, or NULL. */
const struct process_region *process_region_of(const struct process *process, uint64_t address);

/* Return whether the last component of a region's path starts with `name`. */
bool process_region_is(const struct process_region *region, const char *name);

#endif
