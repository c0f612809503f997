/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map a file's ids to indexes. Ids are any numbers, but mostly follow each other, from any first
 * one: they are in pages of sixteen, a cache line each, which a hash table finds; the last page
 * used is tried first. An id far from all others costs a page.
 */
#ifndef HEAPPROFD_MEMORY_INFRA_ID_PAGES_H
#define HEAPPROFD_MEMORY_INFRA_ID_PAGES_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define ID_PAGES_NONE UINT32_MAX
#define ID_PAGE_SIZE 16u

struct id_pages {
    struct id_page {
        uint64_t key; /* ids / ID_PAGE_SIZE */
        uint32_t indexes[ID_PAGE_SIZE];
    } * pages;
    size_t count, capacity;
    uint32_t *table; /* of pages: index + 1; 0: empty */
    size_t size;     /* a power of two, or 0 */
    uint32_t last;   /* the page used last, if any */
};

static inline size_t id_pages_slot(const struct id_pages *ids, uint64_t key)
{
    size_t mask = ids->size - 1;
    size_t at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 24) & mask;
    while (ids->table[at] != 0 && ids->pages[ids->table[at] - 1].key != key)
        at = (at + 1) & mask;
    return at;
}

/* NULL: none. */
static inline struct id_page *id_pages_page(struct id_pages *ids, uint64_t key)
{
    if (ids->count == 0)
        return NULL;
    if (ids->pages[ids->last].key == key)
        return &ids->pages[ids->last];
    uint32_t found = ids->table[id_pages_slot(ids, key)];
    if (found == 0)
        return NULL;
    ids->last = found - 1;
    return &ids->pages[found - 1];
}

static inline uint32_t id_pages_find(struct id_pages *ids, uint64_t id)
{
    struct id_page *page = id_pages_page(ids, id / ID_PAGE_SIZE);
    return page == NULL ? ID_PAGES_NONE : page->indexes[id % ID_PAGE_SIZE];
}

static inline int id_pages_grow(struct id_pages *ids)
{
    struct id_pages grown = {.pages = ids->pages, .size = ids->size == 0 ? 64 : ids->size * 2};
    grown.table = calloc(grown.size, sizeof(*grown.table));
    if (grown.table == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ids->count; i++)
        grown.table[id_pages_slot(&grown, ids->pages[i].key)] = (uint32_t)i + 1;
    free(ids->table);
    ids->table = grown.table;
    ids->size = grown.size;
    return 0;
}

/* Set or replace. 0 or -ENOMEM. */
static inline int id_pages_set(struct id_pages *ids, uint64_t id, uint32_t index)
{
    struct id_page *page = id_pages_page(ids, id / ID_PAGE_SIZE);
    if (page == NULL) {
        if (ids->count >= UINT32_MAX - 1 ||
            (ids->count >= ids->size / 2 && id_pages_grow(ids) < 0) ||
            array_reserve(&ids->pages, &ids->capacity, ids->count, 1, sizeof(*ids->pages)) < 0)
            return -ENOMEM;
        page = &ids->pages[ids->count];
        page->key = id / ID_PAGE_SIZE;
        memset(page->indexes, 0xff, sizeof(page->indexes));
        ids->last = (uint32_t)ids->count++;
        size_t slot = id_pages_slot(ids, page->key);
        ids->table[slot] = ids->last + 1;
    }
    page->indexes[id % ID_PAGE_SIZE] = index;
    return 0;
}

/* Forget all ids; the room stays. */
static inline void id_pages_clear(struct id_pages *ids)
{
    ids->count = 0;
    if (ids->size > 0)
        memset(ids->table, 0, ids->size * sizeof(*ids->table));
}

static inline void id_pages_free(struct id_pages *ids)
{
    free(ids->pages);
    free(ids->table);
    *ids = (struct id_pages){0};
}

#endif
