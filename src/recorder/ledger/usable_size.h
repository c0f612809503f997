/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that an allocator takes from its pages for an allocation, by the rule of its size
 * classes: the requested bytes, rounded up, with the header if there is one. It calls no allocator:
 * the rules are in usable_size.c.
 */
#ifndef HEAPPROFD_RECORDER_LEDGER_USABLE_SIZE_H
#define HEAPPROFD_RECORDER_LEDGER_USABLE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

struct usable_size_rule {
    const char *name; /* for people */
    uint64_t (*taken)(uint64_t size, uint64_t address);
    /* Return whether the allocation has a mapping of its own, which begins at *begins and is as
     * long as taken() returns. */
    bool (*has_own_mapping)(uint64_t size, uint64_t address, uint64_t *begins);
};

/* Return the rule of the allocator in the object with this file name; NULL: unknown. */
const struct usable_size_rule *usable_size_rule_of(const char *allocator);

#endif
