/* SPDX-License-Identifier: Apache-2.0 */
/* The slow paths of allocations and frees, from the sampling decision to the record in the ring. */
#include "client/sample/sample.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <string.h>
#include <time.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/interp/interpreter.h"
#include "client/modules/module.h"
#include "client/probes.h"
#include "client/sample/abandoned_frame.h"
#include "client/sample/adaptive.h"
#include "client/sample/context.h"
#include "client/sample/heap_states.h"
#include "client/sample/overhead.h"
#include "client/sample/own_frames.h"
#include "client/sample/ring_commit.h"
#include "client/sample/ring_writer.h"
#include "client/sample/sampler.h"
#include "client/sample/stack_cache.h"
#include "client/sample/stack_sender.h"
#include "client/sample/thread_slot.h"
#include "client/session.h"
#include "client/system.h"
#include "client/unwind/unfinished_walk.h"
#include "client/unwind/unwind_memory.h"
#include "client/unwind/unwind_stack.h"
#include "wire/record.h"

/* Interval of the search for libraries that were unloaded without a call of dlclose. */
#define MODULES_CHECK_MS 50u
#define MODULES_PER_MS 4u
#define MODULES_CHECK_MS_MAX (MODULES_CHECK_MS + MODULES_MAX / MODULES_PER_MS)

/* Walks of one stack, as long as its modules turn out to have interpreters. */
#define WALKS_MAX 4u

/* Buffers for stacks. The target's own stack may have only 16 KiB. A thread holds
 * one during a walk; a signal handler that interrupts the walk takes another. The first slots have
 * one of their own each, which no other thread takes; all threads share the rest. */
#define SCRATCHES 64u
#define SCRATCHES_OWNED 32u
#define SCRATCHES_SHARED (SCRATCHES - SCRATCHES_OWNED)

/* A thread that finds no buffer yields, then sleeps for a millisecond, at most this many times.
 * Then its sample's stack counts as lost. While it sleeps, the holders have the processor: under
 * load, hundreds of waiting threads would only yield to each other. */
#define SCRATCH_YIELDS 100
#define SCRATCH_SLEEPS 100

/*
 * The thread that holds a scratch buffer and the frame that took it, in one word. So at every
 * instruction that a jump may leave, a held buffer names its holder. The place is a frame address,
 * a multiple of 16 below 2^48, and never 0. Only the low bits of the tid fit. If the slot's next
 * thread has the same low bits, it cannot tell that its predecessor died.
 */
union scratch_holder {
    uint64_t word; /* 0: free */
    struct {
        uint64_t slot : 14, tid : 6, place : 44;
    };
};

#define SCRATCH_TID_MASK 63u

_Static_assert(SCRATCHES <= INTERPRETER_STACKS, "each buffer has notes");
_Static_assert(RING_THREADS_MAX <= 1u << 14, "a slot's number fits its field");

struct scratch {
    uint64_t holder; /* union scratch_holder */
    uint64_t pad2[7];
    struct unwind_memory memory;
    struct unfinished_walk unfinished;
    uint64_t frames[UNWIND_FRAMES_MAX];
    struct interpreter_merge merge;
} __attribute__((aligned(64)));

#if defined(HEAPPROFD_ATTACHED) || defined(HEAPPROFD_NO_HOOKS)
#define SAMPLE_NEAR_AT_START LIVE_SET_NEAR_NOTHING
#else
#define SAMPLE_NEAR_AT_START LIVE_SET_NEAR_ANYTHING
#endif

static const struct live_set_line no_live_addresses;
struct live_set sample_live_set = {.near = SAMPLE_NEAR_AT_START,
                                   .near_shift = LIVE_SET_NEAR_NOTHING_SHIFT,
                                   .level0 = (struct live_set_line *)&no_live_addresses};

static struct scratch *scratches; /* wiped on fork */

/* By slot: 1 if the daemon knows its present thread. Wiped on fork. */
static uint8_t *introduced;

int sample_init(void)
{
    scratches = system_map_wiped(SCRATCHES * sizeof(*scratches));
    introduced = system_map_wiped(RING_THREADS_MAX);
    if (scratches == NULL || introduced == NULL || stack_sender_init() != 0 ||
        interpreters_init() != 0)
        return -ENOMEM;
    return ring_writer_init();
}

