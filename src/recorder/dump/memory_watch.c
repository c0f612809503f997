/* SPDX-License-Identifier: Apache-2.0 */
/* Take snapshots of a process's memory from smaps, pagemap and the ledger's live samples. */
#include "recorder/dump/memory_watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "recorder/dump/memory_maps.h"
#include "recorder/ledger/usable_size.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/process_files.h"
#include "util/sorted_search.h"

/* Bounds, so that the ring is not kept waiting: a million samples would take 30 ms. A page's state
 * takes 8 bytes. */
#define SAMPLES_MAX (1u << 18)
#define PAGES_READ_MAX (1u << 21)
#define READS_MAX (1u << 14)
/* Of blocks in several mappings. */
#define DIVISIONS_MAX (1u << 20)
#define PAGES_AT_ONCE 512u
/* At most one part in 500 of the time. At one in 100, these readings were a third of the profiler's
 * processor time for a program of a second with few samples. */
#define PAUSE_TIMES 500u
/* While a process grows: one part in 50, and only if there are 4 MiB and a quarter more to see. */
#define PAUSE_PARTS_OF_GROWTH 10u
#define GROWTH_BYTES (UINT64_C(4) << 20)
#define GROWTH_PART 4u
/* One that has doubled: one part in 10, a few times in its life. It may end before the next. */
#define PAUSE_PARTS_OF_DOUBLE 50u

/* One that has changed and stands still since so long, within that: at most as often as one that
 * grows. */
#define STILL_US 100000u
#define STILL_PART 32
#define STILL_BYTES (256 << 10)

/* Less that is free or absent is no reason to look at callsites. */
#define SITES_BYTES (4 << 20)

#define PAGE_IS_PRESENT (UINT64_C(1) << 63)
#define PAGE_IS_SWAPPED (UINT64_C(1) << 62)
#define PAGE_IS_OF_FILE (UINT64_C(1) << 61)
#define PAGE_IS_EXCLUSIVE (UINT64_C(1) << 56)

/* The usual limit of a stack, assumed also if the limit of a process is lower. */
#define STACK_BYTES (8u << 20)
#define GUARDS_BYTES (64u << 10)

struct survey {
    struct memory_snapshot *snapshot;
    struct ledger *ledger;
    const struct ledger_heap *heap; /* whose samples are visited */
    struct memory_maps maps;
    const struct usable_size_rule *rule;
    int pagemap;
    uint64_t page_bytes, pages_left, reads_left;
    uint32_t divisions_left;                        /* of blocks whose mapping is divided */
    double others_live_bytes, others_live_variance; /* of one heap */
    struct memory_sites sites;
};

struct page_counts {
    uint64_t absent, swapped;
    uint64_t doubtful; /* as in struct memory_map */
};

/* A page that was only read may be the kernel's page of zeros, which many programs have at many
 * places and which is no part of the RSS. Older kernels say of their huge page of zeros that it is
 * of a file, which no page of an anonymous mapping is. A page that is shared with a child looks the
 * same. */
static bool is_doubtful(uint64_t state, bool is_anonymous)
{
    return is_anonymous &&
           (state & (PAGE_IS_PRESENT | PAGE_IS_SWAPPED | PAGE_IS_EXCLUSIVE)) == PAGE_IS_PRESENT;
}

/* Count the pages of [first, first + count) that are not there, or not certainly. Return false if
 * they cannot be read or are too many. */
static bool count_pages(struct survey *survey, uint64_t first, uint64_t count, bool is_anonymous,
                        struct page_counts *counts)
{
    uint64_t states[PAGES_AT_ONCE];
    *counts = (struct page_counts){0};
    while (count > 0) {
        uint64_t some = count < PAGES_AT_ONCE ? count : PAGES_AT_ONCE;
        if (survey->pages_left < some || survey->reads_left == 0)
            return false;
        heartbeat_send();
        survey->pages_left -= some;
        survey->reads_left--;
        if (pread(survey->pagemap, states, some * sizeof(*states),
                  (off_t)(first * sizeof(*states))) != (ssize_t)(some * sizeof(*states)))
            return false;
        for (uint64_t i = 0; i < some; i++) {
            counts->swapped += (states[i] & PAGE_IS_SWAPPED) != 0;
            counts->absent += (states[i] & (PAGE_IS_SWAPPED | PAGE_IS_PRESENT)) == 0;
            counts->doubtful += is_doubtful(states[i], is_anonymous);
        }
        first += some;
        count -= some;
    }
    return true;
}

