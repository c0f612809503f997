/* SPDX-License-Identifier: Apache-2.0 */
/* Keep each rule once, and find it by address. */
#include "recorder/walk/rule_cache.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/keyed_hash.h"

#define ADDRESSES_MAX (1u << 18)   /* 8 MiB */
#define RULES_BYTES_MAX (8u << 20) /* real files have several hundred rules of 700 bytes */

#define NO_RULE 0u

bool rule_cache_find(const struct rule_cache *cache, uint64_t address,
                     const struct frame_rule **rule)
{
    uint32_t number = id_map_find(&cache->numbers, address);
    *rule = number == ID_MAP_NONE || number == NO_RULE ? NULL : cache->rules[number - 1].rule;
    return number != ID_MAP_NONE;
}

static uint64_t hash_of(const struct frame_rule *rule, size_t bytes)
{
    const char *at = (const char *)rule;
    uint64_t hash = bytes, word;
    for (size_t i = 0; i + sizeof(word) <= bytes; i += sizeof(word)) {
        memcpy(&word, at + i, sizeof(word));
        hash = keyed_hash(hash + word);
    }
    return hash;
}

static uint64_t hash_of_kept(const void *rules, uint32_t number)
{
    return ((const struct kept_rule *)rules)[number].hash;
}

/* Keep a rule, and return 1 + its index. 0: no memory. */
static uint32_t keep_rule(struct rule_cache *cache, const struct frame_rule *rule, size_t bytes)
{
    uint64_t hash = hash_of(rule, bytes);
    if (hash_index_reserve(&cache->index, cache->rule_count, hash_of_kept, cache->rules) < 0)
        return 0;
    const struct kept_rule *kept = cache->rules;
    uint32_t *slot = HASH_INDEX_SLOT(&cache->index, hash, i,
                                     kept[i].hash == hash && kept[i].bytes == bytes &&
                                         memcmp(kept[i].rule, rule, bytes) == 0);
    if (*slot != 0)
        return *slot;
    struct frame_rule *copy = malloc(bytes);
    if (copy == NULL ||
        ARRAY_RESERVE(&cache->rules, &cache->rule_capacity, cache->rule_count, 1) < 0) {
        free(copy);
        return 0;
    }
    memcpy(copy, rule, bytes);
    cache->rules[cache->rule_count++] = (struct kept_rule){copy, bytes, hash};
    cache->bytes += bytes;
    return *slot = (uint32_t)cache->rule_count;
}

const struct frame_rule *rule_cache_add(struct rule_cache *cache, uint64_t address,
                                        const struct frame_rule *rule, size_t bytes)
{
    uint32_t number = NO_RULE;
    if (id_map_count(&cache->numbers) >= ADDRESSES_MAX || cache->bytes >= RULES_BYTES_MAX)
        rule_cache_clear(cache);
    if (rule != NULL && (number = keep_rule(cache, rule, bytes)) == 0)
        return NULL;
    if (id_map_set(&cache->numbers, address, number) < 0)
        return NULL;
    return rule != NULL ? cache->rules[number - 1].rule : NULL;
}

void rule_cache_clear(struct rule_cache *cache)
{
    for (size_t i = 0; i < cache->rule_count; i++)
        free(cache->rules[i].rule);
    free(cache->rules);
    hash_index_free(&cache->index);
    id_map_free(&cache->numbers);
    *cache = (struct rule_cache){0};
}