void sample_forget(void)
{
    stack_sender_forget();
    interpreters_forget();
}

static union scratch_holder scratch_holder_of(const struct ring_thread *thread, uintptr_t here)
{
    union scratch_holder self = {.slot = (uint64_t)(thread - client.threads),
                                 .tid = load_relaxed(&thread->tid) & SCRATCH_TID_MASK,
                                 .place = here >> 4};
    return self;
}

/* Return whether the holder will not come back: it was the slot's previous thread, or the present
 * thread has left the function that took the buffer. */
static bool scratch_is_abandoned(union scratch_holder holder, union scratch_holder self,
                                 const struct ring_thread *thread, uintptr_t here)
{
    return holder.slot == self.slot &&
           (holder.tid != self.tid ||
            abandoned_frame(thread_slot_bounds(thread), (uintptr_t)holder.place << 4, here));
}

/* Take the slot's own buffer. Only its thread writes the holder. If a signal handler takes the
 * buffer between the load and the store, it has given it back, or has jumped away from here. */
static inline struct scratch *scratch_try_own(union scratch_holder self,
                                              const struct ring_thread *thread, uintptr_t here)
{
    struct scratch *scratch = &scratches[self.slot];
    union scratch_holder holder = {.word = load_relaxed(&scratch->holder)};
    if (unlikely(holder.word != 0) && !scratch_is_abandoned(holder, self, thread, here))
        return NULL;
    store_relaxed(&scratch->holder, self.word);
    barrier_signal();
    return scratch;
}

static struct scratch *scratch_try_shared(const struct ring_thread *thread, uintptr_t here)
{
    union scratch_holder self = scratch_holder_of(thread, here);
    struct scratch *scratch;
    for (uint32_t i = 0; i < SCRATCHES_SHARED; i++) {
        /* Each thread begins at another buffer: threads seldom compete. */
        scratch = &scratches[SCRATCHES_OWNED + (self.slot + i) % SCRATCHES_SHARED];
        union scratch_holder holder = {.word = load_relaxed(&scratch->holder)};
        if (holder.word != 0 && !scratch_is_abandoned(holder, self, thread, here))
            continue;
        if (cas_acquire(&scratch->holder, &holder.word, self.word))
            return scratch;
    }
    return NULL;
}

/* Take over the shared buffer of a thread that died during a walk. Its slot may never be reused, so
 * nobody else would free the buffer. */
static struct scratch *scratch_inherit(const struct ring_thread *thread, uintptr_t here)
{
    union scratch_holder self = scratch_holder_of(thread, here);
    for (uint32_t i = SCRATCHES_OWNED; i < SCRATCHES; i++) {
        union scratch_holder holder = {.word = load_relaxed(&scratches[i].holder)};
        if (holder.word == 0 || holder.slot == self.slot)
            continue;
        uint32_t living = thread_slot_living(holder.slot);
        bool is_gone = living == 0 || (living & SCRATCH_TID_MASK) != holder.tid;
        if (is_gone && cas_acquire(&scratches[i].holder, &holder.word, self.word))
            return &scratches[i];
    }
    return NULL;
}

/* A futex that nobody wakes: no further system call for filters (seccomp) to allow. */
static void sleep_a_millisecond(void)
{
    uint32_t never_woken = 0;
    struct timespec millisecond = {.tv_nsec = 1000000};
    system_call(CALL_SLEEP, &never_woken, &millisecond);
}

/* Return whether another thread may give a shared buffer back. Waiting is in vain if this thread
 * holds all of them: its own walks are interrupted or left until it goes on. */
static bool scratch_others_hold(const struct ring_thread *thread)
{
    uint64_t slot = (uint64_t)(thread - client.threads);
    for (uint32_t i = SCRATCHES_OWNED; i < SCRATCHES; i++) {
        union scratch_holder holder = {.word = load_relaxed(&scratches[i].holder)};
        if (holder.word == 0 || holder.slot != slot)
            return true;
    }
    return false;
}

