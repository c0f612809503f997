/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash of a walk's frames: the sum of walk_hash_pc(pc of frame n) * WALK_HASH_STEP^n, n from 0
 * for the innermost. So the part of the frames from n on is their own sum, times a power.
 */
#ifndef HEAPPROFD_CLIENT_UNWIND_WALK_HASH_H
#define HEAPPROFD_CLIENT_UNWIND_WALK_HASH_H

#include <stdint.h>

#define WALK_HASH_STEP UINT64_C(0xd1342543de82ef95)
#define WALK_HASH_PC UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t walk_hash_pc(uint64_t pc)
{
    pc *= WALK_HASH_PC;
    return pc ^ pc >> 32;
}

#endif
