/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing memory into a stopped process, by system calls made in its name: the image at a chosen
 * place, and the ring. Descriptors are open in it only meanwhile.
 */
#ifndef HEAPPROFD_ATTACH_ENTER_H
#define HEAPPROFD_ATTACH_ENTER_H

#include <stddef.h>
#include <stdint.h>

#include "attach/image.h"
#include "attach/process.h"
#include "attach/tracee.h"
#include "util/error.h"

/* A free place of `bytes` that code at `near` reaches by a jump; 0: none. */
uint64_t enter_find_place(const struct process *process, uint64_t near, size_t bytes);

/*
 * Maps the image at base and the ring somewhere (its address into *ring), between
 * tracee_work_begin() and tracee_work_end(). 0, or a negative errno with a message: then nothing of
 * it is left.
 */
int enter_map(struct tracee *tracee, const struct image *image, uint64_t base, int ring_fd,
              uint64_t data_bytes, uint64_t *ring, struct error *error);

/* Unmaps; between the same. */
void enter_unmap(struct tracee *tracee, uint64_t address, uint64_t bytes);

#endif