/* Take a shared buffer, or the slot's own if a jump has left it. Wait for one if none is free. */
static __attribute__((noinline)) struct scratch *
scratch_take_shared(const struct ring_thread *thread, uintptr_t here)
{
    union scratch_holder self = scratch_holder_of(thread, here);
    bool has_own = self.slot < SCRATCHES_OWNED;
    struct scratch *scratch = has_own ? NULL : scratch_try_shared(thread, here);
    if (likely(scratch != NULL))
        return scratch;
    /* Jumps may have left each walk so far before it found the thread's stack. Without the stack's
     * bounds no buffer that they held would be known as free. */
    unwind_stack_find_home(thread_slot_bounds(thread), here);
    if (has_own)
        scratch = scratch_try_own(self, thread, here);
    if (likely(scratch == NULL))
        scratch = scratch_try_shared(thread, here);
    if (unlikely(scratch == NULL))
        scratch = scratch_inherit(thread, here);
    /* The holders are threads that lost the processor during a walk. */
    for (int i = 0; scratch == NULL && i < SCRATCH_YIELDS + SCRATCH_SLEEPS; i++) {
        if (!scratch_others_hold(thread))
            return NULL;
        if (i < SCRATCH_YIELDS)
            system_call(CALL_YIELD);
        else
            sleep_a_millisecond();
        scratch = scratch_try_shared(thread, here);
    }
    return scratch;
}

static inline struct scratch *scratch_take(const struct ring_thread *thread)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    union scratch_holder self = scratch_holder_of(thread, here);
    struct scratch *scratch =
        likely(self.slot < SCRATCHES_OWNED) ? scratch_try_own(self, thread, here) : NULL;
    return likely(scratch != NULL) ? scratch : scratch_take_shared(thread, here);
}

static void scratch_give(struct scratch *scratch)
{
    store_release(&scratch->holder, 0);
}

uint32_t sample_time_ms(void)
{
    uint64_t now = clock_now_ms();
    return now > client.start_ms ? (uint32_t)(now - client.start_ms) : 0;
}

/* Look for modules that were unloaded without the program's dlclose. Programs may have thousands of
 * plugins: whatever their number, 4 of them cost a millisecond until the next check. */
static void check_modules(uint32_t now_ms)
{
    uint32_t *due_ms = &client.process->modules_check_ms, due = load_relaxed(due_ms);
    uint32_t wait = due - now_ms;
    if ((wait > 0 && wait <= MODULES_CHECK_MS_MAX) ||
        !cas_relaxed(due_ms, &due, now_ms + MODULES_CHECK_MS_MAX))
        return;
    unsigned compared = module_check_unloaded(false);
    store_relaxed(due_ms, sample_time_ms() + MODULES_CHECK_MS + compared / MODULES_PER_MS);
}

/*
 * Tell the daemon that the address space changed: modules were loaded or unloaded. Set
 * `*generation` to the present one. Return whether its announcement is in the ring. If not, no
 * stack of this generation may be sent: the daemon drops all stacks when it reads the announcement.
 *
 * Another thread or a signal handler that comes before the record is in the ring announces the
 * generation, too, before its own stacks.
 */
static bool announce_generation(struct ring_thread *thread, uint32_t now_ms, uint32_t *generation)
{
    check_modules(now_ms);
    *generation = module_generation();
    uint32_t announced = load_acquire(&client.process->announced_generation);
    if (likely(announced == *generation))
        return true;
    struct record_modules_reset *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL)
        return false;
    record->generation = *generation;
    if (!ring_writer_commit(thread, record, RECORD_MODULES_RESET))
        return false;
    /* Another thread may have announced a newer one meanwhile. */
    cas_acq_rel(&client.process->announced_generation, &announced, *generation);
    return true;
}

/* Walk the stack, and insert the frames of interpreted languages. Return false if the daemon does
 * not know of the present generation of modules. */
