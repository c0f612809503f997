/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact totals of a ring, and cuts: totals that match the samples that were taken.
 *
 * A thread counts an allocation, then writes its sample. We read both while the thread goes on.
 * Each line states how many of its samples are not in the ring yet (struct ring_pending). Its
 * totals minus these are the calls whose samples are in the ring, up to an ordinal. Then we read
 * the end of the ring, and take all records before it. A thread may go on between the two reads: a
 * record with a later ordinal is added to the totals when it is taken.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/ring/ring_reader.h"
#include "wire/barrier.h"

/* Number of times that a line is read again if it changes meanwhile. */
#define ACCOUNT_TRIES 8

/* Number of lines that one cut searches for the lines of its events, since a program may have many
 * of both. This takes about 20 ms. */
#define LINES_SEEN_MAX (UINT32_C(1) << 24)

struct ring_cut {
    uint64_t position; /* end of the records to take, in units of `reserved` */
    struct ring_totals totals;
    struct ring_heap_totals heap_totals[RING_HEAPS_MAX];
    uint32_t threads, lines;
    uint32_t lines_seen;
    uint32_t calls[]; /* of threads, then of lines: the last ordinal in the totals */
};

struct account {
    uint64_t calls, bytes;
};

/* Read a line that its thread may be changing. The thread may have stopped or died after it
 * finished a record and before it cleared the pending count. `taken` is the ordinal of its last
 * sample that was taken, 0 if unknown. */
static struct account read_account(const struct ring_thread *line,
                                   const struct ring_pending *pending, uint32_t taken)
{
    struct account account = {0};
    for (int i = 0; i < ACCOUNT_TRIES; i++) {
        uint64_t calls = load_acquire(&line->calls);
        uint64_t counting = load_acquire(&pending->counting);
        uint64_t samples = load_acquire(&pending->samples);
        uint64_t loaded = load_acquire(&line->bytes_loaded);
        uint64_t bytes =
            load_acquire(&line->bytes_before) + loaded - load_acquire(&line->bytes_left);
        bool is_taken = ring_pending_calls(samples) == 1 && taken != 0 && taken == (uint32_t)calls;
        account.bytes = bytes - (is_taken ? 0 : ring_pending_bytes(samples));
        account.calls = calls - (is_taken ? 0 : ring_pending_calls(samples));
        if (ring_is_counting(counting, calls)) {
            account.bytes = load_acquire(&pending->settled_bytes);
            account.calls = load_acquire(&pending->settled_calls);
        }
        if (load_acquire(&line->calls) == calls && load_acquire(&pending->samples) == samples &&
            load_acquire(&line->bytes_loaded) == loaded &&
            load_relaxed(&pending->counting) == counting)
            break;
    }
    return account;
}

static uint32_t thread_count(const struct ring_reader *reader)
{
    uint32_t threads = load_acquire(&reader->control->threads_used);
    return threads < RING_THREADS_MAX ? threads : RING_THREADS_MAX;
}

static uint32_t line_count(const struct ring_reader *reader)
{
    uint32_t lines = load_acquire(&reader->control->heap_lines_used);
    return lines < RING_HEAP_LINES_MAX ? lines : RING_HEAP_LINES_MAX;
}

