/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers for the code addresses of files, kept from run to run in $XDG_CACHE_HOME/heapprofd (else
 * ~/.cache/heapprofd), one file for each file with symbols. Without such a directory that is ours
 * alone, nothing is kept, without a message. Any number of processes may use it at once.
 */
#ifndef HEAPPROFD_SYMBOLIZE_SYMBOL_CACHE_H
#define HEAPPROFD_SYMBOLIZE_SYMBOL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_CACHE_KEY_BYTES 16
#define SYMBOL_CACHE_BYTES_MAX (UINT64_C(1) << 30)

/* Open the directory, and make it if it is missing. Return -1 if there is none. */
int symbol_cache_directory(void);

struct symbol_cache;

/* NULL: nothing is kept. Above bytes_max, the least recently used files are deleted. */
struct symbol_cache *symbol_cache_open(uint64_t bytes_max);
void symbol_cache_close(struct symbol_cache *cache);

struct symbol_answer {
    uint64_t address;
    uint64_t offset; /* of its bytes; private */
    uint32_t length;
    uint32_t kind;   /* the caller's */
    uint32_t frames; /* the caller's */
    uint32_t unused;
};

struct symbol_answers;

/* Open the answers for this identity: a file's name and everything that tells it from others. There
 * are none if they are missing or damaged. NULL: no memory, or cache is NULL. */
struct symbol_answers *symbol_answers_open(struct symbol_cache *cache, const void *identity,
                                           size_t length, const char *name);
void symbol_answers_close(struct symbol_answers *answers);

/* The answer for an address; NULL: none. *bytes is valid until closing. */
const struct symbol_answer *symbol_answers_find(struct symbol_answers *answers, uint64_t address,
                                                const uint8_t **bytes);
/* Add an answer to be kept, as far as there is room; each address that was not found once. */
void symbol_answers_add(struct symbol_answers *answers, uint64_t address, uint32_t kind,
                        uint32_t frames, const void *bytes, size_t length);
/* Write the added answers beside the old ones; if that is too much, only those that were used. */
void symbol_answers_keep(struct symbol_answers *answers);

/* For tests: whether these bytes are what symbol_answers_keep() writes under this key. */
bool symbol_answers_are_sound(const void *bytes, size_t length,
                              const uint8_t key[SYMBOL_CACHE_KEY_BYTES]);

#endif
