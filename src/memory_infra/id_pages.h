/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Map a file's ids to indexes. Ids are any numbers, but mostly consecutive from any first one: they
 * are in pages of sixteen, a cache line each. The last used page is tried first. An id far from all
 * others costs a page.
 */
#ifndef HEAPPROFD_MEMORY_INFRA_ID_PAGES_H
#define HEAPPROFD_MEMORY_INFRA_ID_PAGES_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/id_map.h"

#define ID_PAGES_NONE UINT32_MAX
#define ID_PAGE_SIZE 16u

struct id_pages {
    struct id_page {
        uint64_t key; /* ids / ID_PAGE_SIZE */
        uint32_t indexes[ID_PAGE_SIZE];
    } * pages;
    size_t count, capacity;
    struct id_map numbers; /* by key: indexes of pages */
    uint32_t last;         /* the page used last, if any */
};

/* Return a page, or NULL. */
static inline struct id_page *id_pages_page(struct id_pages *ids, uint64_t key)
{
    if (ids->count == 0)
        return NULL;
    if (ids->pages[ids->last].key == key)
        return &ids->pages[ids->last];
    uint32_t found = id_map_find(&ids->numbers, key);
    if (found == ID_MAP_NONE)
        return NULL;
    ids->last = found;
    return &ids->pages[found];
}

static inline uint32_t id_pages_find(struct id_pages *ids, uint64_t id)
{
    struct id_page *page = id_pages_page(ids, id / ID_PAGE_SIZE);
    return page == NULL ? ID_PAGES_NONE : page->indexes[id % ID_PAGE_SIZE];
}

/* Set or replace. Return 0 or -ENOMEM. */
static inline int id_pages_set(struct id_pages *ids, uint64_t id, uint32_t index)
{
    struct id_page *page = id_pages_page(ids, id / ID_PAGE_SIZE);
    if (page == NULL) {
        if (ids->count >= ID_MAP_NONE ||
            ARRAY_RESERVE(&ids->pages, &ids->capacity, ids->count, 1) < 0 ||
            id_map_set(&ids->numbers, id / ID_PAGE_SIZE, (uint32_t)ids->count) < 0)
            return -ENOMEM;
        page = &ids->pages[ids->count];
        page->key = id / ID_PAGE_SIZE;
        memset(page->indexes, 0xff, sizeof(page->indexes));
        ids->last = (uint32_t)ids->count++;
    }
    page->indexes[id % ID_PAGE_SIZE] = index;
    return 0;
}

/* Forget all ids. The memory stays allocated. */
static inline void id_pages_clear(struct id_pages *ids)
{
    ids->count = 0;
    id_map_clear(&ids->numbers);
}

static inline void id_pages_free(struct id_pages *ids)
{
    free(ids->pages);
    id_map_free(&ids->numbers);
    *ids = (struct id_pages){0};
}

#endif
