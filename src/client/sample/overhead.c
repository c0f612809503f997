/* SPDX-License-Identifier: Apache-2.0 */
/* Account what the profile costs, compare it with the program's processor time, and choose the
 * interval. */
#include "client/sample/overhead.h"

#include <time.h>

#include "client/sample/adaptive.h"
#include "client/system.h"

/* A process has so many samples before any interval is widened: all that a short program needs. */
#define SAMPLES_FREE 100000u

/* Unspent budget is kept up to that of so much of the program's processor time. A wider interval
 * begins with GRANT of it, so that one burst of samples does not widen it again at once. */
#define KEPT_NS INT64_C(1000000000)
#define GRANT_PARTS 5

/* Least time between two looks at the balance, and between two at whether there is room. */
#define CHECK_NS UINT64_C(10000000)
#define CALM_NS UINT64_C(200000000)

/* A thread may lose the processor, or wait for the ring, in the middle of a sample. No sample costs
 * more. */
#define EVENT_NS_MAX 20000u

/* Processor time of the daemon for a byte of records until it has published its own (1/16 ns):
 * 120 ns for a sample of 48 bytes and its free. */
#define CONSUMING_16THS 40u
#define CONSUMED_MIN (UINT64_C(1) << 16)

/* So many live samples take some 200 MB of the daemon's memory. */
#define LIVE_MAX INT64_C(4000000)

/* Return the process's processor time, or a clock's time if it cannot be read (*by_clock): that
 * limits the share of elapsed time. */
