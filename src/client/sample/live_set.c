/* SPDX-License-Identifier: Apache-2.0 */
/* The slow half of the live set: insertion, removal, growth. */
#include "client/sample/live_set.h"

#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "client/system.h"

/* Lines of level 0. Only lines whose memory has samples are touched: 16 MiB of them describe 8 GiB
 * of heap at an interval of 4096. If nearly everything is sampled, 64 MiB hold 15 million
 * allocations. */
#define LINES (UINT32_C(1) << 18)
#define LINES_DETAILED (UINT32_C(1) << 20)
#define LINES_MIN (UINT32_C(1) << 13) /* if address space is limited: 512 KiB */
#define DETAILED_INTERVAL_MAX 256u
_Static_assert(LINES_MIN >= 1 << LIVE_SET_HIGH_BITS, "a line's index tells an address's high bits");

/* A chunk of malloc is at least 32 bytes in glibc: 512 bytes hold at most sixteen, one more than a
 * line. At interval 1, blocks of 64 bytes take 10 bytes of the table each, of 200 bytes 26; with
 * half the region twice as much. Of the smallest, one in sixteen is in a deeper level. Blocks of
 * other heaps may be 16 bytes apart. */
#define REGION_SHIFT_MALLOC 9u
#define REGION_SHIFT_MIN 8u
#define REGION_SHIFT_MAX 26u

/* A stretch is the largest power of two within an eighth of an interval, so at most one in 8 has a
 * sample. Stretches beyond 4 KiB are at most a 32nd: where samples are so far apart, the filter
 * touches few pages, and the memory that a program uses again and again is often beside a sample.
 * Allocators align to 16. */
#define NEAR_SHIFT_MIN 4u
#define NEAR_SHIFT_LARGE 12u
#define NEAR_SHIFT_MAX 20u
/* Where every allocation was recorded before, stretches of two or three small blocks each tell
 * those that are still live from their neighbours. */
#define NEAR_SHIFT_CHANGING 7u
/* The filter ends when, of this number of insertions, one in four finds its stretch with an
 * address: a free in a large heap, whose lines are cold, would read 1.25 of ours. */
#define NEAR_INSERTIONS 4096u
#define NEAR_COLLISIONS_MAX (NEAR_INSERTIONS / 4)

/* Each level has four times the buckets of the one before. Where full lines are rare, a small level
 * of four pages is in front of them. Other heaps than malloc's may have ids that no line can hold.
 */
#define BUCKET_SHIFT_SMALL 8u
#define BUCKET_SHIFT 14u
#define BUCKET_SHIFT_MAX 26u
#define LEVEL_GROWTH_SHIFT 2u
_Static_assert(BUCKET_SHIFT + LEVEL_GROWTH_SHIFT * (LIVE_SET_LEVELS - 3) == BUCKET_SHIFT_MAX,
               "behind a small level, the last one is the largest");
/* Levels that are mapped from the start where full lines are rare: 1 MiB, for 110,000 addresses at
 * best. */
#define LEVELS_RESERVED 2
/* Overflowed addresses are counted by 64 bytes, and where they are rare by an eighth of a line's
 * region. */
#define COUNTER_SHIFT 6u
#define COUNTERS_OF_REGION_SHIFT 3u
/* Addresses of one region share a bucket of the first levels. */
#define BUCKET_REGION_SHIFT 8

struct live_set_nothing live_set_nothing = {.anything = {UINT8_MAX, UINT8_MAX}};

/* --- memory --- */

static bool is_limited(void)
{
    struct rlimit64 limit;
    return (system_call(CALL_LIMIT_OF_ADDRESSES, &limit) == 0 &&
            limit.rlim_cur != RLIM64_INFINITY) ||
           (system_call(CALL_LIMIT_OF_DATA, &limit) == 0 && limit.rlim_cur != RLIM64_INFINITY);
}

/* *count: in, the wanted lines; out, the mapped ones. */
static struct live_set_line *map_lines(uint32_t *count)
{
    /* The kernel counts private memory as data, touched or not. */
    if (*count > LINES_MIN && is_limited())
        *count = LINES_MIN;
    struct live_set_line *lines = system_map_wiped(*count * sizeof(*lines));
    if (lines == NULL && *count > LINES_MIN) {
        *count = LINES_MIN;
        lines = system_map_wiped(*count * sizeof(*lines));
    }
    return lines;
}

