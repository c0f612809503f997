/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the functions of a process's allocator, and the few others that the client needs: from the
 * loader's list of objects and their symbol tables in the process's memory and, for statically
 * linked allocators, from the executable's own symbols.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_LOCATE_H
#define HEAPPROFD_RECORDER_ATTACH_LOCATE_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/attach/process.h"
#include "recorder/attach/tracee.h"
#include "wire/attached_params.h"

/* A function that can be patched. */
struct located_function {
    uint64_t address; /* 0: not found */
    bool is_alias;    /* a function before it in the list has the same address */
    bool only_throws; /* the one that returns NULL instead of throwing is missing */
    uint64_t size;    /* 0: unknown */
    char name[56];
};

/* A library's allocator under other names. */
struct located_family {
    char name[RING_HEAP_NAME_BYTES]; /* of its heap */
    enum family_kind kind;
    uint64_t object; /* the dynamic section of its library, which it identifies */
    struct {
        uint64_t address, size;    /* 0: not found */
    } functions[FAMILY_FUNCTIONS]; /* by row of its kind */
};

struct located {
    struct located_family families[FAMILIES_MAX];
    unsigned family_count; /* may be larger than FAMILIES_MAX */
    char allocator[64];    /* file name of the object that defines malloc */
    bool is_shared;        /* that is a library, from which all libraries allocate */
    bool has_others;       /* functions of another allocator, in the executable, count beside it */
    struct located_function functions[ATTACHED_FUNCTIONS];
    /* 0: not found */
    uint64_t dl_find_object, exit, pthread_exit, clock_gettime, stack_end, heap_visit;
};

/* Read the allocator's functions in the symbol tables of a process's executable and its debug file.
 * Call it before the process is stopped, because another process reads the files. Return NULL if
 * they have no such functions. */
struct executable_symbols *executable_symbols_open(pid_t pid);
void executable_symbols_close(struct executable_symbols *symbols);

/* Find the instructions for making system calls in the process: set syscall_instruction and
 * sigreturn of the tracee. Return 0 or -ENOTSUP. */
int locate_system_call(const struct process *process, struct tracee *tracee);

int locate_functions(struct located *located, const struct process *process,
                     const struct tracee *tracee, struct attach_outcome *outcome,
                     struct error *error);

#endif
