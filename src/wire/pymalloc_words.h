/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's tables of memory functions, as words. A table is in the interpreter's writable data;
 * the four addresses of the functions malloc, calloc, realloc and free follow each other there.
 * Shared by the client, which has the interpreter in its own memory, and the attacher, which reads
 * it from outside.
 */
#ifndef HEAPPROFD_WIRE_PYMALLOC_WORDS_H
#define HEAPPROFD_WIRE_PYMALLOC_WORDS_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/barrier.h"

#define PYMALLOC_WORDS 4u
#define PYMALLOC_DATA_BYTES_MAX (64u << 20) /* that are searched; CPython has less than 2 MiB */
#define PYMALLOC_PROGRAM_HEADERS_MAX 64u

/* The interpreter's data: [start, end), multiples of a word. */
struct pymalloc_data {
    uint64_t start, end;
};

/* Set `data` to the last writable segment, after what the loader has made read-only (RELRO). Return
 * false if there is none. */
static inline bool pymalloc_data_find(struct pymalloc_data *data, uint64_t base,
                                      const Elf64_Phdr *segments, unsigned count,
                                      uint64_t page_bytes)
{
    uint64_t read_only_end = 0;
    *data = (struct pymalloc_data){0, 0};
    for (unsigned i = 0; i < count && i < PYMALLOC_PROGRAM_HEADERS_MAX; i++) {
        uint64_t from = base + segments[i].p_vaddr, to = from + segments[i].p_memsz;
        if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_W) != 0)
            *data = (struct pymalloc_data){from, to};
        else if (segments[i].p_type == PT_GNU_RELRO)
            read_only_end = to;
    }
    read_only_end = (read_only_end + page_bytes - 1) & ~(page_bytes - 1);
    if (read_only_end > data->start)
        data->start = read_only_end;
    data->start = (data->start + sizeof(uint64_t) - 1) & ~(uint64_t)(sizeof(uint64_t) - 1);
    data->end &= ~(uint64_t)(sizeof(uint64_t) - 1);
    bool found = data->start < data->end && data->end - data->start <= PYMALLOC_DATA_BYTES_MAX;
    if (!found)
        *data = (struct pymalloc_data){0, 0};
    return found;
}

static inline bool pymalloc_words_are(const uint64_t *words, const uint64_t wanted[PYMALLOC_WORDS])
{
    for (unsigned i = 0; i < PYMALLOC_WORDS; i++) {
        if (load_relaxed(&words[i]) != wanted[i])
            return false;
    }
    return true;
}

/* Return the next table with these functions in [from, end), or NULL. */
static inline uint64_t *pymalloc_words_search(uint64_t *from, const uint64_t *end,
                                              const uint64_t wanted[PYMALLOC_WORDS])
{
    for (uint64_t *at = from; at + PYMALLOC_WORDS <= end; at++) {
        if (__builtin_expect(load_relaxed(at) == wanted[0], 0) && pymalloc_words_are(at, wanted))
            return at;
    }
    return NULL;
}

/* Last word first: when replacements allocate, they free already. */
static inline void pymalloc_words_set(uint64_t *table, const uint64_t functions[PYMALLOC_WORDS])
{
    for (unsigned i = PYMALLOC_WORDS; i-- > 0;)
        store_release(&table[i], functions[i]);
}

#endif