static uint32_t bucket_shift_at(const struct live_set *set, int level)
{
    if (level <= set->small_levels)
        return BUCKET_SHIFT_SMALL;
    return BUCKET_SHIFT + LEVEL_GROWTH_SHIFT * (uint32_t)(level - 1 - set->small_levels);
}

static size_t level_bytes(const struct live_set *set, int level)
{
    return sizeof(struct live_set_bucket) << bucket_shift_at(set, level);
}

/* --- one mapping: the counters of both kinds, the levels that are there from the start, and a flag
 * for address 0, whose place means free --- */

static int levels_reserved(const struct live_set *set)
{
    return set->small_levels > 0 ? LEVELS_RESERVED : 0;
}

/* Return where a level begins that is there from the start; after the last one: where the flag is.
 */
static size_t level_start(const struct live_set *set, int level)
{
    size_t start = (size_t)LIVE_SET_COUNTERS + LIVE_SET_NEAR_COUNTERS;
    for (int i = 1; i < level; i++)
        start += level_bytes(set, i);
    return start;
}

static size_t flag_start(const struct live_set *set)
{
    return level_start(set, levels_reserved(set) + 1);
}

static size_t counters_bytes(const struct live_set *set)
{
    return flag_start(set) + sizeof(uint64_t);
}

static uint32_t *holds_zero(const struct live_set *set)
{
    return (uint32_t *)(void *)(set->counters + flag_start(set));
}

/* Map it for a new set. Return 0 or -ENOMEM. */
static int map_counters(struct live_set *set, bool rarely_full)
{
    set->small_levels = rarely_full ? 1 : 0;
    uint8_t *counters = system_map_wiped(counters_bytes(set));
    if (counters == NULL)
        return -ENOMEM;
    set->counters = counters;
    for (int level = 1; level <= levels_reserved(set); level++)
        store_release(&set->deeper[level],
                      (struct live_set_bucket *)(void *)(counters + level_start(set, level)));
    store_release(&set->near,
                  (uintptr_t)(counters + LIVE_SET_COUNTERS) - (uintptr_t)&live_set_nothing);
    return 0;
}

/* --- further levels --- */

/* Map a level that was not mapped a moment ago. Return it, or NULL. */
static struct live_set_bucket *map_level(struct live_set *set, int level)
{
    if (bucket_shift_at(set, level) > BUCKET_SHIFT_MAX)
        return NULL;
    struct live_set_bucket *table = NULL, *mapped = system_map_wiped(level_bytes(set, level));
    if (mapped == NULL)
        return NULL;
    if (cas_acq_rel(&set->deeper[level], &table, mapped))
        return mapped;
    system_unmap(mapped, level_bytes(set, level));
    return table;
}

static uint8_t *near_counters(const struct live_set *set)
{
    return set->counters + LIVE_SET_COUNTERS;
}

/* Make live_set_has_near() true for every address: a counter of 255 stays. It may be called at any
 * time. A thread that frees an address sees the shift with which the address was inserted, or a
 * newer one. Counters of an older shift stay as they are. */
static void say_always_near(struct live_set *set)
{
    store_relaxed(&near_counters(set)[0], UINT8_MAX);
    store_relaxed(&near_counters(set)[1], UINT8_MAX);
    store_release(&set->near_shift, LIVE_SET_NEAR_NOTHING_SHIFT);
}

/* Acquire: a thread that does not count an address sees that the filter is true for it, and so
 * does whoever frees the address. */
static bool counts_near(const struct live_set *set)
{
    return load_acquire(&set->count_shift) != LIVE_SET_NEAR_NOTHING_SHIFT;
}

static uint8_t *near_counter(const struct live_set *set, uint64_t address)
{
    uint64_t stretch = address >> (load_relaxed(&set->count_shift) & 63);
    return &near_counters(set)[stretch & (LIVE_SET_NEAR_COUNTERS - 1)];
}

static uint32_t near_shift_for(uint64_t interval_bytes)
{
    uint32_t shift = NEAR_SHIFT_MIN;
    while (shift < NEAR_SHIFT_MAX &&
           UINT64_C(2) << shift <= interval_bytes / (shift < NEAR_SHIFT_LARGE ? 8 : 32))
        shift++;
    return shift;
}

/* The largest power of two that is at most nine intervals: a line then has room for the samples of
 * all but one region in forty. */
