/* SPDX-License-Identifier: Apache-2.0 */
/* Keep each thread's open scopes, and write their begins and ends. */
#include "recorder/session/slices.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/array.h"
#include "util/clock.h"

/* Deeper scopes are counted as lost. */
#define OPEN_MAX 256u

#define END_UNKNOWN "unknown: records of the thread's scopes were lost"

struct slices {
    struct trace_writer *writer;
    int32_t pid;
    uint64_t image;
    int64_t process_ahead_ns; /* CLOCK_MONOTONIC of the process, of ours */
    uint64_t start_ns;
    int64_t ahead_ns;  /* CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC by this time, */
    uint64_t doubt_ns; /* give or take this */
    uint64_t tracks;   /* that were described */
    uint64_t lost;
    struct slice_thread {
        uint32_t tid;      /* 0: none yet */
        bool is_described; /* the trace has its track */
        uint64_t track;
        uint64_t last_ns; /* of its last record, CLOCK_BOOTTIME */
        uint64_t *open;   /* scopes, outermost first */
        size_t open_count, open_capacity;
    } * threads; /* by slot */
    size_t thread_count, thread_capacity;
};

struct slices *slices_open(struct trace_writer *writer, int32_t pid, uint64_t image,
                           uint64_t start_ns, int64_t process_ahead_ns)
{
    struct slices *slices = calloc(1, sizeof(*slices));
    if (slices != NULL)
        *slices = (struct slices){.writer = writer,
                                  .pid = pid,
                                  .image = image,
                                  .start_ns = start_ns,
                                  .process_ahead_ns = process_ahead_ns,
                                  .doubt_ns = UINT64_MAX / 2};
    return slices;
}

void slices_close(struct slices *slices)
{
    if (slices == NULL)
        return;
    for (size_t i = 0; i < slices->thread_count; i++)
        free(slices->threads[i].open);
    free(slices->threads);
    free(slices);
}

uint64_t slices_lost(const struct slices *slices)
{
    return slices->lost;
}

/* Return a number that no other track of the trace has: two are equal by chance once in 2^64. */
static uint64_t new_track(struct slices *slices)
{
    uint64_t words[] = {(uint32_t)slices->pid, slices->image, ++slices->tracks};
    uint64_t hash = UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        hash = (hash ^ words[i]) * UINT64_C(0xBF58476D1CE4E5B9);
        hash ^= hash >> 29;
    }
    return hash;
}

static struct slice_thread *thread_at(struct slices *slices, uint16_t slot)
{
    if (slot >= slices->thread_count) {
        size_t more = slot + 1u - slices->thread_count;
        if (ARRAY_RESERVE(&slices->threads, &slices->thread_capacity, slices->thread_count, more) <
            0)
            return NULL;
        memset(slices->threads + slices->thread_count, 0, more * sizeof(*slices->threads));
        slices->thread_count += more;
    }
    return &slices->threads[slot];
}

/* Begin the track of a thread that is new in its slot. The scopes of the slot's last thread stay
 * open: it died in them. */
static void begin_track(struct slices *slices, struct slice_thread *thread, uint32_t tid)
{
    thread->tid = tid;
    thread->is_described = false;
    thread->track = new_track(slices);
    thread->last_ns = 0;
    thread->open_count = 0;
}

static void describe_track(struct slices *slices, struct slice_thread *thread, const char *name)
{
    const struct trace_thread description = {
        .tid = (int32_t)thread->tid, .pid = slices->pid, .name = name};
    trace_writer_thread_track(slices->writer, thread->track, &description);
    thread->is_described = true;
}

void slices_describe_again(struct slices *slices)
{
    for (size_t i = 0; i < slices->thread_count; i++)
        slices->threads[i].is_described = false;
}

/* Return CLOCK_MONOTONIC's time now. Measure how far CLOCK_BOOTTIME is ahead, and keep the best
 * measurement: this thread may lose the processor between two readings. The distance changes when
 * the machine sleeps. */