static bool walk_stack(struct ring_thread *thread, const struct unwind_registers *caller,
                       uint32_t now_ms, struct scratch *scratch, struct unwind_walk *walk,
                       uint32_t *generation)
{
    bool interprets = interpreters_known() != 0;
    do {
        if (unlikely(!announce_generation(thread, now_ms, generation)))
            return false;
        *walk = unwind_callstack(caller, thread_slot_bounds(thread), &scratch->memory,
                                 scratch->frames, interprets ? scratch->merge.places : NULL,
                                 UNWIND_FRAMES_MAX, &scratch->unfinished);
        barrier_acquire(); /* the walk's loads come before */
    } while (unlikely(*generation != module_generation()));
    if (unlikely(own_frames_expected())) {
        unwind_write_recalled(walk, &scratch->memory, scratch->frames);
        own_frames_remove(walk, scratch->frames, interprets ? scratch->merge.places : NULL);
    }
    scratch->merge.interpreter = NULL;
    if (unlikely(interprets)) {
        scratch->merge.number = (unsigned)(scratch - scratches);
        interpreters_merge(&scratch->merge, walk, scratch->frames, *generation);
    }
    return true;
}

/* Give up open records that a jump has left, if the walk proves that it did. */
static inline __attribute__((always_inline)) void give_up_open(struct ring_thread *thread,
                                                               const struct unwind_walk *walk)
{
    if (unlikely(load_relaxed(&thread->in_ring) == RING_WRITES) && walk->uninterrupted)
        ring_writer_give_up_open(thread, (uintptr_t)__builtin_frame_address(0));
}

/* Send a walk that the daemon finishes. Return its token; 0: it is lost. */
static uint64_t send_unfinished(struct ring_thread *thread, const struct unwind_walk *walk,
                                struct scratch *scratch, uint32_t generation)
{
    uint64_t token =
        stack_sender_send_walk(thread, walk, scratch->frames, &scratch->unfinished, generation);
    if (unlikely(token == 0))
        sample_lose(RING_LOST_UNWIND);
    return token;
}

/* Send a stack whose modules the daemon has. Return its hash; 0: it is lost. */
static uint64_t send_stack(struct ring_thread *thread, struct unwind_walk *walk,
                           const struct scratch *scratch)
{
    const struct interpreter_merge *merge = &scratch->merge;
    const uint64_t *frames = scratch->frames;
    bool sent = true;
    if (merge->interpreter != NULL) {
        frames = merge->frames;
        walk->count = merge->count;
        sent = interpreters_send(thread, merge);
    }
    if (sent && stack_sender_send(thread, walk, frames)) {
        stack_cache_add(walk->hash);
        return walk->hash;
    }
    sample_lose(RING_LOST_UNWIND);
    return 0;
}

/* Walk the stack, and send it if the daemon does not have it. Return its hash; or set
 * RECORD_ALLOC_WALK in *flags and return the token of a walk for the daemon to finish; 0: lost. */
static uint64_t record_stack(struct ring_thread *thread, const struct unwind_registers *caller,
                             uint32_t now_ms, uint32_t *flags)
{
    struct scratch *scratch = scratch_take(thread);
    if (scratch == NULL) {
        add_relaxed(&client.control->lost[RING_LOST_NO_SCRATCH], 1);
        return 0;
    }
    struct unwind_walk walk;
    uint32_t generation, known, walks = 0;
    bool is_new, has_modules;
    scratch->unfinished.ask = stack_sender_ask;
    do {
        known = interpreters_known();
        is_new = false;
        has_modules = walk_stack(thread, caller, now_ms, scratch, &walk, &generation);
        if (unlikely(!has_modules) || walk.stop == UNWIND_FOR_DAEMON)
            break;
        give_up_open(thread, &walk);
        is_new = !stack_cache_holds(walk.hash);
        if (unlikely(is_new)) {
            unwind_write_recalled(&walk, &scratch->memory, scratch->frames);
            has_modules = stack_sender_send_modules(thread, &walk, scratch->frames, generation);
        }
        /* A module that is sent for the first time may have an interpreter. */
    } while (unlikely(known != interpreters_known()) && ++walks < WALKS_MAX);

    uint64_t stack = 0;
    if (unlikely(!has_modules)) {
        sample_lose(RING_LOST_UNWIND);
        scratch_give(scratch);
        return 0;
    }
    if (unlikely(walk.stop == UNWIND_FOR_DAEMON)) {
        *flags |= RECORD_ALLOC_WALK;
        unwind_write_recalled(&walk, &scratch->memory, scratch->frames);
        stack = send_unfinished(thread, &walk, scratch, generation);
    } else {
        if (walk.stop != UNWIND_OUTERMOST && walk.stop != UNWIND_TRUNCATED)
            add_relaxed(&client.control->lost[RING_LOST_UNWIND], 1);
        stack = is_new ? send_stack(thread, &walk, scratch) : walk.hash;
    }
    scratch_give(scratch);
    return stack;
}