/* Add the parts of [begins, ends) that are not in memory. Only whole pages count: a page that is
 * shared with other allocations is touched. Return false if it cannot be found out. `carved`: they
 * are a part of a mapping that is not the allocator's. */
static bool survey_pages(struct survey *survey, double count, uint64_t begins, uint64_t ends,
                         struct memory_map *map, bool carved, double *absent)
{
    struct page_counts pages;
    uint64_t page = survey->page_bytes;
    uint64_t first = (begins + page - 1) / page, end = ends / page;
    if (survey->snapshot->pages_unknown)
        return false;
    if (end <= first)
        return true;
    if (!count_pages(survey, first, end - first, map != NULL && map->is_anonymous, &pages)) {
        survey->snapshot->pages_unknown = true;
        return false;
    }
    *absent += count * (double)((pages.absent + pages.swapped) * page);
    /* The kernel's zeros, unless the two cannot be told apart. */
    if (map != NULL && map->shared_bytes == 0)
        *absent += count * (double)(pages.doubtful * page);
    survey->snapshot->untouched_bytes += count * (double)(pages.absent * page);
    survey->snapshot->swapped_bytes += count * (double)(pages.swapped * page);
    if (map != NULL)
        map->doubtful_bytes += count * (double)(pages.doubtful * page);
    if (carved) {
        map->allocator_rss += count * (double)((end - first - pages.absent - pages.swapped) * page);
        map->allocator_swap += count * (double)(pages.swapped * page);
        map->allocator_mapped += count * (double)((end - first) * page);
    }
    return true;
}

static bool is_others(const struct memory_map *map)
{
    return map != NULL && map->unnamed && !map->ours && map->kind != MEMORY_ALLOCATOR;
}

/* Classify the mappings of an allocation: one with pages that the program gave advice for
 * (madvise()) has several. A mapping that contains malloc's allocations is the allocator's,
 * whatever else is in it. If the allocation has a mapping of its own, only its part of the (merged)
 * mapping is the allocator's. */
static void survey_mappings(struct survey *survey, double count, uint64_t begins, uint64_t ends,
                            bool has_own_mapping, double *absent)
{
    while (begins < ends) {
        struct memory_map *map = memory_maps_find(&survey->maps, begins);
        uint64_t end = ends;
        /* Blocks do not overlap, unless the target makes them up: then these steps have no end. */
        if (map != NULL && map->end < ends && survey->divisions_left > 0) {
            end = map->end;
            survey->divisions_left--;
            heartbeat_send();
        }
        bool carved = is_others(map) && has_own_mapping;
        bool known = survey_pages(survey, count, begins, end, map, carved, absent);
        if (is_others(map) && !(carved && known))
            map->kind = MEMORY_ALLOCATOR;
        begins = end;
    }
}

static void survey_block(struct survey *survey, const struct ledger_live_sample *sample,
                         const struct ledger_live_worth *worth, uint64_t taken)
{
    uint64_t begins = sample->address;
    if (sample->address > UINT64_MAX / 2 || sample->size > UINT64_MAX / 4)
        return;
    bool has_own_mapping = survey->rule != NULL &&
                           survey->rule->has_own_mapping(sample->size, sample->address, &begins);
    uint64_t ends = has_own_mapping ? begins + taken : sample->address + sample->size;
    struct memory_site_block block = {
        .figures = sample->figures,
        .live = worth->count * (double)sample->size,
        .taken = worth->count * (double)taken,
        .count_variance = worth->count_variance * (double)sample->size * (double)sample->size};
    survey_mappings(survey, worth->count, begins, ends, has_own_mapping, &block.absent);
    block.piece = sample->address / survey->sites.piece_bytes;
    block.is_large = has_own_mapping || taken >= survey->sites.piece_bytes;
    memory_sites_add(&survey->sites, &block);
}

static void survey_sample(void *context, const struct ledger_live_sample *sample)
{
    struct survey *survey = context;
    struct memory_snapshot *snapshot = survey->snapshot;
    const struct ledger_live_worth worth = ledger_live_worth(survey->ledger, survey->heap, sample);
    double size = (double)sample->size;
    snapshot->live_bytes_variance += worth.count_variance * size * size;
    uint64_t taken = sample->size;
    if (survey->rule != NULL)
        taken = survey->rule->taken(sample->size, sample->address);
    snapshot->rounding_bytes += worth.count * ((double)taken - size);
    survey_block(survey, sample, &worth, taken);
}

