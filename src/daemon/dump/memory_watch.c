/* SPDX-License-Identifier: Apache-2.0 */
/* Take snapshots of a process's memory from smaps, pagemap and the ledger's live samples. */
#include "daemon/dump/memory_watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/dump/memory_maps.h"
#include "daemon/ledger/usable_size.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/process_files.h"

/* Bounds, so that the ring is not kept waiting: a million samples would take 30 ms. A page's state
 * takes 8 bytes. */
#define SAMPLES_MAX (1u << 18)
#define PAGES_READ_MAX (1u << 21)
#define READS_MAX (1u << 14)
#define PAGES_AT_ONCE 512u
/* At most one part in 500 of the time. At one in 100, these readings were a third of the profiler's
 * processor time for a program of a second with few samples. */
#define PAUSE_TIMES 500u
/* While a process grows: one part in 50, and only if there are 4 MiB and a quarter more to see. */
#define PAUSE_PARTS_OF_GROWTH 10u
#define GROWTH_BYTES (UINT64_C(4) << 20)
#define GROWTH_PART 4u

#define PAGE_IS_PRESENT (UINT64_C(1) << 63)
#define PAGE_IS_SWAPPED (UINT64_C(1) << 62)
#define PAGE_IS_OF_FILE (UINT64_C(1) << 61)
#define PAGE_IS_EXCLUSIVE (UINT64_C(1) << 56)

/* The usual limit of a stack, assumed also if the limit of a process is lower. */
#define STACK_BYTES (8u << 20)
#define GUARDS_BYTES (64u << 10)

struct survey {
    struct memory_snapshot *snapshot;
    struct memory_maps maps;
    const struct usable_size_rule *rule;
    int pagemap;
    uint64_t page_bytes, pages_left, reads_left;
};

/* Return whether the page was never written: it is not there, or it is the kernel's page of zeros,
 * which many programs have at many places and which is no part of the RSS. If pages of the mapping
 * are shared with a child, the two cannot be told apart, and all count as written. */
static bool is_untouched(uint64_t state, bool has_shared)
{
    bool is_zeros =
        !has_shared &&
        (state & (PAGE_IS_PRESENT | PAGE_IS_OF_FILE | PAGE_IS_EXCLUSIVE)) == PAGE_IS_PRESENT;
    return is_zeros || (state & (PAGE_IS_SWAPPED | PAGE_IS_PRESENT)) == 0;
}

/* Count the pages of [first, first + count) that were never written, and those that are swapped.
 * Return false if they cannot be read or are too many. */
static bool count_pages(struct survey *survey, uint64_t first, uint64_t count, bool has_shared,
                        uint64_t *untouched, uint64_t *swapped)
{
    uint64_t states[PAGES_AT_ONCE];
    *untouched = *swapped = 0;
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
            *swapped += (states[i] & PAGE_IS_SWAPPED) != 0;
            *untouched += is_untouched(states[i], has_shared);
        }
        first += some;
        count -= some;
    }
    return true;
}

/* Add the parts of [begins, ends) that are not in memory. Only whole pages count: a page that is
 * shared with other allocations is touched. Return false if it cannot be found out. */
static bool survey_pages(struct survey *survey, double count, uint64_t begins, uint64_t ends,
                         bool has_shared, struct memory_map *carved)
{
    uint64_t page = survey->page_bytes, untouched, swapped;
    uint64_t first = (begins + page - 1) / page, end = ends / page;
    if (survey->snapshot->pages_unknown)
        return false;
    if (end <= first)
        return true;
    if (!count_pages(survey, first, end - first, has_shared, &untouched, &swapped)) {
        survey->snapshot->pages_unknown = true;
        return false;
    }
    survey->snapshot->untouched_bytes += count * (double)(untouched * page);
    survey->snapshot->swapped_bytes += count * (double)(swapped * page);
    if (carved != NULL) {
        carved->allocator_rss += count * (double)((end - first - untouched - swapped) * page);
        carved->allocator_swap += count * (double)(swapped * page);
        carved->allocator_mapped += count * (double)((end - first) * page);
    }
    return true;
}

/* Classify the mapping of an allocation. A mapping that contains malloc's allocations is the
 * allocator's, whatever else is in it. If the allocation has a mapping of its own, only its part
 * of the (merged) mapping is the allocator's. */
static void survey_mapping(struct survey *survey, const struct ledger_live_sample *sample,
                           uint64_t taken)
{
    struct memory_map *map = memory_maps_find(&survey->maps, sample->address);
    uint64_t begins = sample->address;
    if (sample->address > UINT64_MAX / 2 || sample->size > UINT64_MAX / 4)
        return;
    bool is_others = map != NULL && map->unnamed && !map->ours && map->kind != MEMORY_ALLOCATOR;
    bool has_own_mapping = survey->rule != NULL &&
                           survey->rule->has_own_mapping(sample->size, sample->address, &begins);
    uint64_t ends = has_own_mapping ? begins + taken : sample->address + sample->size;
    bool known =
        survey_pages(survey, sample->count, begins, ends, map == NULL || map->shared_bytes > 0,
                     is_others && has_own_mapping ? map : NULL);
    if (is_others && !(has_own_mapping && known))
        map->kind = MEMORY_ALLOCATOR;
}