/* Return whether the daemon does not know the slot's thread yet. Its THREAD record may have been
 * left by a jump, or found no room. */
static bool is_unknown(const struct ring_thread *thread)
{
    return thread->samples == 0 || introduced[thread - client.threads] == 0;
}

static __attribute__((noinline)) void send_thread(struct ring_thread *thread, uint8_t *known)
{
    char name[16] = "";
    system_call(CALL_THREAD_NAME, name);
    struct record_thread *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL)
        return;
    record->tid = load_relaxed(&thread->tid);
    memcpy(record->name, name, sizeof(name));
    if (ring_writer_commit(thread, record, RECORD_THREAD))
        *known = 1;
}

/* Send the thread's name at its first sample, and again at each power of two: names change. */
static inline void record_thread(struct ring_thread *thread)
{
    uint8_t *known = &introduced[thread - client.threads];
    if (unlikely(thread->samples == 0))
        *known = 0;
    barrier_signal();
    uint32_t samples = thread->samples++;
    if (unlikely((samples & (samples - 1)) == 0) || unlikely(*known == 0))
        send_thread(thread, known);
}

static void lose_calls(uint64_t calls, uint64_t bytes)
{
    add_relaxed(&client.control->lost[RING_LOST_BYTES], bytes);
    add_relaxed(&client.control->lost[RING_LOST_CALLS], calls);
}

void sample_lose_abandoned(struct ring_pending *pending, uint64_t size)
{
    bool has_begun = size != UINT64_MAX;
    uint64_t abandoned =
        load_relaxed(&pending->samples) - (has_begun ? ring_pending_word(size) : 0);
    if (likely(abandoned == 0))
        return;
    lose_calls(ring_pending_calls(abandoned), ring_pending_bytes(abandoned));
    sampler_settle(pending, abandoned);
}

static void settle(const struct sample *sample, bool recorded)
{
    if (unlikely(sample->pending == NULL))
        return;
    if (unlikely(!recorded))
        lose_calls(1, sample->size);
    sampler_settle(sample->pending, ring_pending_word(sample->size));
}

/* Write the sample's record into the ring. Return false if the session is over. */
static bool commit_sample(struct ring_thread *thread, const struct sample *sample, uint32_t now_ms,
                          uint32_t flags, uint64_t stack)
{
    uint64_t type = likely(sample->type == NULL) ? 0 : context_send_name(thread, sample->type);
    uint64_t context = context_is_empty() ? 0 : context_send(thread);
    bool tagged = type != 0 || context != 0;
    struct record_tagged_alloc *record;
    uint32_t length = tagged ? (uint32_t)sizeof(*record) : (uint32_t)sizeof(record->alloc);
    record = ring_writer_reserve(thread, length);
    if (record == NULL) {
        settle(sample, false);
        return false;
    }
    record->alloc.address = sample->address;
    record->alloc.size = sample->size;
    record->alloc.stack = stack;
    record->alloc.time_ms = now_ms;
    record->alloc.ordinal = sample->ordinal;
    record->alloc.interval = sample->interval;
    record->alloc.flags = flags;
    if (tagged) {
        record->type = type;
        record->context = context;
    }
    uint64_t offset = ring_offset_of(record), end = ring_end_of(offset, length);
    bool in_time = ring_publish(thread, &record->alloc.header,
                                tagged ? RECORD_TAGGED_ALLOC : RECORD_ALLOC, sample->heap);
    settle(sample, in_time);
    ring_close_record(thread, offset);
    if (likely(in_time) && likely((flags & (RECORD_ALLOC_RANGE | RECORD_ALLOC_LOST_FREE)) == 0)) {
        const struct ring_alloc alloc = {sample->address, sample->ordinal, now_ms, sample->heap};
        ring_writer_note_alloc(thread, end, &alloc);
    }
    ring_wake(offset, length);
    return true;
}