/* Copy a name that the client wrote, as far as it is one. */
static void read_name(const uint64_t *words, char *name, size_t size)
{
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t word = load_relaxed(&words[i]);
        memcpy(name + i * sizeof(word), &word, sizeof(word));
    }
    name[size - 1] = 0;
    for (char *at = name; *at != 0; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

/* Sum the threads' totals. `ordinals` is NULL, or receives each thread's last counted ordinal. */
static void sum_threads(const struct ring_reader *reader, uint32_t threads,
                        struct ring_totals *totals, uint32_t *ordinals)
{
    const struct ring_control *control = reader->control;
    memset(totals, 0, sizeof(*totals));
    for (uint32_t i = 0; i < threads; i++) {
        struct account account = read_account(&reader->threads[i], &reader->pending[i],
                                              i < reader->taken_count ? reader->taken[i] : 0);
        totals->calls += account.calls;
        totals->bytes += account.bytes;
        totals->samples += load_relaxed(&reader->threads[i].samples);
        if (ordinals != NULL)
            ordinals[i] = (uint32_t)account.calls;
    }
    totals->blocked_us = load_relaxed(&control->blocked_us);
    for (unsigned i = 0; i < RING_LOSS_COUNT; i++)
        totals->lost[i] = load_relaxed(&control->lost[i]);
    totals->client_state = load_relaxed(&control->client_state);
    totals->restricted = load_relaxed(&control->restricted) != 0;
    totals->has_deepbind = load_relaxed(&control->has_deepbind) != 0;
    read_name(control->unseen_family, totals->unseen_family, sizeof(totals->unseen_family));
    totals->unmentioned_heaps = load_acquire(&control->unmentioned_heaps);
    read_name(control->unmentioned_heap, totals->unmentioned_heap,
              sizeof(totals->unmentioned_heap));
    totals->silent_children = load_relaxed(&control->silent_children);
    totals->silent_child_pid = load_relaxed(&control->silent_child_pid);
}

static void sum_lines(const struct ring_reader *reader, uint32_t lines,
                      struct ring_heap_totals totals[RING_HEAPS_MAX], uint32_t *ordinals)
{
    memset(totals, 0, RING_HEAPS_MAX * sizeof(*totals));
    for (uint32_t i = 0; i < lines; i++) {
        uint32_t heap = load_acquire(&reader->heap_lines[i].tid);
        struct account account =
            read_account(&reader->heap_lines[i], &reader->pending[RING_THREADS_MAX + i], 0);
        if (ordinals != NULL)
            ordinals[i] = (uint32_t)account.calls;
        if (heap == 0 || heap >= RING_HEAPS_MAX)
            continue;
        totals[heap].calls += account.calls;
        totals[heap].bytes += account.bytes;
    }
}

void ring_reader_totals(const struct ring_reader *reader, struct ring_totals *totals)
{
    if (reader->cut != NULL)
        *totals = reader->cut->totals;
    else
        sum_threads(reader, thread_count(reader), totals, NULL);
}

void ring_reader_heap_totals(const struct ring_reader *reader,
                             struct ring_heap_totals totals[RING_HEAPS_MAX])
{
    if (reader->cut != NULL)
        memcpy(totals, reader->cut->heap_totals, sizeof(reader->cut->heap_totals));
    else
        sum_lines(reader, line_count(reader), totals, NULL);
}

int ring_reader_cut(struct ring_reader *reader)
{
    uint32_t threads = thread_count(reader), lines = line_count(reader);
    struct ring_cut *cut = malloc(sizeof(*cut) + ((size_t)threads + lines) * sizeof(*cut->calls));
    if (cut == NULL)
        return -ENOMEM;
    ring_reader_end_cut(reader);
    cut->threads = threads;
    cut->lines = lines;
    cut->lines_seen = 0;
    sum_threads(reader, threads, &cut->totals, cut->calls);
    sum_lines(reader, lines, cut->heap_totals, cut->calls + threads);
    cut->position = load_acquire(&reader->control->reserved);
    reader->cut = cut;
    return 0;
}

void ring_reader_end_cut(struct ring_reader *reader)
{
    free(reader->cut);
    reader->cut = NULL;
}

uint64_t ring_reader_end(const struct ring_reader *reader)
{
    /* Acquire is not needed for the records (their headers have it). It keeps this word at least as
     * new as what a dead process left. */
    return reader->cut != NULL ? reader->cut->position : load_acquire(&reader->control->reserved);
}

/* Find the ordinal up to which the totals count allocations of the slot's thread in the heap. It is
 * 0 for a thread or line that came later. Return false after too many searches. */
static bool find_counted(const struct ring_reader *reader, uint8_t heap, uint16_t slot,
                         uint32_t *ordinal)
{
    struct ring_cut *cut = reader->cut;
    *ordinal = heap == 0 && slot < cut->threads ? cut->calls[slot] : 0;
    for (uint32_t i = 0; heap != 0 && i < cut->lines; i++) {
        if (cut->lines_seen++ >= LINES_SEEN_MAX)
            return false;
        if (load_relaxed(&reader->heap_lines[i].tid) == heap &&
            load_relaxed(&reader->heap_lines[i].samples) == slot) {
            *ordinal = cut->calls[cut->threads + i];
            break;
        }
    }
    return true;
}

/* Note the last sample taken of a slot. Without memory it stays unknown. */
static void note_taken(struct ring_reader *reader, uint16_t slot, uint32_t ordinal)
{
    if (unlikely(slot >= reader->taken_count)) {
        size_t count = reader->taken_count > 0 ? reader->taken_count : 16;
        while (count <= slot)
            count *= 2;
        uint32_t *taken = realloc(reader->taken, count * sizeof(*taken));
        if (taken == NULL)
            return;
        memset(taken + reader->taken_count, 0, (count - reader->taken_count) * sizeof(*taken));
        reader->taken = taken;
        reader->taken_count = count;
    }
    reader->taken[slot] = ordinal;
}

void ring_reader_note_slow(struct ring_reader *reader, const struct heap_event *event)
{
    uint32_t counted;
    if (event->heap == 0)
        note_taken(reader, event->thread, event->ordinal);
    if (reader->cut == NULL || (event->flags & RECORD_ALLOC_WEIGHED) != 0 ||
        !find_counted(reader, event->heap, event->thread, &counted) ||
        (int32_t)(event->ordinal - counted) <= 0)
        return;
    struct ring_cut *cut = reader->cut;
    if (event->heap == 0) {
        cut->totals.calls++;
        cut->totals.bytes += event->size;
    } else {
        cut->heap_totals[event->heap].calls++;
        cut->heap_totals[event->heap].bytes += event->size;
    }
}
