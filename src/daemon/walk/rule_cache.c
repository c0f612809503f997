/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from addresses to rules, and one that finds equal rules. */
#include "daemon/walk/rule_cache.h"

#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/keyed_hash.h"

#define PLACES_MAX (1u << 18)      /* 4 MiB */
#define RULES_BYTES_MAX (8u << 20) /* real files have several hundred rules of 700 bytes */

#define NO_ENTRY 0u
#define NO_RULE 1u
#define FIRST_RULE 2u

static size_t place_of(const struct rule_cache *cache, uint64_t address)
{
    size_t at = keyed_hash(address) & (cache->places_size - 1);
    while (cache->places[at].rule != NO_ENTRY && cache->places[at].address != address)
        at = (at + 1) & (cache->places_size - 1);
    return at;
}

bool rule_cache_find(const struct rule_cache *cache, uint64_t address,
                     const struct frame_rule **rule)
{
    if (cache->places_size == 0)
        return false;
    const struct rule_place *place = &cache->places[place_of(cache, address)];
    *rule = place->rule >= FIRST_RULE ? cache->rules[place->rule - FIRST_RULE].rule : NULL;
    return place->rule != NO_ENTRY;
}

static bool grow_places(struct rule_cache *cache)
{
    struct rule_cache grown = {.places_size =
                                   cache->places_size == 0 ? 256 : cache->places_size * 2};
    grown.places = calloc(grown.places_size, sizeof(*grown.places));
    if (grown.places == NULL)
        return false;
    for (size_t i = 0; i < cache->places_size; i++) {
        if (cache->places[i].rule != NO_ENTRY)
            grown.places[place_of(&grown, cache->places[i].address)] = cache->places[i];
    }
    free(cache->places);
    cache->places = grown.places;
    cache->places_size = grown.places_size;
    return true;
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

static size_t index_place(const uint32_t *index, size_t size, const struct kept_rule *rules,
                          uint64_t hash, const struct frame_rule *rule, size_t bytes)
{
    size_t at = hash & (size - 1);
    for (; index[at] != 0; at = (at + 1) & (size - 1)) {
        const struct kept_rule *kept = &rules[index[at] - 1];
        if (kept->hash == hash && kept->bytes == bytes && memcmp(kept->rule, rule, bytes) == 0)
            break;
    }
    return at;
}

static bool grow_index(struct rule_cache *cache)
{
    size_t size = cache->index_size == 0 ? 64 : cache->index_size * 2;
    uint32_t *index = calloc(size, sizeof(*index));
    if (index == NULL)
        return false;
    for (size_t i = 0; i < cache->rule_count; i++) {
        const struct kept_rule *kept = &cache->rules[i];
        index[index_place(index, size, cache->rules, kept->hash, kept->rule, kept->bytes)] =
            (uint32_t)i + 1;
    }
    free(cache->index);
    cache->index = index;
    cache->index_size = size;
    return true;
}

/* Keep a rule, and return 1 + its index. 0: no memory. */
static uint32_t keep_rule(struct rule_cache *cache, const struct frame_rule *rule, size_t bytes)
{
    uint64_t hash = hash_of(rule, bytes);
    if (cache->rule_count * 2 >= cache->index_size && !grow_index(cache))
        return 0;
    size_t at = index_place(cache->index, cache->index_size, cache->rules, hash, rule, bytes);
    if (cache->index[at] != 0)
        return cache->index[at];
    struct frame_rule *copy = malloc(bytes);
    if (copy == NULL || array_reserve(&cache->rules, &cache->rule_capacity, cache->rule_count, 1,
                                      sizeof(*cache->rules)) < 0) {
        free(copy);
        return 0;
    }
    memcpy(copy, rule, bytes);
    cache->rules[cache->rule_count++] = (struct kept_rule){copy, bytes, hash};
    cache->bytes += bytes;
    return cache->index[at] = (uint32_t)cache->rule_count;
}

const struct frame_rule *rule_cache_add(struct rule_cache *cache, uint64_t address,
                                        const struct frame_rule *rule, size_t bytes)
{
    uint32_t number = NO_RULE;
    if (cache->place_count >= PLACES_MAX || cache->bytes >= RULES_BYTES_MAX)
        rule_cache_clear(cache);
    if (cache->place_count * 2 >= cache->places_size && !grow_places(cache))
        return NULL;
    if (rule != NULL) {
        uint32_t kept = keep_rule(cache, rule, bytes);
        if (kept == 0)
            return NULL;
        number = kept - 1 + FIRST_RULE;
    }
    struct rule_place *place = &cache->places[place_of(cache, address)];
    cache->place_count += place->rule == NO_ENTRY;
    *place = (struct rule_place){.address = address, .rule = number};
    return rule != NULL ? cache->rules[number - FIRST_RULE].rule : NULL;
}

void rule_cache_clear(struct rule_cache *cache)
{
    for (size_t i = 0; i < cache->rule_count; i++)
        free(cache->rules[i].rule);
    free(cache->rules);
    free(cache->index);
    free(cache->places);
    *cache = (struct rule_cache){0};
}
