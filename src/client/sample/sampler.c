/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draw gaps, count allocations and decide which are sampled.
 *
 * Gaps are whole bytes: the floor of an exponential variate is geometric, which is as memoryless
 * over bytes as the exponential itself. An allocation of s bytes is sampled if and only if s
 * exceeds the bytes left of the gap.
 */
#include "client/sample/sampler.h"

#include "client/arch/counter.h"
#include "wire/barrier.h"

/* Bytes that a thread without a session allocates between two checks for a session. A check costs
 * about 20 ns. */
#define IDLE_GAP_BYTES 65536u

/* Bytes that a thread allocates at most between two looks at the interval in force: at a long one
 * its next sample may be hours away. A look costs about 20 ns. */
#define LOADED_BYTES_MAX (UINT64_C(256) << 10)

/* SplitMix64 (Steele, Lea and Flood, 2014): one addition of state, full period,
 * and any two seeds give unrelated streams. */
uint64_t sampler_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/*
 * An exponential variate of mean interval_bytes, rounded down, by von Neumann's
 * comparison method (1951): exact, without a logarithm, 4.3 uniforms on average.
 * If a run u1 >= u2 >= ... first rises at an even place, the result is u1. Else add
 * a whole interval and try again.
 */
static uint64_t draw_gap(uint64_t *state, uint64_t interval_bytes)
{
    for (uint64_t whole = 0; whole < 64; whole++) {
        uint64_t first = sampler_random(state);
        uint64_t previous = first, next;
        bool odd = true;
        while ((next = sampler_random(state)) <= previous) {
            previous = next;
            odd = !odd;
        }
        if (odd)
            return whole * interval_bytes +
                   (uint64_t)(((unsigned __int128)first * interval_bytes) >> 64);
    }
    return 64 * interval_bytes; /* once in 10^27 */
}

/* Set bytes_left without changing a total. The same amount is added to both words, so that bytes
 * which a signal handler takes meanwhile stay taken. */
static void reload(struct ring_thread *thread, uint64_t seen_left, uint64_t left)
{
    counter_add_own(&thread->bytes_loaded, left - seen_left);
    counter_add_own(&thread->bytes_left, left - seen_left);
}

/* Load less than certain_bytes, so that an allocation that is certainly sampled takes the slow
 * path. */
static void load_gap(struct ring_thread *thread, uint64_t seen_left, uint64_t gap,
                     const struct sampler_rule *rule)
{
    uint64_t left = gap < LOADED_BYTES_MAX ? gap : LOADED_BYTES_MAX;
    if (rule->certain_bytes > 0 && left >= rule->certain_bytes)
        left = rule->certain_bytes - 1;
    thread->gap_rest = gap - left;
    reload(thread, seen_left, left);
}

static uint64_t next_gap(struct ring_thread *thread, const struct sampler_rule *rule)
{
    return rule->interval_bytes <= 1 ? 0 : draw_gap(&thread->random, rule->interval_bytes);
}

/* Save the line's present totals for readers: until end_counting(), its words do not agree. */
static void begin_counting(const struct ring_thread *thread, struct ring_pending *pending)
{
    uint64_t bytes = load_relaxed(&thread->bytes_before) + load_relaxed(&thread->bytes_loaded) -
                     load_relaxed(&thread->bytes_left);
    uint64_t samples = load_relaxed(&pending->samples);
    /* Release: not before the end of the last counting. */
    store_release(&pending->settled_bytes, bytes - ring_pending_bytes(samples));
    uint64_t calls = load_relaxed(&thread->calls);
    store_relaxed(&pending->settled_calls, calls - ring_pending_calls(samples));
    store_release(&pending->counting, calls + 1);
    barrier_release(); /* the line's words change after it */
}

static void end_counting(struct ring_pending *pending)
{
    store_release(&pending->counting, 0);
}

/* Readers use settled totals instead of the words while a thread counts. Set the words to these,
 * plus the pending samples. */
