/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are started by running the loader itself, with the program as its argument:
 * `/lib64/ld-linux-x86-64.so.2 ./prog`, as Nix, AppImages and scripts that bring their own C
 * library do. For the kernel such a process runs the loader: /proc/PID/exe, comm and auxv name
 * that. What the user means is the program, which the loader has mapped.
 */
#ifndef HEAPPROFD_UTIL_MAIN_PROGRAM_H
#define HEAPPROFD_UTIL_MAIN_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Return whether a file is a loader that can be run, by its name: glibc's or musl's. */
bool main_program_is_loader(const char *path);

/* Return the index of the program among the arguments of a loader; 0: it is given none to run. */
size_t main_program_argument(const char *const *arguments, size_t count);

/* A process's main program. */
struct main_program {
    char path[PATH_MAX]; /* under which we can open it */
    char file[PATH_MAX]; /* as /proc names it; "": unknown */
    bool is_loader;      /* the kernel runs a loader */
    bool by_loader;      /* it has mapped the program; else it has not yet, or was given none */
    uint64_t start;      /* of its first mapping; only if by_loader */
};

/* Find the program that a process runs: by /proc/PID/exe, unless that is a loader that has mapped
 * another one. Then it is the mapped file that the loader was told to run, or, if the process has
 * overwritten its arguments, the only mapped one that is not named like a library. */
void main_program_find(struct main_program *program, pid_t pid);

#endif