static uint64_t read_clocks(struct slices *slices)
{
    uint64_t before_ns = clock_read_ns(CLOCK_MONOTONIC);
    uint64_t boottime_ns = clock_read_ns(CLOCK_BOOTTIME);
    uint64_t now_ns = clock_read_ns(CLOCK_MONOTONIC), doubt_ns = now_ns - before_ns;
    int64_t ahead_ns = (int64_t)(boottime_ns - before_ns);
    bool has_changed = (uint64_t)llabs(ahead_ns - slices->ahead_ns) > doubt_ns + slices->doubt_ns;
    if (has_changed || doubt_ns < slices->doubt_ns) {
        slices->ahead_ns = ahead_ns;
        slices->doubt_ns = doubt_ns;
    }
    return now_ns;
}

/* Return a record's time, CLOCK_BOOTTIME: between the session's start and now, and not before the
 * thread's last record. The records of a signal handler may come before that of the scope which it
 * interrupted. */
static uint64_t time_of(struct slices *slices, struct slice_thread *thread,
                        const struct record_scope *record)
{
    uint64_t now_ns = read_clocks(slices);
    uint64_t time_ns = record->time_ns - (uint64_t)slices->process_ahead_ns;
    time_ns = time_ns < now_ns ? time_ns : now_ns;
    if (time_ns < slices->start_ns)
        time_ns = slices->start_ns;
    time_ns += (uint64_t)slices->ahead_ns;
    if (time_ns > thread->last_ns)
        thread->last_ns = time_ns;
    return thread->last_ns;
}

/* Return how many scopes are open up to and including this one; 0: it is not open. */
static size_t depth_of(const struct slice_thread *thread, uint64_t scope)
{
    size_t depth = thread->open_count;
    while (depth > 0 && thread->open[depth - 1] != scope)
        depth--;
    return depth;
}

static void end_from(struct slices *slices, struct slice_thread *thread, size_t depth,
                     uint64_t boottime_ns, const char *doubt)
{
    while (thread->open_count > depth) {
        thread->open_count--;
        trace_writer_slice_end(slices->writer, thread->track, boottime_ns, doubt);
    }
}

/* Return how many open scopes stay open at this record. */
static size_t depth_after(const struct slice_thread *thread, const struct record_scope *record)
{
    size_t depth = thread->open_count, own = depth_of(thread, record->scope);
    size_t outer = record->outer != 0 ? depth_of(thread, record->outer) : 0;
    if (own > 0) /* it ends; or a jump has left it, and its storage begins anew */
        depth = own - 1;
    /* An outer scope that is not known may have begun before the session. */
    if ((outer > 0 || record->outer == 0) && outer < depth)
        depth = outer;
    return depth;
}

static void begin_slice(struct slices *slices, struct slice_thread *thread, uint64_t scope,
                        uint64_t boottime_ns, const char *name)
{
    if (thread->open_count >= OPEN_MAX ||
        ARRAY_ADD(&thread->open, &thread->open_count, &thread->open_capacity, scope) < 0)
        slices->lost++;
    else
        trace_writer_slice_begin(slices->writer, thread->track, boottime_ns, name);
}

void slices_take(struct slices *slices, const struct ledger_scope *scope)
{
    const struct record_scope *record = scope->record;
    bool begins = (record->flags & RECORD_SCOPE_BEGINS) != 0;
    struct slice_thread *thread = thread_at(slices, scope->slot);
    if (thread == NULL || scope->thread->tid == 0) {
        slices->lost += begins;
        return;
    }
    if (thread->tid != scope->thread->tid)
        begin_track(slices, thread, scope->thread->tid);
    if (!thread->is_described)
        describe_track(slices, thread, scope->thread->name);
    uint64_t boottime_ns = time_of(slices, thread, record);
    if ((record->flags & RECORD_SCOPE_AFTER_LOSS) != 0)
        end_from(slices, thread, 0, boottime_ns, END_UNKNOWN);
    end_from(slices, thread, depth_after(thread, record), boottime_ns, NULL);
    if (begins)
        begin_slice(slices, thread, record->scope, boottime_ns, scope->name);
}