bool sample_record(struct ring_thread *thread, const struct sample *sample,
                   const struct unwind_registers *caller)
{
    /* The cache lines arrive during the stack walk. */
    if (sample->live != NULL)
        live_set_prefetch(sample->live, sample->address);
    ring_writer_prefetch(thread);

    record_thread(thread);
    uint32_t flags = sample->flags, now_ms = sample_time_ms();
    uint64_t stack = record_stack(thread, caller, now_ms, &flags);
    if (sample->live != NULL && !live_set_insert(sample->live, sample->address)) {
        add_relaxed(&client.control->lost[RING_LOST_LIVE_SET], 1);
        flags |= RECORD_ALLOC_LOST_FREE;
    }
    if (likely(commit_sample(thread, sample, now_ms, flags, stack)))
        return true;
    if (sample->live != NULL)
        live_set_remove(sample->live, sample->address);
    bool ended = client_state() != CLIENT_ACTIVE;
    /* Nothing is lost after the session's end. */
    if (load_relaxed(&client.control->stopping) == 0)
        add_relaxed(&client.control->lost[ended ? RING_LOST_OVERRUN : RING_LOST_REENTRANT], 1);
    return false;
}

/* Count an allocation for a tracer that listens without a session, and show it if it is sampled. */
static void account_listened(struct ring_thread *thread, struct ring_pending *pending,
                             const void *memory, size_t size)
{
    probes_keep_frame();
    const struct sampler_rule *rule = adaptive_rule(0);
    if (!sampler_count(thread, pending, size, rule, rule))
        return;
    sampler_settle(pending, ring_pending_word(size));
    live_set_insert(&sample_live_set, (uintptr_t)memory);
    if (probes_want_allocations())
        probes_fire_allocation((uintptr_t)memory, size, rule);
}

/* `nested`: the caller is a signal handler that interrupted a sample of its thread. */
static void account_allocation(const void *memory, size_t size, bool nested,
                               const struct unwind_registers *caller)
{
    probes_keep_frame();
    if (unlikely(client_state() == CLIENT_CONNECTING))
        return;
    struct ring_thread *thread = thread_slot_get();
    if (unlikely(thread == NULL))
        return;
    struct ring_pending *pending = &client.pending[thread - client.threads];
    if (unlikely(client_state() != CLIENT_ACTIVE)) {
        if (client_state() == CLIENT_LISTENED)
            account_listened(thread, pending, memory, size);
        else
            sampler_idle(thread, pending, 1, size);
        session_tick();
        return;
    }
    if (unlikely(client_is_python(size)))
        return;
    uint32_t drawn_by = thread->rule, index = adaptive_index();
    if (!sampler_count(thread, pending, size, adaptive_rule(drawn_by), adaptive_rule(index))) {
        if (likely(!nested))
            adaptive_serve(thread);
        return;
    }
    if (likely(!nested))
        sample_lose_abandoned(pending, size);
    const struct sample sample = {
        .address = (uintptr_t)memory,
        .size = size,
        .interval = drawn_by,
        .ordinal = (uint32_t)thread->calls,
        .live = &sample_live_set,
        .pending = pending,
    };
    uint64_t begun_ns = overhead_begin_event(thread->samples);
    if (sample_record(thread, &sample, caller) && probes_want_allocations())
        probes_fire_allocation(sample.address, size, adaptive_rule(drawn_by));
    adaptive_adjust(thread);
    overhead_end_sample(thread, begun_ns, size);
}

void sample_allocation(const void *memory, size_t size, const struct unwind_registers *caller)
{
    if (memory == NULL || unlikely(!client_is_relocated()))
        return;
    if (unlikely(load_relaxed(client_cell()) == NULL) && thread_slot_is_not_due()) {
        thread_slot_lose_call();
        return;
    }
    struct thread_passage passage;
    thread_enter(&passage);
    if (unlikely(passage.thread == NULL)) {
        if (client_state() == CLIENT_NEW)
            session_join();
        thread_settle(&passage, (uintptr_t)__builtin_frame_address(0));
    }
    account_allocation(memory, size, passage.was != 0, caller);
    thread_leave(&passage);
    if (heaps_have_due_callbacks())
        heaps_run_callbacks();
}

/* --- frees --- */

void sample_introduce(struct ring_thread *thread)
{
    if (unlikely(is_unknown(thread)))
        record_thread(thread);
}