/* A live sample of a heap that is not malloc's: its mapping, if it is nobody else's, is that
 * heap's. */
static void survey_other(void *context, const struct ledger_live_sample *sample)
{
    struct survey *survey = context;
    struct memory_map *map = memory_maps_find(&survey->maps, sample->address);
    double size = (double)sample->size;
    heartbeat_send();
    if (map != NULL && map->unnamed && !map->ours && map->kind == MEMORY_ANONYMOUS)
        map->kind = MEMORY_OTHER_HEAPS;
    if (map == NULL || map->kind != MEMORY_OTHER_HEAPS)
        return;
    const struct ledger_live_worth worth = ledger_live_worth(survey->ledger, survey->heap, sample);
    survey->others_live_bytes += worth.count * size;
    survey->others_live_variance += worth.count_variance * size * size;
}

static void survey_others(struct survey *survey)
{
    size_t count;
    const struct ledger_heap *heaps = ledger_heaps(survey->ledger, &count);
    for (size_t i = 1; i < count; i++) {
        survey->heap = &heaps[i];
        survey->others_live_bytes = survey->others_live_variance = 0;
        double part = ledger_live_visit(survey->ledger, i, SAMPLES_MAX, survey_other, survey);
        if (part == 0)
            continue;
        survey->snapshot->others_live_bytes += survey->others_live_bytes / part;
        survey->snapshot->others_live_variance += survey->others_live_variance / part;
    }
}

static void take_live(struct memory_snapshot *snapshot, const struct ledger *ledger)
{
    size_t count;
    const struct ledger_heap *malloc_heap = ledger_heaps(ledger, &count);
    snapshot->live_bytes = count > 0 ? fmax(malloc_heap->live_bytes, 0) : 0;
    snapshot->live_count = count > 0 ? fmax(malloc_heap->live_count, 0) : 0;
}

/* Extrapolate from a part of the samples to all. Live bytes are known for all. */
static void scale(struct survey *survey, const struct ledger *ledger, double part)
{
    struct memory_snapshot *snapshot = survey->snapshot;
    take_live(snapshot, ledger);
    snapshot->live_bytes_variance /= part;
    snapshot->rounding_bytes /= part;
    snapshot->untouched_bytes /= part;
    snapshot->swapped_bytes /= part;
    for (size_t i = 0; i < survey->maps.count; i++) {
        struct memory_map *map = &survey->maps.items[i];
        map->allocator_rss /= part;
        map->allocator_swap /= part;
        map->allocator_mapped /= part;
        map->doubtful_bytes /= part;
        snapshot->untouched_bytes += memory_map_zeros(map);
        map->allocator_rss = fmax(map->allocator_rss - memory_map_zeros(map), 0);
    }
}

static void count_arenas(struct survey *survey)
{
    for (size_t i = 0; i < survey->maps.count; i++) {
        const struct memory_map *map = &survey->maps.items[i];
        survey->snapshot->arenas += map->is_arena;
        survey->snapshot->arenas_rss_bytes += map->is_arena ? map->rss_bytes : 0;
    }
}

/* Keep the snapshot with the most memory until it is written: the process may have given memory
 * back since. */
static void note_most(struct memory_watch *watch, const struct memory_snapshot *snapshot)
{
    uint64_t bytes = memory_snapshot_sum(snapshot).rss_bytes;
    if (bytes <= watch->most_bytes)
        return;
    watch->most_bytes = bytes;
    watch->most = *snapshot;
    watch->has_most = true;
}

static uint64_t stack_limit_of(pid_t pid)
{
    struct rlimit limit = {0};
    if (prlimit(pid, RLIMIT_STACK, NULL, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur < STACK_BYTES)
        return STACK_BYTES + GUARDS_BYTES;
    return limit.rlim_cur + GUARDS_BYTES;
}

/* Return whether the process still has its memory. A process that ends releases it, and reading its
 * /proc files then ends early, without an error. */
static bool has_memory(pid_t pid)
{
    char text[32];
    return process_file_read(pid, "statm", text, sizeof(text)) > 1 && strncmp(text, "0 ", 2) != 0;
}

static void take_rollup_line(struct trace_smaps_sums *sums, const char *line)
{
    uint64_t kb;
    if (sscanf(line, "Pss_Anon: %" SCNu64, &kb) == 1)
        sums->pss_anon_kb = kb;
    else if (sscanf(line, "Pss_File: %" SCNu64, &kb) == 1)
        sums->pss_file_kb = kb;
    else if (sscanf(line, "Pss_Shmem: %" SCNu64, &kb) == 1)
        sums->pss_shmem_kb = kb;
}

static void read_rollup(struct trace_smaps_sums *sums, pid_t pid)
{
    char text[4096];
    if (process_file_read(pid, "smaps_rollup", text, sizeof(text)) <= 0)
        return;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        take_rollup_line(sums, line);
    }
}