static uint32_t region_shift_for(uint64_t interval_bytes, bool is_malloc)
{
    uint32_t shift = is_malloc ? REGION_SHIFT_MALLOC : REGION_SHIFT_MIN;
    while (shift < REGION_SHIFT_MAX && (UINT64_C(2) << shift) / 9 <= interval_bytes)
        shift++;
    return shift;
}

static int init(struct live_set *set, uint64_t interval_bytes, uint32_t count, bool is_malloc)
{
    bool rarely_full = is_malloc && interval_bytes > DETAILED_INTERVAL_MAX;
    if (set->mask0 == 0) {
        struct live_set_line *lines = map_lines(&count);
        if (lines == NULL)
            return -ENOMEM;
        if (map_counters(set, rarely_full) < 0) {
            system_unmap(lines, count * sizeof(*lines));
            return -ENOMEM;
        }
        store_relaxed(&set->level0, lines);
        /* Some lines will be full. Then there may be no address space. */
        if (interval_bytes <= DETAILED_INTERVAL_MAX)
            map_level(set, 1);
        store_release(&set->mask0, count - 1);
    } /* else this is a forked child or another session, which finds all levels mapped and wiped */
    uint32_t shift = region_shift_for(interval_bytes, is_malloc);
    store_relaxed(&set->region_shift, shift - LIVE_SET_PLACE_SHIFT);
    store_relaxed(&set->counter_shift,
                  rarely_full ? shift - COUNTERS_OF_REGION_SHIFT : COUNTER_SHIFT);
    set->near_insertions = set->near_collisions = 0;
    set->keeps_counting = false;
    if (interval_bytes <= DETAILED_INTERVAL_MAX) {
        store_relaxed(&set->count_shift, LIVE_SET_NEAR_NOTHING_SHIFT);
        say_always_near(set);
        return 0;
    }
    store_relaxed(&set->count_shift, near_shift_for(interval_bytes));
    store_release(&set->near_shift, set->count_shift);
    return 0;
}

void live_set_may_become_sparse(struct live_set *set)
{
    set->keeps_counting = true;
    /* A filter that counts already goes on as it is: the set's interval is long. */
    if (counts_near(set))
        return;
    store_relaxed(&set->count_shift, NEAR_SHIFT_CHANGING);
}

void live_set_expect_few(struct live_set *set, bool few)
{
    if (!counts_near(set))
        return;
    if (few)
        store_release(&set->near_shift, load_relaxed(&set->count_shift));
    else
        say_always_near(set);
}

static uint32_t lines_for(uint64_t interval_bytes)
{
    return interval_bytes <= DETAILED_INTERVAL_MAX ? LINES_DETAILED : LINES;
}

int live_set_init(struct live_set *set, uint64_t interval_bytes)
{
    return init(set, interval_bytes, lines_for(interval_bytes), false);
}

int live_set_init_for_malloc(struct live_set *set, uint64_t interval_bytes)
{
    return init(set, interval_bytes, lines_for(interval_bytes), true);
}

int live_set_init_small(struct live_set *set, uint64_t interval_bytes)
{
    return init(set, interval_bytes, LINES_MIN, false);
}

void live_set_forget(struct live_set *set)
{
    if (set->mask0 == 0)
        return;
    system_wipe(set->level0, ((size_t)set->mask0 + 1) * sizeof(*set->level0));
    system_wipe(set->counters, counters_bytes(set));
    for (int level = levels_reserved(set) + 1; level < LIVE_SET_LEVELS; level++) {
        if (set->deeper[level] != NULL)
            system_wipe(set->deeper[level], level_bytes(set, level));
    }
}

/* --- level 0 --- */

/* Return whether line and place identify the address. That holds for every address from malloc;
 * others go to deeper levels. */
static bool has_place(uint64_t address)
{
    return address >> (LIVE_SET_HIGH_SHIFT + LIVE_SET_HIGH_BITS) == 0 &&
           address % (1 << LIVE_SET_PLACE_SHIFT) == 0 && live_set_place(address) != 0;
}

/* Places of a line, a bit for each: bit i for place[i]. */
struct line_places {
    uint32_t equal, free;
};

