/*
 * What an allocator takes from its pages for an allocation, by the rule of its size classes: the
 * requested bytes, rounded up, with the header where there is one. Calls nothing: the rules are
 * stated in usable_size.c.
 */
#ifndef HEAPPROFD_DAEMON_USABLE_SIZE_H
#define HEAPPROFD_DAEMON_USABLE_SIZE_H

#include <stdint.h>

struct usable_size_rule {
    const char *name; /* for people */
    uint64_t (*taken)(uint64_t size, uint64_t address);
};

/* The rule of the allocator in the object with this file name; NULL: none is known. */
const struct usable_size_rule *usable_size_rule_of(const char *allocator);

#endif