/* Take the sums that smaps has. */
static void take_sums(struct trace_smaps_sums *sums, const struct survey *survey)
{
    const struct memory_maps *maps = &survey->maps;
    sums->boottime_ns = survey->snapshot->boottime_ns;
    sums->pid = survey->snapshot->pid;
    sums->rss_kb = (memory_snapshot_sum(survey->snapshot).rss_bytes +
                    survey->snapshot->parts[MEMORY_PROFILER].rss_bytes) /
                   1024;
    sums->pss_kb = maps->has_pss ? maps->pss_kb : TRACE_UNKNOWN;
    sums->swap_pss_kb = maps->has_swap_pss ? maps->swap_pss_kb : TRACE_UNKNOWN;
}

/* --- callsites --- */

/* Return how much of a piece of memory is resident; < 0: unknown. */
static double resident_of(void *context, uint64_t piece)
{
    struct survey *survey = context;
    struct page_counts pages;
    uint64_t page = survey->page_bytes, bytes = survey->sites.piece_bytes;
    uint64_t start = piece * bytes, end = start + bytes;
    const struct memory_map *map = memory_maps_find(&survey->maps, start);
    double resident = 0;
    if (map == NULL) { /* the mapping begins in the piece */
        size_t at = SORTED_SEARCH(survey->maps.count, i, survey->maps.items[i].end <= start);
        map = at < survey->maps.count ? &survey->maps.items[at] : NULL;
    }
    for (; map != NULL && map < survey->maps.items + survey->maps.count && map->start < end;
         map++) {
        uint64_t from = map->start > start ? map->start : start;
        uint64_t to = map->end < end ? map->end : end;
        if (map->kind != MEMORY_ALLOCATOR)
            continue;
        if (!count_pages(survey, from / page, (to - from) / page, map->is_anonymous, &pages))
            return -1;
        resident += (double)(((to - from) / page - pages.absent - pages.swapped) * page);
        if (map->shared_bytes == 0)
            resident -= (double)(pages.doubtful * page);
    }
    return resident;
}

/* Find callsites, if much of their memory is not resident, or much of the allocator's is free. */
static void find_sites(struct memory_watch *watch, struct survey *survey, bool has_all)
{
    const struct memory_snapshot *snapshot = survey->snapshot;
    double held = (double)snapshot->parts[MEMORY_ALLOCATOR].rss_bytes;
    double absent = snapshot->untouched_bytes + snapshot->swapped_bytes;
    double free_bytes = held - snapshot->live_bytes - snapshot->rounding_bytes + absent;
    /* Of a part of the samples it is unknown what else is live around each. */
    bool with_free = has_all && free_bytes > SITES_BYTES && free_bytes > held / 4;
    watch->sites = (struct memory_sites_found){0};
    survey->reads_left = READS_MAX;
    if (!snapshot->pages_unknown && (with_free || absent > SITES_BYTES))
        memory_sites_find(&survey->sites, with_free, resident_of, survey, &watch->sites);
}

/* --- the profiler's own memory --- */

/* Note which mappings are the profiler's own. Of more than fit, the rest is left out: it counts as
 * the program's then. */
static void note_own(struct memory_watch *watch, const struct memory_maps *maps)
{
    watch->own_count = 0;
    for (size_t i = 0; i < maps->count && watch->own_count < MEMORY_OWN_RANGES_MAX; i++) {
        const struct memory_map *map = &maps->items[i];
        if (map->kind == MEMORY_PROFILER)
            watch->own[watch->own_count++] =
                (struct memory_own_range){map->start, map->end, map->shared_bytes, map->is_shmem};
    }
}

struct own_pages {
    uint64_t anonymous, of_file;
    uint64_t doubtful; /* anonymous; either shared with a child, or the kernel's zero page */
};