static inline struct line_places find_places(const struct live_set_line *line, uint32_t place)
{
#ifdef LIVE_SET_WORD_BY_WORD
    struct line_places found = {0, 0};
    for (unsigned i = 0; i < LIVE_SET_LINE_PLACES; i++) {
        uint32_t held = load_relaxed(&line->place[i]);
        found.equal |= (uint32_t)(held == place) << i;
        found.free |= (uint32_t)(held == 0) << i;
    }
    return found;
#else
    /* As in live_set_line_has(). The first word is the overflow count. */
    const volatile vector_u32x4 *words = (const volatile vector_u32x4 *)line;
    vector_u32x4 a = words[0], b = words[1], c = words[2], d = words[3];
    return (struct line_places){
        .equal = vector_bits((vector_u32x4)(a == place), (vector_u32x4)(b == place),
                             (vector_u32x4)(c == place), (vector_u32x4)(d == place)) >>
                 1,
        .free = vector_bits((vector_u32x4)(a == 0), (vector_u32x4)(b == 0), (vector_u32x4)(c == 0),
                            (vector_u32x4)(d == 0)) >>
                1,
    };
#endif
}

static bool line_put(struct live_set_line *line, uint32_t place)
{
    struct line_places found = find_places(line, place);
    if (unlikely(found.equal != 0))
        return true; /* we missed its free; the daemon sees it live twice */
    for (uint32_t free = found.free; free != 0; free &= free - 1) {
        uint32_t expected = 0;
        if (likely(cas_relaxed(&line->place[__builtin_ctz(free)], &expected, place)))
            return true;
    }
    return false;
}

static bool line_take(struct live_set_line *line, uint32_t place)
{
    uint32_t equal = find_places(line, place).equal;
    if (equal == 0)
        return false;
    store_relaxed(&line->place[__builtin_ctz(equal)], 0);
    return true;
}

/* --- deeper levels --- */

/* Return the address's bucket in a level from 1 on; NULL if the level is not mapped (with `create`:
 * cannot be mapped). */
static struct live_set_bucket *bucket_at(struct live_set *set, int level, uint64_t address,
                                         bool create)
{
    uint64_t buckets = UINT64_C(1) << bucket_shift_at(set, level);
    /* Acquire: the mapping was made before its address was published. */
    struct live_set_bucket *table = load_acquire(&set->deeper[level]);
    if (table == NULL && create)
        table = map_level(set, level);
    if (table == NULL)
        return NULL;
    /* Regions shrink as levels grow, so that a crowded region spreads out. */
    int smaller = level > set->small_levels ? level - 1 - set->small_levels : 0;
    int most = BUCKET_REGION_SHIFT - LIVE_SET_PLACE_SHIFT;
    uint32_t shift = (uint32_t)(BUCKET_REGION_SHIFT - (smaller < most ? smaller : most));
    return &table[live_set_hash(address, shift) & (buckets - 1)];
}

