/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame rules of one file by address. Most addresses share their rule with others, so each rule
 * is kept once. The size is bounded: a full cache is emptied and starts anew.
 */
#ifndef HEAPPROFD_RECORDER_WALK_RULE_CACHE_H
#define HEAPPROFD_RECORDER_WALK_RULE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/reader/frame_rule.h"
#include "util/hash_index.h"
#include "util/id_map.h"

struct rule_cache {
    struct id_map numbers; /* by address: 0 no rule, else 1 + index in rules */
    struct kept_rule {
        struct frame_rule *rule;
        size_t bytes;
        uint64_t hash;
    } * rules;
    size_t rule_count, rule_capacity;
    struct hash_index index; /* of rules */
    size_t bytes; /* total size of the rules */
};

/* Return whether the address is in the cache. *rule is its rule, NULL if it has none. */
bool rule_cache_find(const struct rule_cache *cache, uint64_t address,
                     const struct frame_rule **rule);

/* Keep a copy of the rule (NULL: none) of an address that is not in the cache. Return the copy,
 * valid until the next rule is added; NULL: no rule, or no memory. */
const struct frame_rule *rule_cache_add(struct rule_cache *cache, uint64_t address,
                                        const struct frame_rule *rule, size_t bytes);

void rule_cache_clear(struct rule_cache *cache);

#endif
