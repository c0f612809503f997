/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of symbols: answers for the code addresses of files, from run to run. It is in
 * $XDG_CACHE_HOME/heapprofd, else ~/.cache/heapprofd, with one file for each file with symbols. If
 * that directory cannot be made, or is not ours alone, nothing is cached, without a message. Any
 * number of processes may use it at once.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLIZE_SYMBOL_CACHE_H
#define HEAPPROFD_PROFILE_SYMBOLIZE_SYMBOL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_CACHE_KEY_BYTES 16
#define SYMBOL_CACHE_BYTES_MAX (UINT64_C(1) << 30)

/* Open the directory; make it if it is missing. Return -1 if it cannot be used. */
int symbol_cache_directory(void);

struct symbol_cache;

/* Open the cache. Above bytes_max, the least recently used files are deleted. Return NULL if
 * nothing can be cached. */
struct symbol_cache *symbol_cache_open(uint64_t bytes_max);
void symbol_cache_close(struct symbol_cache *cache);

struct symbol_answer {
    uint64_t address;
    uint64_t offset; /* of its bytes; private */
    uint32_t length;
    uint32_t kind;   /* for the caller's use */
    uint32_t frames; /* likewise */
    uint32_t unused;
};

struct symbol_answers;

/* Open the answers for a file: its name, and an identity that changes with its contents. Missing or
 * damaged answers count as none. Return NULL without memory, or if cache is NULL. */
struct symbol_answers *symbol_answers_open(struct symbol_cache *cache, const void *identity,
                                           size_t length, const char *name);
void symbol_answers_close(struct symbol_answers *answers);

/* Return the answer for an address, or NULL. *bytes is valid until closing. */
const struct symbol_answer *symbol_answers_find(struct symbol_answers *answers, uint64_t address,
                                                const uint8_t **bytes);
/* Add the answer for an address that was not found, once for each. Without room it is dropped. */
void symbol_answers_add(struct symbol_answers *answers, uint64_t address, uint32_t kind,
                        uint32_t frames, const void *bytes, size_t length);
/* Write the file with the old and the added answers. If that is too much, leave out the old ones,
 * unless this run used them. */
void symbol_answers_keep(struct symbol_answers *answers);

/* Return whether these bytes can be a file of symbol_answers_keep() for this key. */
bool symbol_answers_are_sound(const void *bytes, size_t length,
                              const uint8_t key[SYMBOL_CACHE_KEY_BYTES]);

#endif