static void survey_sample(void *context, const struct ledger_live_sample *sample)
{
    struct survey *survey = context;
    struct memory_snapshot *snapshot = survey->snapshot;
    double size = (double)sample->size;
    snapshot->live_bytes_variance += sample->count_variance * size * size;
    uint64_t taken = sample->size;
    if (survey->rule != NULL)
        taken = survey->rule->taken(sample->size, sample->address);
    snapshot->rounding_bytes += sample->count * ((double)taken - size);
    survey_mapping(survey, sample, taken);
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
        survey->maps.items[i].allocator_rss /= part;
        survey->maps.items[i].allocator_swap /= part;
        survey->maps.items[i].allocator_mapped /= part;
    }
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
    char path[64];
    uint64_t began_us = clock_read_us(CLOCK_MONOTONIC);
    uint64_t began_cpu_us = clock_read_us(CLOCK_THREAD_CPUTIME_ID);
    struct memory_snapshot snapshot = {.pid = pid, .boottime_ns = clock_read_ns(CLOCK_BOOTTIME)};
    struct trace_smaps_sums sums = {
        .pss_anon_kb = TRACE_UNKNOWN, .pss_file_kb = TRACE_UNKNOWN, .pss_shmem_kb = TRACE_UNKNOWN};
    snapshot.allocator = request->allocator[0] != '\0' ? request->allocator : NULL;
    struct survey survey = {
        .snapshot = &snapshot,
        .rule = usable_size_rule_of(snapshot.allocator),
        .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
        .pages_left = PAGES_READ_MAX,
        .reads_left = READS_MAX,
    };
    /* First, so that it is of the same program as the mappings: an exec may come at any time. */
    if (request->with_rollup)
        read_rollup(&sums, pid);
    snprintf(path, sizeof(path), "/proc/%d/smaps", (int)process_living_thread(pid));
    if (memory_maps_read(&survey.maps, path) < 0)
        return;
    survey.pagemap = process_file_open(pid, "pagemap");
    snapshot.pages_unknown = survey.pagemap < 0;
    snapshot.rounding_rule = survey.rule != NULL ? survey.rule->name : NULL;
    memory_maps_classify(&survey.maps, stack_limit_of(pid));
    scale(&survey, ledger, ledger_live_visit(ledger, SAMPLES_MAX, survey_sample, &survey));
    if (snapshot.pages_unknown)
        snapshot.untouched_bytes = snapshot.swapped_bytes = 0;
    memory_maps_sum(&survey.maps, snapshot.parts);
    take_sums(&sums, &survey);
    if (snapshot.parts[MEMORY_PROFILER].mappings > 0) {
        note_own(watch, &survey.maps);
        struct unexplained_facts facts = request->facts;
        facts.is_glibc = survey.rule != NULL && survey.rule == usable_size_rule_of("libc.so.6");
        if (request->has_malloc)
            unexplained_measure(&watch->unexplained, &survey.maps, &facts, &snapshot);
    }
    memory_maps_clear(&survey.maps);
    if (survey.pagemap >= 0)
        close(survey.pagemap);
    uint64_t ended_us = clock_read_us(CLOCK_MONOTONIC);
    snapshot.duration_us = ended_us - began_us;
    /* If the ring is not mapped, an exec made the process another program without a client: this
     * memory is not that of the program whose live samples the ledger has. */
    if (snapshot.parts[MEMORY_PROFILER].mappings > 0 && has_memory(pid)) {
        watch->last = snapshot;
        watch->sums = sums;
        watch->has_last = true;
    }
    watch->taken_us = ended_us;
    watch->rss_bytes = sums.rss_kb * 1024;
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
           watch->taken_us + watch->pause_us * processes / PAUSE_PARTS_OF_GROWTH;
}

bool memory_watch_has_grown(const struct memory_watch *watch, uint64_t rss_bytes)
{
    return rss_bytes > watch->rss_bytes + watch->rss_bytes / GROWTH_PART + GROWTH_BYTES;
}

int memory_watch_write(const struct memory_watch *watch, struct trace_writer *writer,
                       bool with_sums)
{
    if (!watch->has_last)
        return 0;
    int code = trace_writer_memory_snapshot(writer, &watch->last);
    return code < 0 || !with_sums ? code : trace_writer_smaps_sums(writer, &watch->sums);
}
