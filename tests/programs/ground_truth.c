/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes known allocations at known callsites and writes the true figures as JSON.
 *
 *   ground_truth TRUTH-FILE [THREADS [SCALE-PERCENT]]
 *
 * Size classes (eight callsites each, so that one run gives many observations):
 *   small    16 to 128 bytes, malloc
 *   mixed    16 bytes to 16 KiB, evenly over the powers of two, malloc
 *   large    8 KiB to 192 KiB, malloc
 * and single callsites: calloc, realloc that grows, realloc that shrinks, posix_memalign,
 * aligned_alloc, memalign, reallocarray, and huge blocks.
 * One block in four stays live to the end. All callsites alternate, as in a real program, and all
 * sizes come from a fixed generator: every run does the same.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "truth.h"

enum { SITES_PER_CLASS = 8, SMALL_CALLS = 72000, MIXED_CALLS = 2800, LARGE_CALLS = 110 };
enum { ONCE_CALLS = 2000, HUGE_CALLS = 8 };

struct site {
    const char *name, *class;
    unsigned long long bytes, calls, live_bytes, live_calls;
};

/* A thread's generator, and the block that it frees next. */
struct worker {
    uint64_t state;
    struct site *sites;
    unsigned scale;
};

#define EIGHT(X, class)                                                                            \
    X(class, 0) X(class, 1) X(class, 2) X(class, 3) X(class, 4) X(class, 5) X(class, 6) X(class, 7)

#define DEFINE_SITE(class, number)                                                                 \
    static CALLSITE void *class##_##number(size_t size)                                            \
    {                                                                                              \
        return kept(malloc(size));                                                                 \
    }
EIGHT(DEFINE_SITE, small)
EIGHT(DEFINE_SITE, mixed)
EIGHT(DEFINE_SITE, large)

static CALLSITE void *by_calloc(size_t size)
{
    return kept(calloc(size / 4, 4));
}