static bool bucket_put(struct live_set_bucket *bucket, uint64_t address)
{
    for (int i = 0; i < LIVE_SET_BUCKET_ADDRESSES; i++)
        if (load_relaxed(&bucket->address[i]) == address)
            return true;
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

/* Return the count before. */
static uint8_t counter_add(uint8_t *counter, int change)
{
    uint8_t count = load_relaxed(counter);
    while (count != UINT8_MAX && !cas_relaxed(counter, &count, (uint8_t)(count + change)))
        ;
    return count;
}

/* Count an address that is not in its line: change is 1 or -1. */
static void count_overflow(struct live_set *set, uint64_t address, int change)
{
    add_relaxed(&live_set_line(set, address)->overflow, (uint32_t)change);
    counter_add(live_set_counter(set, address), change);
}

/* Undo the counts on the way to a deeper level. */
static void leave_path(struct live_set *set, int level, uint64_t address)
{
    while (--level > 0)
        sub_relaxed(&bucket_at(set, level, address, false)->overflow, 1);
    count_overflow(set, address, -1);
}

static bool insert_deeper(struct live_set *set, uint64_t address)
{
    count_overflow(set, address, 1);
    int level;
    for (level = 1; level < LIVE_SET_LEVELS; level++) {
        struct live_set_bucket *bucket = bucket_at(set, level, address, true);
        if (bucket == NULL)
            break;
        if (bucket_put(bucket, address))
            return true;
        add_relaxed(&bucket->overflow, 1);
    }
    leave_path(set, level, address);
    return false;
}

static bool remove_deeper(struct live_set *set, uint64_t address)
{
    for (int level = 1; level < LIVE_SET_LEVELS; level++) {
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

/* --- the filter --- */

/* End the filter if many stretches have an address. One that may be asked later goes on counting.
 */
static void check_crowding(struct live_set *set)
{
    if (load_relaxed(&set->near_collisions) > NEAR_COLLISIONS_MAX) {
        say_always_near(set);
        if (!set->keeps_counting)
            store_release(&set->count_shift, LIVE_SET_NEAR_NOTHING_SHIFT);
    }
    store_relaxed(&set->near_insertions, 0);
    store_relaxed(&set->near_collisions, 0);
}

static void near_add(struct live_set *set, uint64_t address)
{
    if (!counts_near(set))
        return;
    uint8_t before = counter_add(near_counter(set, address), 1);
    uint16_t insertions = load_relaxed(&set->near_insertions) + 1;
    store_relaxed(&set->near_insertions, insertions);
    if (before != 0)
        store_relaxed(&set->near_collisions, load_relaxed(&set->near_collisions) + 1);
    if (unlikely(insertions >= NEAR_INSERTIONS))
        check_crowding(set);
}

static void near_remove(struct live_set *set, uint64_t address)
{
    if (counts_near(set))
        counter_add(near_counter(set, address), -1);
}

/* --- the set --- */

bool live_set_insert(struct live_set *set, uint64_t address)
{
    near_add(set, address);
    if (unlikely(address == 0)) {
        uint32_t held = 0;
        if (cas_relaxed(holds_zero(set), &held, 1))
            count_overflow(set, 0, 1);
        return true;
    }
    if (likely(has_place(address)) &&
        line_put(live_set_line(set, address), live_set_place(address)))
        return true;
    if (insert_deeper(set, address))
        return true;
    near_remove(set, address);
    return false;
}

bool live_set_remove(struct live_set *set, uint64_t address)
{
    if (address == 0) {
        uint32_t held = 1;
        if (set->counters == NULL || !cas_relaxed(holds_zero(set), &held, 0))
            return false;
        count_overflow(set, 0, -1);
        near_remove(set, 0);
        return true;
    }
    struct live_set_line *line = live_set_line(set, address);
    if (!(has_place(address) && line_take(line, live_set_place(address))) &&
        (load_relaxed(&line->overflow) == 0 || !remove_deeper(set, address)))
        return false;
    near_remove(set, address);
    return true;
}

/* --- ranges --- */

static bool deeper_holds(struct live_set *set, uint64_t address)
{
    if (load_relaxed(live_set_counter(set, address)) == 0)
        return false;
    for (int level = 1; level < LIVE_SET_LEVELS; level++) {
        const struct live_set_bucket *bucket = bucket_at(set, level, address, false);
        if (bucket == NULL)
            return false;
        for (int i = 0; i < LIVE_SET_BUCKET_ADDRESSES; i++) {
            if (load_relaxed(&bucket->address[i]) == address)
                return true;
        }
        if (load_relaxed(&bucket->overflow) == 0)
            return false;
    }
    return false;
}

/* Return the set's lowest address in [start, end), which is part of one region; or `end`. */
static uint64_t region_next(struct live_set *set, uint64_t start, uint64_t end)
{
    const struct live_set_line *line = live_set_line(set, start);
    uint64_t high = start >> LIVE_SET_HIGH_SHIFT << LIVE_SET_HIGH_SHIFT, found = end;
    for (int i = 0; i < LIVE_SET_LINE_PLACES; i++) {
        uint64_t place = load_relaxed(&line->place[i]);
        uint64_t address = high | place << LIVE_SET_PLACE_SHIFT;
        if (place != 0 && address >= start && address < found)
            found = address;
    }
    if (load_relaxed(&line->overflow) == 0)
        return found;
    for (uint64_t at = start; at < found; at += 1u << LIVE_SET_PLACE_SHIFT) {
        if (deeper_holds(set, at))
            return at;
    }
    return found;
}

bool live_set_next(struct live_set *set, uint64_t *address, uint64_t end)
{
    if (set->counters == NULL) /* not initialized: empty */
        return false;
    uint64_t step = UINT64_C(1) << (set->region_shift + LIVE_SET_PLACE_SHIFT);
    uint64_t at = (*address + 7) & ~UINT64_C(7);
    while (at < end) {
        uint64_t region_end = (at & ~(step - 1)) + step;
        if (region_end > end)
            region_end = end;
        *address = region_next(set, at, region_end);
        if (*address < region_end)
            return true;
        at = region_end;
    }
    return false;
}
