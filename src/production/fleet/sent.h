/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remembers hashes of what was sent, in two halves of bounded size: when the newer half is full,
 * the older one is forgotten. An item that is still in use moves to the newer half.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_SENT_H
#define HEAPPROFD_PRODUCTION_FLEET_SENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sent {
    uint64_t *halves[2]; /* open hash tables; 0: empty; [0] is the newer one */
    size_t count;        /* in the newer half */
    int64_t day;
};

/* Items of a half: at 16 bytes each for both halves at half load, 2 MiB. */
#define SENT_ITEMS_MAX 65536u

/* Return 0 or -ENOMEM. */
int sent_make(struct sent *sent);
void sent_free(struct sent *sent);

/* Forget everything if the day is another one than at the last call. */
void sent_begin_day(struct sent *sent, int64_t day);

/* Return whether the item is new, and remember it. */
bool sent_add(struct sent *sent, uint64_t hash);

#endif
