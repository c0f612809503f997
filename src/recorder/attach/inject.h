/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps the client's image and the ring into a stopped process, by system calls that one of its
 * threads makes. Descriptors are open in the process only during these calls.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_INJECT_H
#define HEAPPROFD_RECORDER_ATTACH_INJECT_H

#include <stddef.h>
#include <stdint.h>

#include "recorder/attach/image.h"
#include "recorder/attach/process.h"
#include "recorder/attach/tracee.h"
#include "util/error.h"

/* Bytes of the marker's page that serve as buffer for messages: what the process is to receive, or
 * has answered. The rest is room for return frames. */
#define INJECT_SCRATCH_BYTES 512u

/* Return the address of `bytes` free bytes that a short jump from `near` reaches, or 0. */
uint64_t inject_find_near(const struct process *process, uint64_t near, size_t bytes);

/* The same, or further away if a longer jump reaches it. */
uint64_t inject_find_place(const struct process *process, uint64_t near, size_t bytes);

/*
 * Map the image at `base`, its annex at the address in its parameters (0: none), and the ring
 * anywhere (its address goes into *ring). Call it between tracee_work_begin() and
 * tracee_work_end(). Return 0, or a negative errno with a message (-EEXIST: something is in the
 * image's place; -EADDRNOTAVAIL: in the annex's); after an error nothing stays mapped.
 */
int inject_map(struct tracee *tracee, const struct image *image, uint64_t base, int ring_fd,
               uint64_t data_bytes, uint64_t *ring, struct error *error);

/*
 * Map a page of code with these bytes anywhere, from an anonymous file of that name. `scratch` is
 * writable memory of the process. Call it between tracee_work_begin() and tracee_work_end(). Return
 * 0 or a negative errno.
 */
int inject_map_page(struct tracee *tracee, uint64_t scratch, const char *name, const void *from,
                    size_t bytes, uint64_t *address);

/* Unmap memory of the process. Call it between tracee_work_begin() and tracee_work_end(). */
void inject_unmap(struct tracee *tracee, uint64_t address, uint64_t bytes);

#endif