static CALLSITE void *before_realloc(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *by_growing(void *block, size_t size)
{
    return kept(realloc(block, size));
}

static CALLSITE void *by_shrinking(void *block, size_t size)
{
    return kept(realloc(block, size));
}

static CALLSITE void *by_reallocarray(size_t size)
{
    return kept(reallocarray(NULL, size / 8, 8));
}

static CALLSITE void *by_posix_memalign(size_t size)
{
    void *block = NULL;
    require(!posix_memalign(&block, 256, size));
    return kept(block);
}

static CALLSITE void *by_aligned_alloc(size_t size)
{
    return kept(aligned_alloc(64, size));
}

static CALLSITE void *by_memalign(size_t size)
{
    return kept(memalign(128, size));
}

static CALLSITE void *huge(size_t size)
{
    return kept(malloc(size));
}

/* In the order of the sites. */
enum {
    SMALL,
    MIXED = 8,
    LARGE = 16,
    CALLOC = 24,
    BEFORE,
    GROWING,
    SHRINKING,
    ARRAY,
    POSIX,
    ALIGNED,
    MEMALIGN,
    HUGE,
    SITES
};

typedef void *(*allocate_fn)(size_t);

#define NAME_FUNCTION(class, number) class##_##number,
static const allocate_fn functions[SITES] = {
    EIGHT(NAME_FUNCTION, small) EIGHT(NAME_FUNCTION, mixed) EIGHT(NAME_FUNCTION, large)[CALLOC] =
        by_calloc,
    [BEFORE] = before_realloc,
    [ARRAY] = by_reallocarray,
    [POSIX] = by_posix_memalign,
    [ALIGNED] = by_aligned_alloc,
    [MEMALIGN] = by_memalign,
    [HUGE] = huge,
};

#define NAME_SITE(kind, number) {.name = #kind "_" #number, .class = #kind},
static const struct site empty_sites[SITES] = {
    EIGHT(NAME_SITE, small) EIGHT(NAME_SITE, mixed)
        EIGHT(NAME_SITE, large)[CALLOC] = {.name = "by_calloc", .class = "once"},
    [BEFORE] = {.name = "before_realloc", .class = "once"},
    [GROWING] = {.name = "by_growing", .class = "once"},
    [SHRINKING] = {.name = "by_shrinking", .class = "once"},
    [ARRAY] = {.name = "by_reallocarray", .class = "once"},
    [POSIX] = {.name = "by_posix_memalign", .class = "once"},
    [ALIGNED] = {.name = "by_aligned_alloc", .class = "once"},
    [MEMALIGN] = {.name = "by_memalign", .class = "once"},
    [HUGE] = {.name = "huge", .class = "huge"},
};

static uint32_t draw(struct worker *worker, uint32_t below)
{
    worker->state = worker->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((worker->state >> 33) % below);
}

static void add_request(struct site *site, size_t size)
{
    site->bytes += size;
    site->calls++;
}

/* Count a block of a site; one in four stays live. */
static void count(struct worker *worker, int site, void *block, size_t size)
{
    struct site *here = &worker->sites[site];
    require(block);
    add_request(here, size);
    if (here->calls % 4) {
        free(block);
        return;
    }
    here->live_bytes += size;
    here->live_calls++;
}

static void allocate_at(struct worker *worker, int site, size_t size)
{
    count(worker, site, functions[site](size), size);
}

static size_t draw_mixed(struct worker *worker)
{
    size_t power = (size_t)16 << draw(worker, 10);
    return power + draw(worker, (uint32_t)power);
}

static void reallocate(struct worker *worker)
{
    size_t first = 100 + draw(worker, 1000), second = first + 1 + draw(worker, 3000);
    size_t third = 1 + draw(worker, (uint32_t)second);
    void *block = before_realloc(first);
    add_request(&worker->sites[BEFORE], first);
    block = by_growing(block, second);
    if (draw(worker, 2)) {
        count(worker, GROWING, block, second);
        return;
    }
    add_request(&worker->sites[GROWING], second);
    count(worker, SHRINKING, by_shrinking(block, third), third);
}

static void allocate_once_each(struct worker *worker)
{
    allocate_at(worker, CALLOC, (draw_mixed(worker) + 3) & ~(size_t)3);
    allocate_at(worker, ARRAY, (draw_mixed(worker) + 7) & ~(size_t)7);
    allocate_at(worker, POSIX, draw_mixed(worker));
    allocate_at(worker, ALIGNED, draw_mixed(worker));
    allocate_at(worker, MEMALIGN, draw_mixed(worker));
    reallocate(worker);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    unsigned rounds = SMALL_CALLS / 100 * worker->scale;
    unsigned mixed_every = SMALL_CALLS / MIXED_CALLS, large_every = SMALL_CALLS / LARGE_CALLS;
    unsigned once_every = SMALL_CALLS / ONCE_CALLS, huge_every = SMALL_CALLS / HUGE_CALLS;
    for (unsigned round = 0; round < rounds; round++) {
        for (int i = 0; i < SITES_PER_CLASS; i++) {
            allocate_at(worker, SMALL + i, 16 + draw(worker, 113));
            if (round % mixed_every == 0)
                allocate_at(worker, MIXED + i, draw_mixed(worker));
            if (round % large_every == 0)
                allocate_at(worker, LARGE + i, (8 << 10) + draw(worker, 184 << 10));
        }
        if (round % once_every == 0)
            allocate_once_each(worker);
        if (round % huge_every == 0)
            allocate_at(worker, HUGE, (1 << 20) + draw(worker, 1 << 20));
    }
    return NULL;
}

static void write_truth(const char *path, const struct site *sites)
{
    FILE *file = fopen(path, "w");
    require(file);
    fprintf(file, "[\n");
    for (int i = 0; i < SITES; i++) {
        const struct site *site = &sites[i];
        fprintf(file,
                "{\"function\": \"%s\", \"class\": \"%s\", \"alloc_space\": %llu, "
                "\"alloc_objects\": %llu, \"space\": %llu, \"objects\": %llu}%s\n",
                site->name, site->class, site->bytes, site->calls, site->live_bytes,
                site->live_calls, i + 1 < SITES ? "," : "");
    }
    fprintf(file, "]\n");
    require(!fclose(file));
}

int main(int argc, char **argv)
{
    enum { THREADS_MAX = 64 };
    static struct site sites[THREADS_MAX][SITES];
    static struct worker workers[THREADS_MAX];
    require(argc >= 2);
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    unsigned scale = argc > 3 ? (unsigned)atoi(argv[3]) : 100;
    require(threads >= 1 && threads <= THREADS_MAX);

    pthread_t handles[THREADS_MAX];
    for (unsigned i = 0; i < threads; i++) {
        memcpy(sites[i], empty_sites, sizeof(empty_sites));
        workers[i] = (struct worker){i + 1, sites[i], scale};
        if (threads == 1)
            work(&workers[i]);
        else
            require(!pthread_create(&handles[i], NULL, work, &workers[i]));
    }
    for (unsigned i = 0; i < threads; i++) {
        if (threads > 1)
            pthread_join(handles[i], NULL);
        for (int j = 0; i > 0 && j < SITES; j++) {
            sites[0][j].bytes += sites[i][j].bytes;
            sites[0][j].calls += sites[i][j].calls;
            sites[0][j].live_bytes += sites[i][j].live_bytes;
            sites[0][j].live_calls += sites[i][j].live_calls;
        }
    }
    write_truth(argv[1], sites[0]);
    return 0;
}
