/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says of a process that is to be attached to, and whether it can be at all. Nothing is
 * stopped or traced for it. All of it may be forged or out of date: it decides what is tried, and
 * what is tried is checked again with all threads stopped.
 */
#ifndef HEAPPROFD_ATTACH_PROCESS_H
#define HEAPPROFD_ATTACH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/attach.h"
#include "util/error.h"

struct process_region {
    uint64_t start, end, offset;
    bool readable, writable, executable;
    char path[256]; /* cut if longer; "" for anonymous memory */
};

#define PROCESS_CLIENT_NAME "libheapprofd_preload.so"

struct process {
    pid_t pid;
    bool beside_client; /* as in struct attach_options */
    struct process_region *regions;
    size_t region_count;
    uint64_t headers, header_count; /* AT_PHDR, AT_PHNUM */
    uint64_t vdso;                  /* AT_SYSINFO_EHDR */
    struct own_symbols *own;        /* see locate.h; NULL: none, or not read */
};

/* Reads all of it. A refusal fills outcome and error, and is a negative errno. */
int process_look(struct process *process, pid_t pid, bool beside_client,
                 struct attach_outcome *outcome, struct error *error);

/* The mappings alone, once more. */
int process_read_regions(struct process *process);
void process_clear(struct process *process);

/* The region that holds an address, or NULL. */
const struct process_region *process_region_of(const struct process *process, uint64_t address);

/* Whether a region's path ends in /NAME (as far as NAME goes: "libc.so" finds "libc.so.6"). */
bool process_region_is(const struct process_region *region, const char *name);

/* Why the kernel said EPERM or EACCES: the remedy for people. */
int process_explain_permission(pid_t pid, struct attach_outcome *outcome, struct error *error);

#endif
