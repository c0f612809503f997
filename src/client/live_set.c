/* The live set's slow half: insertion, removal, growth. See live_set.h. */
#include "client/live_set.h"

#include <errno.h>
#include <stddef.h>

#include "client/system.h"

#define LEVEL0_BUCKETS 4096u /* 256 KiB of address space: 28,672 addresses */
#define LEVEL_GROWTH_SHIFT 2 /* each level has four times the buckets of the one before */

/* A chunk of malloc is at least 32 bytes in glibc: 128 bytes hold at most four,
 * which fit a bucket beside a few of a colliding region. */
#define REGION_SHIFT_MIN 7u
#define REGION_SHIFT_MAX 12u

int live_set_init(struct live_set *set, uint64_t interval_bytes)
{
    if (set->mask0 == 0) {
        struct live_set_bucket *level0 = system_map_wiped(LEVEL0_BUCKETS * sizeof(*level0));
        if (level0 == NULL)
            return -ENOMEM;
        set->counters = system_map_wiped(LIVE_SET_COUNTERS * sizeof(*set->counters));
        if (set->counters == NULL) {
            system_unmap(level0, LEVEL0_BUCKETS * sizeof(*level0));
            return -ENOMEM;
        }
        set->level0 = level0;
        set->mask0 = LEVEL0_BUCKETS - 1;
    } /* else this is a forked child, which finds all levels mapped and wiped */
    uint32_t shift = REGION_SHIFT_MIN;
    while (shift < REGION_SHIFT_MAX && (UINT64_C(2) << shift) <= interval_bytes)
        shift++;
    set->region_shift = shift;
    return 0;
}

static size_t level_bytes(int level)
{
    return ((size_t)LEVEL0_BUCKETS << (LEVEL_GROWTH_SHIFT * level)) *
           sizeof(struct live_set_bucket);
}

void live_set_forget(struct live_set *set)
{
    if (set->mask0 == 0)
        return;
    system_wipe(set->level0, level_bytes(0));
    system_wipe(set->counters, LIVE_SET_COUNTERS * sizeof(*set->counters));
    for (int level = 1; level < LIVE_SET_LEVELS; level++) {
        if (set->deeper[level] != NULL)
            system_wipe(set->deeper[level], level_bytes(level));
    }
}

/* The address's bucket in a level; NULL if the level is not there (and, with
 * `create`, cannot be mapped). */
static struct live_set_bucket *bucket_at(struct live_set *set, int level, uint64_t address,
                                         bool create)
{
    if (level == 0)
        return &set->level0[live_set_hash(address, set->region_shift) & set->mask0];

    uint64_t buckets = (uint64_t)LEVEL0_BUCKETS << (LEVEL_GROWTH_SHIFT * level);
    /* Acquire: the mapping was made before its address was published. */
    struct live_set_bucket *table = load_acquire(&set->deeper[level]);
    if (table == NULL) {
        if (!create)
            return NULL;
        struct live_set_bucket *mapped = system_map_wiped(buckets * sizeof(*mapped));
        if (mapped == NULL)
            return NULL;
        if (cas_acq_rel(&set->deeper[level], &table, mapped))
            table = mapped;
        else
            system_unmap(mapped, buckets * sizeof(*mapped));
    }
    /* Regions shrink as levels grow, so that a crowded region spreads out. */
    uint32_t shift = set->region_shift;
    shift = shift > 4u + (uint32_t)level ? shift - (uint32_t)level : 4;
    return &table[live_set_hash(address, shift) & (buckets - 1)];
}

static bool bucket_put(struct live_set_bucket *bucket, uint64_t address)
{
    for (int i = 0; i < LIVE_SET_BUCKET_ADDRESSES; i++)
        if (load_relaxed(&bucket->address[i]) == address)
            return true; /* its free went past us; the daemon sees it live twice */
    for (int i = 0; i < LIVE_SET_BUCKET_ADDRESSES; i++) {
        uint64_t expected = 0;
        if (load_relaxed(&bucket->address[i]) == 0 &&
            cas_relaxed(&bucket->address[i], &expected, address))
            return true;
    }
    return false;
}

static bool bucket_take(struct live_set_bucket *bucket, uint64_t address)
{
    for (int i = 0; i < LIVE_SET_BUCKET_ADDRESSES; i++) {
        if (load_relaxed(&bucket->address[i]) == address) {
            store_relaxed(&bucket->address[i], 0);
            return true;
        }
    }
    return false;
}

static void counter_add(uint8_t *counter, int change)
{
    uint8_t count = load_relaxed(counter);
    while (count != UINT8_MAX && !cas_relaxed(counter, &count, (uint8_t)(count + change)))
        ;
}

/* Undoes the counts that lead to a level. */
static void leave_path(struct live_set *set, int level, uint64_t address)
{
    if (level > 0)
        counter_add(live_set_counter(set, address), -1);
    while (level-- > 0)
        sub_relaxed(&bucket_at(set, level, address, false)->overflow, 1);
}

bool live_set_insert(struct live_set *set, uint64_t address)
{
    int level;
    for (level = 0; level < LIVE_SET_LEVELS; level++) {
        struct live_set_bucket *bucket = bucket_at(set, level, address, true);
        if (bucket == NULL)
            break;
        if (bucket_put(bucket, address))
            return true;
        add_relaxed(&bucket->overflow, 1);
        if (level == 0)
            counter_add(live_set_counter(set, address), 1);
    }
    leave_path(set, level, address);
    return false;
}

bool live_set_remove(struct live_set *set, uint64_t address)
{
    if (address == 0)
        return false;
    for (int level = 0; level < LIVE_SET_LEVELS; level++) {
        struct live_set_bucket *bucket = bucket_at(set, level, address, false);
        if (bucket == NULL)
            return false;
        if (bucket_take(bucket, address)) {
            leave_path(set, level, address);
            return true;
        }
        if (load_relaxed(&bucket->overflow) == 0)
            return false;
    }
    return false;
}