void sampler_inherit(struct ring_thread *thread, struct ring_pending *pending)
{
    if (ring_is_counting(pending->counting, thread->calls)) {
        uint64_t bytes = thread->bytes_before + thread->bytes_loaded - thread->bytes_left;
        uint64_t samples = pending->samples;
        thread->bytes_before += pending->settled_bytes + ring_pending_bytes(samples) - bytes;
        store_relaxed(&thread->calls, pending->settled_calls + ring_pending_calls(samples));
    }
    end_counting(pending);
}

void sampler_start(struct ring_thread *thread, struct ring_pending *pending, uint64_t seed,
                   const struct sampler_rule *rule)
{
    begin_counting(thread, pending);
    thread->random = seed;
    thread->rule = (uint16_t)rule->number;
    load_gap(thread, load_relaxed(&thread->bytes_left), next_gap(thread, rule), rule);
    end_counting(pending);
}

static void add_call(struct ring_thread *thread, struct ring_pending *pending, uint64_t size,
                     bool sampled)
{
    if (sampled) {
        counter_add_own(&pending->samples, ring_pending_word(size));
        barrier_signal(); /* readers of a living process use the settled totals */
    }
    counter_add_own(&thread->bytes_before, size);
    counter_add_own(&thread->calls, 1);
}

/* Count an allocation of a signal handler that has interrupted sampler_count(), which is about to
 * set the gap: if both set it, their gaps would add up. So decide by a gap of its own, which has
 * the same distribution as what is left of any other. (A jump out of sampler_count() leads here,
 * too, for at most two calls.) */
static __attribute__((noinline)) bool count_inside(struct ring_thread *thread,
                                                   struct ring_pending *pending, uint64_t size,
                                                   const struct sampler_rule *rule)
{
    uint64_t weighed = size > 0 ? size : 1;
    bool sampled = size >= rule->certain_bytes || weighed > next_gap(thread, rule);
    add_call(thread, pending, size, sampled);
    return sampled;
}

bool sampler_count(struct ring_thread *thread, struct ring_pending *pending, uint64_t size,
                   const struct sampler_rule *rule, const struct sampler_rule *next)
{
    if (unlikely(ring_is_counting(load_relaxed(&pending->counting), load_relaxed(&thread->calls))))
        return count_inside(thread, pending, size, rule);
    begin_counting(thread, pending);
    barrier_signal();
    uint64_t left = load_relaxed(&thread->bytes_left);
    bool overdrawn = (int64_t)left < 0 && -left > thread->gap_rest;
    uint64_t gap = overdrawn ? 0 : left + thread->gap_rest;
    uint64_t weighed = size > 0 ? size : 1;
    /* A signal handler that allocated after the caller had read thread->rule has drawn the gap by
     * another one. */
    bool redrawn = thread->rule != rule->number;
    if (unlikely(redrawn))
        gap = next_gap(thread, rule);
    bool sampled = size >= rule->certain_bytes || weighed > gap;

    add_call(thread, pending, size, sampled);
    /* A gap has no memory: what is left of it may be drawn anew by another rule, for reasons that
     * do not depend on its end. */
    thread->rule = (uint16_t)next->number;
    if (sampled || redrawn || rule->interval_bytes != next->interval_bytes)
        load_gap(thread, left, next_gap(thread, next), next);
    else
        load_gap(thread, left, gap - weighed, rule);
    end_counting(pending);
    return sampled;
}

void sampler_settle(struct ring_pending *pending, uint64_t samples)
{
    barrier_release(); /* the record is in the ring before */
    counter_add_own(&pending->samples, -samples);
}

void sampler_call_next(struct ring_thread *thread, struct ring_pending *pending)
{
    begin_counting(thread, pending);
    uint64_t left = load_relaxed(&thread->bytes_left);
    thread->gap_rest += left;
    reload(thread, left, 0);
    end_counting(pending);
}

void sampler_idle(struct ring_thread *thread, struct ring_pending *pending, uint64_t calls,
                  uint64_t bytes)
{
    begin_counting(thread, pending);
    counter_add_own(&thread->bytes_before, bytes);
    counter_add_own(&thread->calls, calls);
    thread->gap_rest = 0;
    reload(thread, load_relaxed(&thread->bytes_left), IDLE_GAP_BYTES);
    end_counting(pending);
}
