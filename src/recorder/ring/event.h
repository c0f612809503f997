/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation or a free from the ring: the daemon's private copy, which the profiled process can
 * no longer change.
 */
#ifndef HEAPPROFD_RECORDER_RING_EVENT_H
#define HEAPPROFD_RECORDER_RING_EVENT_H

#include <stdint.h>

#include "wire/record.h"

struct heap_event {
    uint8_t type; /* RECORD_ALLOC, RECORD_FREE or RECORD_UNFREE */
    uint8_t heap;
    uint16_t thread;   /* slot */
    uint32_t ordinal;  /* not in an UNFREE */
    uint64_t time_ms;  /* since the session's start; not in an UNFREE */
    uint32_t interval; /* only in an ALLOC, like all that follow except the address */
    uint64_t address;
    uint64_t size;
    uint64_t stack;
    uint64_t type_hash, context_hash; /* 0: none */
    uint32_t flags;
    uint64_t position; /* of a range's ALLOC: position of its record in the ring */
};

#endif