static uint64_t processor_time_ns(uint64_t now_ns, bool *by_clock)
{
    struct timespec now = {0};
    *by_clock = system_calls_are_forbidden() || system_call(CALL_PROCESSOR_CLOCK, &now) != 0;
    return *by_clock ? now_ns : (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void overhead_begin(uint32_t max_overhead_percent)
{
    struct client_overhead *overhead = &client.process->overhead;
    if (max_overhead_percent == 0) {
        store_relaxed(&overhead->max_percent, 0);
        return;
    }
    uint64_t now_ns = clock_now_ns();
    bool by_clock;
    uint64_t processor_ns = processor_time_ns(now_ns, &by_clock);
    *overhead = (struct client_overhead){
        .checked_ns = now_ns, .processor_ns = processor_ns, .by_clock = by_clock};
    store_relaxed(&overhead->max_percent, max_overhead_percent);
}

/* Return the processor time that the daemon needs for this many bytes of records. */
static uint64_t consuming_time_ns(uint64_t bytes)
{
    uint64_t consumed = load_relaxed(&client.control->consumed);
    uint64_t spent_ns = load_relaxed(&client.control->consuming_ns);
    if (consumed < CONSUMED_MIN || spent_ns == 0)
        return bytes * CONSUMING_16THS / 16;
    return bytes * (spent_ns * 256 / consumed) / 256;
}

/* Return the calls of all heaps that an interval of 1 would record. */
static uint64_t calls_ever(void)
{
    uint64_t calls = 0;
    uint32_t threads = load_relaxed(&client.control->threads_used);
    for (uint32_t i = 0; adaptive_rule(0)->interval_bytes == 1 && i < threads; i++)
        calls += load_relaxed(&client.threads[i].calls);
    uint32_t lines = load_relaxed(&client.control->heap_lines_used);
    for (uint32_t i = 0; i < lines && i < RING_HEAP_LINES_MAX; i++)
        calls += load_relaxed(&client.heap_lines[i].calls);
    return calls;
}

/* What passed since the last look. */
struct window {
    uint64_t samples, cost_ns;
    int64_t budget_ns;  /* what the program's time allows */
    int64_t savable_ns; /* the part of cost_ns that the next wider interval would save */
};

static struct window take_window(struct client_overhead *overhead, uint64_t now_ns)
{
    uint32_t samples = exchange_relaxed(&overhead->samples, 0);
    uint32_t savable = exchange_relaxed(&overhead->savable, 0);
    uint64_t own_ns = exchange_relaxed(&overhead->spent_ns, 0);
    uint64_t reserved = load_relaxed(&client.control->reserved);
    bool by_clock, was_by_clock = load_relaxed(&overhead->by_clock);
    uint64_t processor_ns = processor_time_ns(now_ns, &by_clock);
    store_relaxed(&overhead->by_clock, by_clock);
    uint64_t passed_ns = processor_ns - load_relaxed(&overhead->processor_ns);
    uint64_t bytes = reserved - load_relaxed(&overhead->reserved);
    store_relaxed(&overhead->processor_ns, processor_ns);
    store_relaxed(&overhead->reserved, reserved);
    if ((int64_t)passed_ns < 0 || (int64_t)bytes < 0) /* another thread looked at the same time */
        passed_ns = bytes = 0;
    if (by_clock != was_by_clock) /* the program has restricted its system calls */
        passed_ns = 0;
    uint64_t program_ns = passed_ns > own_ns ? passed_ns - own_ns : 0;
    struct window window = {.samples = samples, .cost_ns = own_ns + consuming_time_ns(bytes)};
    window.budget_ns = (int64_t)(program_ns * load_relaxed(&overhead->max_percent) / 100);
    if (samples > 0)
        window.savable_ns = (int64_t)(window.cost_ns * savable / samples);
    return window;
}

static int64_t kept_max(const struct client_overhead *overhead)
{
    return KEPT_NS * load_relaxed(&overhead->max_percent) / 100;
}

/* Return whether recording everything fills the ring faster than the daemon reads it, or keeps more
 * live samples than are worth their memory. */
static bool is_crowded(const struct client_overhead *overhead)
{
    uint64_t size = client.data_mask + 1;
    uint64_t used =
        load_relaxed(&client.control->reserved) - load_relaxed(&client.control->consumed);
    return used > size - size / 4 || load_relaxed(&overhead->live) > LIVE_MAX;
}

/* Whether the samples of the window are mostly ones that a wider interval would save. */
static bool is_worth_widening(const struct window *window)
{
    return window->savable_ns > 0 && (uint64_t)window->savable_ns >= window->cost_ns / 2;
}

static void widen(struct client_overhead *overhead, struct ring_thread *thread, uint32_t index)
{
    if (!adaptive_change(thread, index))
        return;
    store_relaxed(&overhead->balance_ns, kept_max(overhead) / GRANT_PARTS);
    store_relaxed(&overhead->calm_ns, 0);
}

/* Begin to watch for room. */
static void begin_calm(struct client_overhead *overhead, uint64_t now_ns)
{
    store_relaxed(&overhead->calm_ns, now_ns);
    store_relaxed(&overhead->calm_calls, calls_ever());
    store_relaxed(&overhead->calm_samples, 0);
    store_relaxed(&overhead->calm_cost_ns, 0);
    store_relaxed(&overhead->calm_budget_ns, 0);
}

/* Return to a shorter interval if what that would cost is at most half of the budget, and half of
 * what may be kept is unspent. */
static void narrow_if_calm(struct client_overhead *overhead, struct ring_thread *thread,
                           const struct window *window, uint64_t now_ns)
{
    uint32_t index = adaptive_index();
    if (index <= adaptive_asked())
        return;
    if (load_relaxed(&overhead->calm_ns) == 0) {
        begin_calm(overhead, now_ns);
        return;
    }
    uint64_t samples = add_relaxed(&overhead->calm_samples, window->samples) + window->samples;
    uint64_t cost = add_relaxed(&overhead->calm_cost_ns, window->cost_ns) + window->cost_ns;
    int64_t budget = add_relaxed(&overhead->calm_budget_ns, window->budget_ns) + window->budget_ns;
    if (now_ns - load_relaxed(&overhead->calm_ns) < CALM_NS)
        return;
    uint64_t calls = calls_ever() - load_relaxed(&overhead->calm_calls);
    uint64_t more = index > 1 ? 2 : samples > 0 ? calls / samples + 1 : calls + 1;
    bool fits = cost <= (uint64_t)budget / 2 / more;
    int64_t kept = kept_max(overhead), balance = load_relaxed(&overhead->balance_ns);
    begin_calm(overhead, now_ns);
    if (!fits || balance < kept / 2 || load_relaxed(&overhead->live) > LIVE_MAX / 2)
        return;
    if (adaptive_change(thread, index - 1))
        store_relaxed(&overhead->balance_ns, balance - kept / GRANT_PARTS);
}

static void overhead_check(struct client_overhead *overhead, struct ring_thread *thread,
                           uint64_t now_ns)
{
    struct window window = take_window(overhead, now_ns);
    uint64_t ever = add_relaxed(&overhead->samples_ever, window.samples) + window.samples;
    bool is_free = ever < SAMPLES_FREE;
    int64_t balance =
        load_relaxed(&overhead->balance_ns) + window.budget_ns - (is_free ? 0 : window.savable_ns);
    int64_t kept = kept_max(overhead);
    store_relaxed(&overhead->balance_ns, balance < kept ? balance : kept);
    if (is_free)
        return;
    uint32_t index = adaptive_index();
    if (balance < 0 || (index == 0 && is_worth_widening(&window) && is_crowded(overhead)))
        widen(overhead, thread, index + 1);
    else
        narrow_if_calm(overhead, thread, &window, now_ns);
}

/* Add what a timed event has cost, for itself and for those that are not timed. Return how many
 * these are. */
static uint32_t add_event(struct client_overhead *overhead, uint64_t begun_ns, uint64_t now_ns)
{
    uint32_t part = adaptive_index() == 0 ? OVERHEAD_PART : 1;
    uint64_t spent_ns = now_ns - begun_ns;
    add_relaxed(&overhead->spent_ns, part * (spent_ns < EVENT_NS_MAX ? spent_ns : EVENT_NS_MAX));
    return part;
}

void overhead_note_sample(struct ring_thread *thread, uint64_t begun_ns, uint64_t size)
{
    struct client_overhead *overhead = &client.process->overhead;
    uint64_t now_ns = clock_now_ns(), checked_ns = load_relaxed(&overhead->checked_ns);
    uint32_t part = add_event(overhead, begun_ns, now_ns), index = adaptive_index();
    add_relaxed(&overhead->samples, part);
    add_relaxed(&overhead->live, (int64_t)part);
    if (index + 1 < ADAPTIVE_RULES_MAX && size < adaptive_wider_bytes(index))
        add_relaxed(&overhead->savable, part);
    if ((int64_t)(now_ns - checked_ns) >= (int64_t)CHECK_NS &&
        cas_relaxed(&overhead->checked_ns, &checked_ns, now_ns))
        overhead_check(overhead, thread, now_ns);
}

void overhead_note_free(uint64_t begun_ns)
{
    struct client_overhead *overhead = &client.process->overhead;
    uint32_t part = add_event(overhead, begun_ns, clock_now_ns());
    add_relaxed(&overhead->live, -(int64_t)part);
}
