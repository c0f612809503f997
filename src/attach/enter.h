/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping memory into a stopped process, by system calls made in its name: the image at a chosen
 * address, and the ring. Descriptors are open in the process only during these calls.
 */
#ifndef HEAPPROFD_ATTACH_ENTER_H
#define HEAPPROFD_ATTACH_ENTER_H

#include <stddef.h>
#include <stdint.h>

#include "attach/image.h"
#include "attach/process.h"
#include "attach/tracee.h"
#include "util/error.h"

/* Find a free place of `bytes` bytes within reach of a jump from `near`. Return 0 if there is none.
 */
uint64_t enter_find_place(const struct process *process, uint64_t near, size_t bytes);

/*
 * Map the image at `base` and the ring anywhere (its address goes into *ring). Call it between
 * tracee_work_begin() and tracee_work_end(). Return 0, or a negative errno with a message; after an
 * error nothing stays mapped.
 */
int enter_map(struct tracee *tracee, const struct image *image, uint64_t base, int ring_fd,
              uint64_t data_bytes, uint64_t *ring, struct error *error);

/* Unmap memory. Call it between the same two. */
void enter_unmap(struct tracee *tracee, uint64_t address, uint64_t bytes);

#endif
