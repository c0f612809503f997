/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HeapProfile_intern(): keep texts for the life of the process. The texts are in one area, and an
 * open-addressing hash table points to them; both only grow. Lock-free: if another thread inserts
 * the same text first, this thread uses that copy, and the bytes of its own copy stay unused.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "client/client.h"
#include "client/forward.h"
#include "client/system.h"
#include "heap_profile.h"

#define TEXTS_MAX 65536u
#define PLACES (2 * TEXTS_MAX) /* 1 MiB of address space */
#define TEXT_BYTES_MAX 1023u
#define MEMORY_BYTES ((size_t)TEXTS_MAX * (TEXT_BYTES_MAX + 1)) /* 64 MiB of address space */

static const char **places;
static char *memory;
static uint64_t memory_used;
static uint32_t text_count;

/* Map both tables. If several threads do so at once, the first mapping is kept. */
static bool map_tables(void)
{
    if (load_acquire(&memory) == NULL) {
        char *mapped = system_map(MEMORY_BYTES), *expected = NULL;
        if (mapped == NULL)
            return false;
        if (!cas_acq_rel(&memory, &expected, mapped))
            system_unmap(mapped, MEMORY_BYTES);
    }
    if (load_acquire(&places) == NULL) {
        const char **mapped = system_map(PLACES * sizeof(*places)), **expected = NULL;
        if (mapped == NULL)
            return false;
        if (!cas_acq_rel(&places, &expected, mapped))
            system_unmap(mapped, PLACES * sizeof(*places));
    }
    return true;
}

/* Return a copy of the text; NULL: there is no room. */
static const char *copy_text(const char *text, size_t length)
{
    uint64_t at = add_relaxed(&memory_used, length + 1);
    if (at + length + 1 > MEMORY_BYTES)
        return NULL;
    memcpy(memory + at, text, length);
    memory[at + length] = '\0';
    return memory + at;
}

static uint32_t first_place(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a (Fowler, Noll and Vo) */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return (uint32_t)(hash ^ hash >> 32) % PLACES;
}

EXPORT const char *HeapProfile_intern(const char *text)
{
    FORWARD(intern, text);
    if (text == NULL || !map_tables())
        return NULL;
    size_t length = strnlen(text, TEXT_BYTES_MAX);
    const char *copy = NULL;
    /* At most half of the places are in use, so the search finds the text or an empty place. */
    for (uint32_t place = first_place(text, length);; place = (place + 1) % PLACES) {
        const char *known = load_acquire(&places[place]);
        if (known == NULL) {
            if (copy == NULL) {
                if (add_relaxed(&text_count, 1) >= TEXTS_MAX) {
                    sub_relaxed(&text_count, 1);
                    return NULL;
                }
                copy = copy_text(text, length);
                if (copy == NULL)
                    return NULL;
            }
            if (cas_acq_rel(&places[place], &known, copy))
                return copy;
        }
        if (strncmp(known, text, length) == 0 && known[length] == '\0') {
            if (copy != NULL)
                sub_relaxed(&text_count, 1);
            return known;
        }
    }
}
