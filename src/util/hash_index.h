/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find items of an array by hash: an open hash table of their numbers. The items belong to the
 * caller, who compares them, and hashes keys from outside with the process's key (keyed_hash.h).
 */
#ifndef HEAPPROFD_UTIL_HASH_INDEX_H
#define HEAPPROFD_UTIL_HASH_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define HASH_INDEX_NONE UINT32_MAX

struct hash_index {
    uint32_t *slots; /* the number of an item + 1; 0: empty */
    size_t size;     /* a power of two up to 2^32, or 0 */
};

/* Return the hash of an item, the same as for its search. */
typedef uint64_t hash_index_hash(const void *items, uint32_t number);

/* Make room for one item more than the `count` that are in the index. Return 0, or -ENOMEM with the
 * index unchanged: no memory, or 3 * 2^30 items. */
int hash_index_grow(struct hash_index *index, size_t count, hash_index_hash *hash_of,
                    const void *items);

static inline int hash_index_reserve(struct hash_index *index, size_t count,
                                     hash_index_hash *hash_of, const void *items)
{
    return count < index->size / 4 * 3 ? 0 : hash_index_grow(index, count, hash_of, items);
}

void hash_index_free(struct hash_index *index);

/*
 * Return the slot of the item that has this hash and for which `is_wanted` is true, an expression
 * of the item's number `at`. If there is none, return the empty slot where the caller stores its
 * number + 1. hash_index_reserve() must have succeeded once: then empty slots end every search.
 */
#define HASH_INDEX_SLOT(index, hash, at, is_wanted)                                                \
    ({                                                                                             \
        const struct hash_index *index_ = (index);                                                 \
        size_t mask_ = index_->size - 1, place_ = (hash)&mask_;                                    \
        for (; index_->slots[place_] != 0; place_ = (place_ + 1) & mask_) {                        \
            uint32_t at = index_->slots[place_] - 1;                                               \
            if (is_wanted)                                                                         \
                break;                                                                             \
        }                                                                                          \
        &index_->slots[place_];                                                                    \
    })

/* Return the number of the item, or HASH_INDEX_NONE. */
#define HASH_INDEX_FIND(index, hash, at, is_wanted)                                                \
    ((index)->size == 0 ? HASH_INDEX_NONE : *HASH_INDEX_SLOT(index, hash, at, is_wanted) - 1)

#endif
