/*
 * What the client asks of the kernel, directly: no libc wrapper (they set
 * errno, are cancellation points, and may be hooked by the target). Results are
 * as the kernel's: negative errno on failure.
 */
#ifndef HEAPPROFD_CLIENT_SYSTEM_H
#define HEAPPROFD_CLIENT_SYSTEM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "arch/syscall.h"
#include "wire/barrier.h"

/* 1: the process has restricted its system calls. All of ours fail then, with -EPERM. */
extern __attribute__((visibility("hidden"))) uint32_t system_is_restricted;

/* Private anonymous zeroed memory that a forked child finds zeroed again;
 * NULL if there is none to be had. */
void *system_map_wiped(size_t bytes);

/* Gives back what system_map_wiped() gave. */
void system_unmap(void *memory, size_t bytes);

/* Makes it zeros again and gives its pages back. */
void system_wipe(void *memory, size_t bytes);

/* Copies bytes of this process's memory that may not be there; the number of
 * bytes copied, which may be short, or a negative errno. */
long system_read_memory(void *to, uintptr_t from, size_t bytes);

#endif