void sample_lose(enum ring_loss loss)
{
    if (client_state() == CLIENT_ACTIVE && load_relaxed(&client.control->stopping) == 0)
        add_relaxed(&client.control->lost[loss], 1);
}

static inline __attribute__((always_inline)) bool write_free(struct ring_thread *thread,
                                                             const struct sample_freed *freed)
{
    if (unlikely(is_unknown(thread)))
        record_thread(thread);
    uint32_t now_ms = sample_time_ms();
    const struct ring_alloc alloc = {freed->address, freed->ordinal, now_ms, freed->heap};
    if (ring_writer_free_last(thread, &alloc))
        return true;
    struct record_free *record = ring_writer_reserve(thread, sizeof(*record));
    if (likely(record != NULL)) {
        record->address = freed->address;
        record->time_ms = now_ms;
        record->ordinal = freed->ordinal;
        if (likely(ring_commit(thread, &record->header, sizeof(*record), RECORD_FREE, freed->heap)))
            return true;
    } else {
        sample_lose(RING_LOST_FREE);
    }
    /* The next owner of the address frees it, or is sampled. Either tells the daemon that this
     * block is gone. */
    live_set_insert(freed->live, freed->address);
    return false;
}

bool sample_record_free(struct ring_thread *thread, const struct sample_freed *freed)
{
    return write_free(thread, freed);
}

static int account_free(const void *memory)
{
    /* A joining thread may be about to empty the set. */
    if (unlikely(client_state() == CLIENT_CONNECTING))
        return 0;
    if (!live_set_remove(&sample_live_set, (uintptr_t)memory))
        return 0;
    if (probes_want_frees())
        probes_fire_free((uintptr_t)memory);
    if (client_state() != CLIENT_ACTIVE)
        return 0;
    struct ring_thread *thread = thread_slot_get();
    if (unlikely(thread == NULL)) {
        /* Reported when the address is next freed or sampled, as in write_free(). */
        live_set_insert(&sample_live_set, (uintptr_t)memory);
        sample_lose(RING_LOST_FREE);
        return 0;
    }
    const struct sample_freed freed = {
        .address = (uintptr_t)memory, .ordinal = (uint32_t)thread->calls, .live = &sample_live_set};
    uint64_t begun_ns = overhead_begin_event(sample_free_number(&freed));
    bool recorded = write_free(thread, &freed);
    overhead_end_free(begun_ns);
    return recorded;
}

static int record_free(const void *memory)
{
    struct thread_passage passage;
    thread_enter(&passage);
    int recorded = account_free(memory);
    thread_leave(&passage);
    return recorded;
}

void sample_free(const void *memory)
{
    /* NULL reads as live (live_set.h), and C++ often deletes it. */
    if (memory != NULL)
        record_free(memory);
}

void sample_free_near(const void *memory)
{
    if (unlikely(live_set_near_might_hold(&sample_live_set, (uintptr_t)memory)))
        sample_free(memory);
}

void sample_free_range(uintptr_t start, uintptr_t end)
{
    for (uint64_t at = start; live_set_next(&sample_live_set, &at, end); at++)
        sample_free((const void *)at);
}

int sample_free_for_realloc(const void *memory)
{
    return memory != NULL && client_is_relocated() ? record_free(memory) : 0;
}

void sample_record_unfree(struct ring_thread *thread, const struct sample_freed *freed)
{
    if (!live_set_insert(freed->live, freed->address))
        return;
    struct record_unfree *record = ring_writer_reserve(thread, sizeof(*record));
    if (record == NULL) {
        sample_lose(RING_LOST_REENTRANT);
        return;
    }
    record->address = freed->address;
    ring_writer_commit_of_heap(thread, record, RECORD_UNFREE, freed->heap);
}

static void account_unfree(const void *memory)
{
    struct ring_thread *thread = client_state() == CLIENT_ACTIVE ? thread_slot_get() : NULL;
    const struct sample_freed freed = {.address = (uintptr_t)memory, .live = &sample_live_set};
    if (thread != NULL)
        sample_record_unfree(thread, &freed);
}

void sample_unfree(const void *memory)
{
    struct thread_passage passage;
    thread_enter(&passage);
    account_unfree(memory);
    thread_leave(&passage);
}