static bool count_own(int pagemap, const struct memory_own_range *range, uint64_t page_bytes,
                      struct own_pages *pages)
{
    uint64_t states[PAGES_AT_ONCE];
    uint64_t first = range->start / page_bytes, left = range->end / page_bytes - first;
    while (left > 0) {
        uint64_t some = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
        if (pread(pagemap, states, some * sizeof(*states), (off_t)(first * sizeof(*states))) !=
            (ssize_t)(some * sizeof(*states)))
            return false;
        for (uint64_t i = 0; i < some; i++) {
            if ((states[i] & PAGE_IS_PRESENT) == 0)
                continue;
            pages->of_file += (states[i] & PAGE_IS_OF_FILE) != 0;
            pages->anonymous +=
                (states[i] & (PAGE_IS_OF_FILE | PAGE_IS_EXCLUSIVE)) == PAGE_IS_EXCLUSIVE;
            pages->doubtful += (states[i] & (PAGE_IS_OF_FILE | PAGE_IS_EXCLUSIVE)) == 0;
        }
        first += some;
        left -= some;
    }
    return true;
}

void memory_watch_read_own(const struct memory_watch *watch, struct trace_memory_point *point)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), anon = 0, file = 0, shmem = 0;
    int pagemap = watch->own_count > 0 ? process_file_open(point->pid, "pagemap") : -1;
    if (pagemap < 0)
        return;
    for (size_t i = 0; i < watch->own_count; i++) {
        const struct memory_own_range *range = &watch->own[i];
        struct own_pages pages = {0};
        if (!count_own(pagemap, range, page_bytes, &pages)) {
            close(pagemap);
            return;
        }
        uint64_t shared = range->shared_bytes / page_bytes;
        anon += pages.anonymous + (pages.doubtful < shared ? pages.doubtful : shared);
        *(range->is_shmem ? &shmem : &file) += pages.of_file;
    }
    close(pagemap);
    point->profiler_anon_bytes = anon * page_bytes;
    point->profiler_file_bytes = file * page_bytes;
    point->profiler_shmem_bytes = shmem * page_bytes;
}

/* --- snapshots --- */

void memory_watch_recount(struct memory_watch *watch, const struct ledger *ledger)
{
    if (watch->has_last)
        take_live(&watch->last, ledger);
}

void memory_watch_clear(struct memory_watch *watch)
{
    unexplained_clear(&watch->unexplained);
}

void memory_watch_take_snapshot(struct memory_watch *watch,
                                const struct memory_watch_request *request)
{
    pid_t pid = request->pid;
    struct ledger *ledger = request->facts.ledger;
    size_t heap_count;
    char path[64];
    uint64_t began_us = clock_read_us(CLOCK_MONOTONIC);
    uint64_t began_cpu_us = clock_read_us(CLOCK_THREAD_CPUTIME_ID);
    struct memory_snapshot snapshot = {.pid = pid, .boottime_ns = clock_read_ns(CLOCK_BOOTTIME)};
    struct trace_smaps_sums sums = {
        .pss_anon_kb = TRACE_UNKNOWN, .pss_file_kb = TRACE_UNKNOWN, .pss_shmem_kb = TRACE_UNKNOWN};
    snapshot.allocator = request->allocator[0] != '\0' ? request->allocator : NULL;
    struct survey survey = {
        .snapshot = &snapshot,
        .ledger = ledger,
        .heap = ledger_heaps(ledger, &heap_count), /* malloc's is the first */
        /* Nothing tells which blocks are whose. */
        .rule = request->allocator_has_others ? NULL : usable_size_rule_of(snapshot.allocator),
        .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
        .pages_left = PAGES_READ_MAX,
        .reads_left = READS_MAX,
        .divisions_left = DIVISIONS_MAX,
    };
    survey.sites.piece_bytes =
        memory_sites_piece_bytes(ledger_interval_bytes(ledger), survey.page_bytes);
    /* First, so that it is of the same program as the mappings: an exec may come at any time. */
    if (request->with_rollup)
        read_rollup(&sums, pid);
    snprintf(path, sizeof(path), "/proc/%d/smaps", (int)process_living_thread(pid));
    if (memory_maps_read(&survey.maps, path) < 0)
        return;
    survey.pagemap = process_file_open(pid, "pagemap");
    snapshot.pages_unknown = survey.pagemap < 0;
    snapshot.rounding_rule = survey.rule != NULL ? survey.rule->name : NULL;
    const struct usable_size_rule *glibcs = usable_size_rule_of("libc.so.6");
    bool is_glibc = usable_size_rule_of(snapshot.allocator) == glibcs;
    if (survey.pagemap >= 0)
        memory_maps_find_guards(&survey.maps, survey.pagemap, survey.page_bytes);
    memory_maps_classify(&survey.maps, stack_limit_of(pid));
    double part = ledger_live_visit(ledger, 0, SAMPLES_MAX, survey_sample, &survey);
    scale(&survey, ledger, part);
    survey_others(&survey);
    if (is_glibc)
        count_arenas(&survey);
    if (snapshot.pages_unknown)
        snapshot.untouched_bytes = snapshot.swapped_bytes = 0;
    memory_maps_sum(&survey.maps, snapshot.parts);
    take_sums(&sums, &survey);
    if (snapshot.parts[MEMORY_PROFILER].mappings > 0) {
        note_own(watch, &survey.maps);
        struct unexplained_facts facts = request->facts;
        facts.is_glibc = is_glibc;
        if (request->has_malloc)
            unexplained_measure(&watch->unexplained, &survey.maps, &facts, &snapshot);
    }
    uint64_t ended_us = clock_read_us(CLOCK_MONOTONIC);
    snapshot.duration_us = ended_us - began_us;
    /* If the ring is not mapped, an exec made the process another program without a client: this
     * memory is not that of the program whose live samples the ledger has. */
    if (snapshot.parts[MEMORY_PROFILER].mappings > 0 && has_memory(pid)) {
        watch->last = snapshot;
        watch->sums = sums;
        watch->has_last = true;
        note_most(watch, &snapshot);
        find_sites(watch, &survey, part == 1);
    }
    memory_maps_clear(&survey.maps);
    memory_sites_clear(&survey.sites);
    if (survey.pagemap >= 0)
        close(survey.pagemap);
    watch->taken_us = ended_us;
    watch->rss_bytes = sums.rss_kb * 1024;
    watch->live_bytes = ledger_live_bytes(ledger);
    /* Not the time in which others had the processor. */
    watch->pause_us = (clock_read_us(CLOCK_THREAD_CPUTIME_ID) - began_cpu_us) * PAUSE_TIMES;
}

