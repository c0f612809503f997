/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation or a free as it came out of the ring: the daemon's own copy,
 * which the profiled process can no longer change.
 */
#ifndef HEAPPROFD_DAEMON_RING_EVENT_H
#define HEAPPROFD_DAEMON_RING_EVENT_H

#include <stdint.h>

#include "wire/record.h"

struct heap_event {
    uint8_t type; /* RECORD_ALLOC, RECORD_FREE or RECORD_UNFREE */
    uint8_t heap;
    uint16_t thread;   /* slot */
    uint32_t time_ms;  /* not of an UNFREE */
    uint32_t ordinal;  /* not of an UNFREE */
    uint32_t interval; /* of an ALLOC, as are all that follow but the address */
    uint64_t address;
    uint64_t size;
    uint64_t stack;
    uint64_t type_hash, context_hash; /* 0: none */
    uint32_t flags;
    uint64_t position; /* of a range's ALLOC: where its record stood */
};

#endif
