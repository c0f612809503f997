/* SPDX-License-Identifier: Apache-2.0 */
#include "production/fleet/sent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS ((size_t)SENT_ITEMS_MAX * 2)

int sent_make(struct sent *sent)
{
    *sent = (struct sent){.day = INT64_MIN};
    for (int i = 0; i < 2; i++)
        sent->halves[i] = calloc(SLOTS, sizeof(uint64_t));
    if (sent->halves[0] != NULL && sent->halves[1] != NULL)
        return 0;
    sent_free(sent);
    return -ENOMEM;
}

void sent_free(struct sent *sent)
{
    free(sent->halves[0]);
    free(sent->halves[1]);
    *sent = (struct sent){0};
}

void sent_begin_day(struct sent *sent, int64_t day)
{
    if (day == sent->day)
        return;
    for (int i = 0; i < 2; i++)
        memset(sent->halves[i], 0, SLOTS * sizeof(uint64_t));
    sent->count = 0;
    sent->day = day;
}

/* Return the slot of the hash, or the empty one for it. A half is never more than half full, so the
 * search ends. */
static uint64_t *slot_of(uint64_t *half, uint64_t hash)
{
    size_t at = hash & (SLOTS - 1);
    while (half[at] != 0 && half[at] != hash)
        at = (at + 1) & (SLOTS - 1);
    return &half[at];
}

bool sent_add(struct sent *sent, uint64_t hash)
{
    hash += hash == 0;
    uint64_t *slot = slot_of(sent->halves[0], hash);
    if (*slot == hash)
        return false;
    bool is_new = *slot_of(sent->halves[1], hash) != hash;
    if (sent->count >= SENT_ITEMS_MAX) {
        uint64_t *older = sent->halves[1];
        sent->halves[1] = sent->halves[0];
        sent->halves[0] = older;
        memset(older, 0, SLOTS * sizeof(uint64_t));
        sent->count = 0;
        slot = slot_of(older, hash);
    }
    *slot = hash;
    sent->count++;
    return is_new;
}