bool memory_watch_is_due(const struct memory_watch *watch, size_t processes)
{
    return clock_read_us(CLOCK_MONOTONIC) >= watch->taken_us + watch->pause_us * processes;
}

bool memory_watch_is_growth_due(const struct memory_watch *watch, size_t processes)
{
    return clock_read_us(CLOCK_MONOTONIC) >=
           watch->taken_us + watch->pause_us * processes / PAUSE_PARTS_OF_DOUBLE;
}

bool memory_watch_has_grown(const struct memory_watch *watch, size_t processes, uint64_t rss_bytes)
{
    uint64_t due_us = watch->taken_us + watch->pause_us * processes / PAUSE_PARTS_OF_GROWTH;
    uint64_t part = clock_read_us(CLOCK_MONOTONIC) >= due_us ? watch->rss_bytes / GROWTH_PART
                                                             : watch->rss_bytes;
    return rss_bytes > watch->rss_bytes + part + GROWTH_BYTES;
}

static bool is_near(double left, double right)
{
    return fabs(left - right) <= fmax(left, right) / STILL_PART + STILL_BYTES;
}

bool memory_watch_has_settled(struct memory_watch *watch, size_t processes, uint64_t rss_bytes,
                              double live_bytes)
{
    uint64_t now_us = clock_read_us(CLOCK_MONOTONIC);
    if (watch->seen_us == 0 || !is_near((double)rss_bytes, (double)watch->seen_rss_bytes) ||
        !is_near(live_bytes, watch->seen_live_bytes)) {
        watch->seen_us = now_us;
        watch->seen_rss_bytes = rss_bytes;
        watch->seen_live_bytes = live_bytes;
    }
    bool has_changed = !is_near((double)rss_bytes, (double)watch->rss_bytes) ||
                       !is_near(live_bytes, watch->live_bytes);
    return has_changed && now_us >= watch->seen_us + STILL_US &&
           now_us >= watch->taken_us + watch->pause_us * processes / PAUSE_PARTS_OF_GROWTH;
}

int memory_watch_write(struct memory_watch *watch, struct trace_writer *writer, bool with_sums)
{
    int code = 0;
    if (!watch->has_last)
        return 0;
    if (watch->has_most && watch->most.boottime_ns != watch->last.boottime_ns)
        code = trace_writer_memory_snapshot(writer, &watch->most);
    watch->has_most = false;
    if (code == 0)
        code = trace_writer_memory_snapshot(writer, &watch->last);
    return code < 0 || !with_sums ? code : trace_writer_smaps_sums(writer, &watch->sums);
}
