/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allocator takes from its pages for an allocation, by the rule of its size classes: the
 * requested bytes, rounded up, with the header where there is one. Calls nothing: the rules are
 * stated in usable_size.c.
 */
#ifndef HEAPPROFD_DAEMON_LEDGER_USABLE_SIZE_H
#define HEAPPROFD_DAEMON_LEDGER_USABLE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

struct usable_size_rule {
    const char *name; /* for people */
    uint64_t (*taken)(uint64_t size, uint64_t address);
    /* Whether the allocation has a mapping of its own, of as many bytes as are taken from `begins`
     * on. */
    bool (*is_alone)(uint64_t size, uint64_t address, uint64_t *begins);
};

/* The rule of the allocator in the object with this file name; NULL: none is known. */
const struct usable_size_rule *usable_size_rule_of(const char *allocator);

#endif
