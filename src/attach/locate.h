/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the functions of a process's allocator, and the few others that the client needs: from the
 * loader's list of objects and their symbol tables in the process's memory and, for statically
 * linked allocators, from the executable's own symbols.
 */
#ifndef HEAPPROFD_ATTACH_LOCATE_H
#define HEAPPROFD_ATTACH_LOCATE_H

#include <stdint.h>

#include "attach/process.h"
#include "attach/tracee.h"
#include "wire/attached_params.h"

/* A function that can be patched. */
struct located_function {
    uint64_t address; /* 0: not found, or an alias of another */
    uint64_t size;    /* 0: unknown */
    char name[48];
};

struct located {
    char allocator[64]; /* file name of the object that defines malloc */
    struct located_function functions[ATTACHED_FUNCTIONS];
    uint64_t dl_find_object, clock_gettime, stack_end; /* 0: not found */
};

/* Read the allocator's functions in .symtab of a process's executable. Call it before the process
 * is stopped, because another process reads the file. Return NULL if it has no such functions. */
struct executable_symbols *executable_symbols_open(pid_t pid);
void executable_symbols_close(struct executable_symbols *symbols);

/* Find the instructions for making system calls in the process: set syscall_instruction and
 * sigreturn of the tracee. Return 0 or -ENOTSUP. */
int locate_system_call(const struct process *process, struct tracee *tracee);

int locate_functions(struct located *located, const struct process *process,
                     const struct tracee *tracee, struct attach_outcome *outcome,
                     struct error *error);

#endif
