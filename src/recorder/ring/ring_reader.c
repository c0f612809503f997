/* SPDX-License-Identifier: Apache-2.0 */
/* Make the ring, drain its records, and step over records that nobody will finish. */
#include "recorder/ring/ring_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/array.h"
#include "util/clock.h"
#include "util/heartbeat.h"
#include "util/populate.h"
#include "util/process_files.h"
#include "wire/barrier.h"

/* Space is released at least this often, with a heartbeat: writers need not wait for the end of a
 * long drain, and do not take a reader that is slow for a dead one. */
#define RELEASE_BYTES (128u << 10)

/* Pages of a new ring are mapped in pieces of this size. */
#define POPULATE_BYTES (128u << 10)

/* During long work all rings get a heartbeat this often. A client counts on several a second. */
#define BEAT_PERIOD_MS 100u

/* The state of one drain. */
struct drain {
    struct ring_reader *reader;
    const struct ring_visitor *visitor;
    void *context;
    size_t event_count;
    struct heap_event events[RING_EVENTS_BATCH];
    uint64_t record[RING_RECORD_BYTES_MAX / 8]; /* copy of a record that is not an event */
};

/* --- heartbeats --- */

/* The open rings of this process. */
static struct {
    struct ring_control **controls;
    size_t count, capacity;
    uint64_t beat_ms; /* when all of them got a heartbeat */
} open_rings;

static void beat_all(void)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
    if (now_ms < open_rings.beat_ms + BEAT_PERIOD_MS)
        return;
    open_rings.beat_ms = now_ms;
    for (size_t i = 0; i < open_rings.count; i++)
        store_relaxed(&open_rings.controls[i]->heartbeat_ms, now_ms);
}

static int note_open(struct ring_control *control)
{
    int code = ARRAY_RESERVE(&open_rings.controls, &open_rings.capacity, open_rings.count, 1);
    if (code == 0)
        open_rings.controls[open_rings.count++] = control;
    heartbeat_set(beat_all);
    return code;
}

static void note_closed(const struct ring_control *control)
{
    for (size_t i = 0; i < open_rings.count; i++) {
        if (open_rings.controls[i] == control)
            open_rings.controls[i] = open_rings.controls[--open_rings.count];
    }
    if (open_rings.count > 0)
        return;
    free(open_rings.controls);
    open_rings.controls = NULL;
    open_rings.capacity = 0;
}

/* --- memory --- */

static int map_ring(struct ring_reader *reader, int fd, uint64_t data_bytes)
{
    size_t file_bytes = RING_DATA_OFFSET + data_bytes;
    size_t reserved_bytes = file_bytes + data_bytes;
    uint8_t *base =
        mmap(NULL, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return -errno;
    int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;
    if (mmap(base, file_bytes, protection, flags, fd, 0) == MAP_FAILED ||
        mmap(base + file_bytes, data_bytes, protection, flags, fd, RING_DATA_OFFSET) ==
            MAP_FAILED) {
        int code = -errno;
        munmap(base, reserved_bytes);
        return code;
    }
    reader->control = (struct ring_control *)base;
    reader->threads = (struct ring_thread *)(base + RING_THREADS_OFFSET);
    reader->heap_lines = (struct ring_thread *)(base + RING_HEAP_LINES_OFFSET);
    reader->pending = (struct ring_pending *)(base + RING_PENDING_OFFSET);
    reader->data = base + RING_DATA_OFFSET;
    reader->data_bytes = data_bytes;
    return 0;
}

int ring_reader_open(struct ring_reader *reader, const char *name, uint64_t data_bytes, int *memfd)
{
    if (data_bytes < RING_DATA_BYTES_MIN || data_bytes > RING_DATA_BYTES_MAX ||
        (data_bytes & (data_bytes - 1)) != 0)
        return -EINVAL;
    reader->control = NULL;
    reader->cut = NULL;
    reader->taken = NULL;
    reader->taken_count = 0;
    reader->consumed = reader->busy_bytes = reader->populated = 0;
    reader->used_bytes = reader->most_used_bytes = 0;
    reader->stuck_at = UINT64_MAX;
    reader->generation = 0;
    reader->last.end = UINT64_MAX;
    reader->process = 0;
    reader->opened_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);

    int code = 0;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    /* Sealed against shrinking: if the client removed a page, our access would raise SIGBUS. */
    if (ftruncate(fd, (off_t)(RING_DATA_OFFSET + data_bytes)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        code = -errno;
    if (code == 0)
        code = map_ring(reader, fd, data_bytes);
    if (code == 0 && (code = note_open(reader->control)) < 0)
        ring_reader_close(reader);
    if (code < 0) {
        close(fd);
        return code;
    }
    reader->control->data_bytes = data_bytes;
    reader->control->version = RING_VERSION;
    reader->control->client_state = RING_CLIENT_AWAITED;
    store_release(&reader->control->magic, RING_MAGIC);
    *memfd = fd;
    return 0;
}

void ring_reader_close(struct ring_reader *reader)
{
    free(reader->taken);
    reader->taken = NULL;
    reader->taken_count = 0;
    if (reader->control == NULL)
        return;
    ring_reader_end_cut(reader);
    note_closed(reader->control);
    munmap(reader->control, RING_DATA_OFFSET + 2 * reader->data_bytes);
    reader->control = NULL;
}

void ring_reader_set_heaps(struct ring_reader *reader, const struct ring_heaps *heaps)
{
    memcpy((char *)reader->control + RING_HEAPS_OFFSET, heaps, sizeof(*heaps));
}

void ring_reader_beat(struct ring_reader *reader, uint64_t monotonic_ms)
{
    store_relaxed(&reader->control->heartbeat_ms, monotonic_ms);
}

void ring_reader_restrict(struct ring_reader *reader)
{
    store_ordered(&reader->control->restricted, 1);
}

void ring_reader_ask_doublings(struct ring_reader *reader, uint32_t doublings)
{
    reader->asked = ring_ask_doublings(reader->asked, doublings);
    store_release(&reader->control->asked_doublings, reader->asked);
}

void ring_reader_note_cost(struct ring_reader *reader, uint64_t processor_ns)
{
    reader->consuming_ns += processor_ns;
    store_relaxed(&reader->control->consuming_ns, reader->consuming_ns);
}

static void wake_writers(struct ring_control *control)
{
    /* A writer increments `waiters`, then reads `consumed` with the futex word; we store
     * `consumed`, increment the futex word, then read `waiters`. All these accesses have one total
     * order, so one side sees the other's write. */
    add_ordered(&control->space_futex, 1);
    if (load_ordered(&control->waiters) != 0)
        syscall(SYS_futex, &control->space_futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ring_reader_stop(struct ring_reader *reader)
{
    store_ordered(&reader->control->stopping, 1);
    add_ordered(&reader->control->space_futex, 1);
    syscall(SYS_futex, &reader->control->space_futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void release_space(struct ring_reader *reader, uint64_t from)
{
    uint64_t bytes = reader->consumed - from;
    if (bytes == 0)
        return;
    memset(reader->data + (from & (reader->data_bytes - 1)), 0, bytes);
    store_release(&reader->control->consumed, reader->consumed);
    wake_writers(reader->control);
}

static int flush_events(struct drain *drain)
{
    size_t count = drain->event_count;
    drain->event_count = 0;
    return count > 0 ? drain->visitor->events(drain->context, drain->events, count) : 0;
}

/* Copy whole words. Read each of them once. */
static void copy_record(void *to, const uint8_t *from, size_t bytes)
{
    uint64_t *words = to;
    const uint64_t *shared = (const uint64_t *)from;
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = load_relaxed(&shared[i]);
}

/* Return the place of a new event, whose batch is not full. */
static struct heap_event *add_event(struct drain *drain, union record_header header, uint8_t type)
{
    struct heap_event *event = &drain->events[drain->event_count++];
    event->type = type;
    event->heap = header.heap;
    event->thread = header.thread;
    return event;
}

static int end_event(struct drain *drain)
{
    return drain->event_count == RING_EVENTS_BATCH ? flush_events(drain) : 0;
}

/* Return the whole time of a record. Its 32 bits overflow after 49.7 days; it is read at most 24
 * days after it was written. */
static uint64_t whole_time(const struct ring_reader *reader, uint32_t time_ms)
{
    int64_t whole_ms = (int64_t)reader->age_ms + (int32_t)(time_ms - (uint32_t)reader->age_ms);
    return whole_ms > 0 ? (uint64_t)whole_ms : 0;
}

/* Read each word of the shared record once, into the private event. */
static int take_alloc(struct drain *drain, union record_header header, const uint8_t *at)
{
    const struct record_tagged_alloc *tagged = (const void *)at;
    const struct record_alloc *record = &tagged->alloc;
    struct ring_reader *reader = drain->reader;
    bool is_tagged = header.type == RECORD_TAGGED_ALLOC;
    if (header.length < (is_tagged ? sizeof(*tagged) : sizeof(*record)))
        return -EBADMSG;

    struct heap_event *event = add_event(drain, header, RECORD_ALLOC);
    event->address = load_relaxed(&record->address);
    event->size = load_relaxed(&record->size);
    event->stack = load_relaxed(&record->stack);
    event->time_ms = whole_time(reader, load_relaxed(&record->time_ms));
    event->ordinal = load_relaxed(&record->ordinal);
    event->interval = load_relaxed(&record->interval);
    event->flags = load_relaxed(&record->flags);
    event->position = reader->consumed;
    event->type_hash = is_tagged ? load_relaxed(&tagged->type) : 0;
    event->context_hash = is_tagged ? load_relaxed(&tagged->context) : 0;
    if (event->flags & RECORD_ALLOC_WALK)
        event->stack = drain->visitor->walked(drain->context, header.thread, event->stack);
    ring_reader_note(reader, event);
    reader->last = (struct ring_last_alloc){
        .end = reader->consumed + header.length,
        .address = event->address,
        .time_ms = event->time_ms,
        .ordinal = event->ordinal,
        .thread = header.thread,
        .heap = header.heap,
    };
    return end_event(drain);
}

static int take_free_last(struct drain *drain, union record_header header)
{
    const struct ring_last_alloc *last = &drain->reader->last;
    if (last->end != drain->reader->consumed || last->thread != header.thread ||
        last->heap != header.heap)
        return -EBADMSG;
    struct heap_event *event = add_event(drain, header, RECORD_FREE);
    event->address = last->address;
    event->time_ms = last->time_ms;
    event->ordinal = last->ordinal;
    return end_event(drain);
}

/* Take a FREE or an UNFREE. */
static int take_free(struct drain *drain, union record_header header, const uint8_t *at)
{
    const struct record_free *record = (const void *)at;
    bool is_free = header.type == RECORD_FREE;
    if (header.length < (is_free ? sizeof(struct record_free) : sizeof(struct record_unfree)))
        return -EBADMSG;
    struct heap_event *event = add_event(drain, header, header.type);
    event->address = load_relaxed(&record->address);
    if (is_free) {
        event->time_ms = whole_time(drain->reader, load_relaxed(&record->time_ms));
        event->ordinal = load_relaxed(&record->ordinal);
    }
    return end_event(drain);
}
_Static_assert(offsetof(struct record_free, address) == offsetof(struct record_unfree, address),
               "the address is at the same place in both");

static int take_stack(struct drain *drain, uint32_t length)
{
    const struct record_stack *stack = (const void *)drain->record;
    if (length < sizeof(*stack) || stack->count > (length - sizeof(*stack)) / 8 || stack->hash == 0)
        return -EBADMSG;
    return drain->visitor->stack(drain->context, stack);
}

static int take_module(struct drain *drain, uint32_t length)
{
    const struct record_module *module = (const void *)drain->record;
    if (length < sizeof(*module) || module->start >= module->end ||
        module->build_id_length > RECORD_BUILD_ID_MAX || module->path_length > RECORD_PATH_MAX ||
        length - sizeof(*module) < (size_t)module->build_id_length + module->path_length)
        return -EBADMSG;
    return drain->visitor->module(drain->context, module);
}

static int take_name(struct drain *drain, uint32_t length)
{
    const struct record_name *name = (const void *)drain->record;
    if (length < sizeof(*name) || name->length > length - sizeof(*name) ||
        name->length > RECORD_NAME_BYTES_MAX || name->hash == 0)
        return -EBADMSG;
    return drain->visitor->name(drain->context, name);
}

static int take_modules_reset(struct drain *drain, uint32_t length)
{
    const struct record_modules_reset *reset = (const void *)drain->record;
    struct ring_reader *reader = drain->reader;
    if (length < sizeof(*reset))
        return -EBADMSG;
    if ((int32_t)(reset->generation - reader->generation) <= 0)
        return 0; /* another thread reported it */
    reader->generation = reset->generation;
    return drain->visitor->modules_reset(drain->context);
}

static int take_code(struct drain *drain, uint32_t length)
{
    const struct record_code *code = (const void *)drain->record;
    if (length < sizeof(*code) || code->name_length > RECORD_CODE_NAME_MAX ||
        code->file_length > RECORD_CODE_FILE_MAX || code->table_length > RECORD_CODE_TABLE_MAX ||
        !(code->function & RECORD_CODE_FRAME) ||
        length - sizeof(*code) < (size_t)code->name_length + code->file_length + code->table_length)
        return -EBADMSG;
    return drain->visitor->code(drain->context, code);
}

static int take_context(struct drain *drain, uint32_t length)
{
    const struct record_context *scopes = (const void *)drain->record;
    if (length < sizeof(*scopes) || scopes->count > (length - sizeof(*scopes)) / 8 ||
        scopes->count > RECORD_CONTEXT_NAMES_MAX || scopes->hash == 0)
        return -EBADMSG;
    return drain->visitor->context(drain->context, scopes);
}

/* Send the client the answer about a module. Nobody else writes this word, except a client that
 * harms only itself. */
static void answer_unwinding(struct ring_reader *reader, uint32_t module,
                             enum ring_unwinding answer)
{
    if (module >= RING_MODULES_MAX)
        return;
    uint32_t *word = &reader->control->unwinding[module / RING_UNWINDING_PER_WORD];
    unsigned shift = module % RING_UNWINDING_PER_WORD * 2;
    uint32_t others = load_relaxed(word) & ~(UINT32_C(3) << shift);
    store_relaxed(word, others | (uint32_t)answer << shift);
}

static int take_walk(struct drain *drain, uint16_t slot, uint32_t length)
{
    const struct record_walk *walk = (const void *)drain->record;
    enum ring_unwinding answer = RING_UNWINDING_UNKNOWN;
    if (length < sizeof(*walk) || walk->token == 0 ||
        walk->register_count > RECORD_WALK_REGISTERS_MAX || walk->stack_bytes % 8 != 0 ||
        walk->stack_address > UINT64_MAX - walk->stack_bytes ||
        (uint64_t)walk->register_count + walk->frame_count + walk->stack_bytes / 8 >
            (length - sizeof(*walk)) / 8)
        return -EBADMSG;
    int code = drain->visitor->walk(drain->context, slot, walk, &answer);
    if (code == 0 && answer != RING_UNWINDING_UNKNOWN)
        answer_unwinding(drain->reader, walk->module, answer);
    return code;
}

/* Take a rare record: copy it whole, then dispatch on its type. */
static int take_other(struct drain *drain, union record_header header, const uint8_t *at)
{
    const void *record = drain->record;
    int code = flush_events(drain);
    if (code < 0)
        return code;
    copy_record(drain->record, at, header.length);

    switch (header.type) {
    case RECORD_STACK:
        return take_stack(drain, header.length);
    case RECORD_MODULE:
        return take_module(drain, header.length);
    case RECORD_WALK:
        return take_walk(drain, header.thread, header.length);
    case RECORD_NAME:
        return take_name(drain, header.length);
    case RECORD_CONTEXT:
        return take_context(drain, header.length);
    case RECORD_CODE:
        return take_code(drain, header.length);
    case RECORD_UNMAP: {
        const struct record_unmap *unmap = record;
        if (header.length < sizeof(*unmap) || unmap->length > UINT64_MAX - unmap->address)
            return -EBADMSG;
        return drain->visitor->unmap(drain->context, header.heap, header.thread, unmap,
                                     whole_time(drain->reader, unmap->time_ms));
    }
    case RECORD_SCOPE:
        if (header.length < sizeof(struct record_scope))
            return -EBADMSG;
        return drain->visitor->scope != NULL
                   ? drain->visitor->scope(drain->context, header.thread, record)
                   : 0;
    case RECORD_MODULES_RESET:
        return take_modules_reset(drain, header.length);
    case RECORD_THREAD: {
        const struct record_thread *thread = record;
        if (header.length < sizeof(*thread) || thread->tid == 0 ||
            memchr(thread->name, 0, sizeof(thread->name)) == NULL)
            return -EBADMSG;
        return drain->visitor->thread(drain->context, header.thread, thread->tid, thread->name);
    }
    case RECORD_HEAP: {
        const struct record_heap *heap = record;
        if (header.length < sizeof(*heap) || memchr(heap->name, 0, sizeof(heap->name)) == NULL)
            return -EBADMSG;
        return drain->visitor->heap(drain->context, header.heap, heap->interval_bytes, heap->name);
    }
    case RECORD_INTERVAL: {
        const struct record_interval *interval = record;
        if (header.length < sizeof(*interval) || interval->interval_bytes == 0)
            return -EBADMSG;
        return drain->visitor->interval(drain->context, header.heap, interval->index,
                                        interval->interval_bytes);
    }
    default:
        return -EBADMSG;
    }
}

static int take_record(struct drain *drain, union record_header header, const uint8_t *at)
{
    if (header.type == RECORD_ABANDONED) {
        drain->reader->busy_bytes += header.length;
        return 0;
    }
    switch (header.type) {
    case RECORD_ALLOC:
    case RECORD_TAGGED_ALLOC:
        return take_alloc(drain, header, at);
    case RECORD_FREE_LAST:
        return take_free_last(drain, header);
    case RECORD_FREE:
    case RECORD_UNFREE:
        return take_free(drain, header, at);
    default:
        return take_other(drain, header, at);
    }
}

/* Map the next pages in one call, which takes a third of the time of as many faults: those that the
 * client says it has written for the first time, but not many of them, because it may lie. */
static __attribute__((noinline)) void populate(struct ring_reader *reader, uint64_t reserved)
{
    uint64_t page_bytes = (uint64_t)getpagesize(), from = reader->consumed & ~(page_bytes - 1);
    uint64_t to = reserved - from < POPULATE_BYTES ? reserved : from + POPULATE_BYTES;
    to = (to + page_bytes - 1) & ~(page_bytes - 1);
    if (to >= reader->data_bytes)
        to = reader->data_bytes;
    if (from < to)
        populate_pages(reader->data + from, to - from);
    reader->populated = to < reader->data_bytes ? to : UINT64_MAX;
}

ssize_t ring_reader_drain(struct ring_reader *reader, bool dead, const struct ring_visitor *visitor,
                          void *context)
{
    /* Not initialized as a whole: it has 64 KiB, and most drains touch little of them. */
    struct drain drain;
    drain.reader = reader;
    drain.visitor = visitor;
    drain.context = context;
    drain.event_count = 0;
    reader->age_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE) - reader->opened_ms;

    uint64_t reserved = ring_reader_end(reader);
    uint64_t begin = reader->consumed, released = begin;
    if (reserved - begin > reader->data_bytes)
        return -EBADMSG;
    reader->used_bytes = reserved - begin;
    if (reader->used_bytes > reader->most_used_bytes)
        reader->most_used_bytes = reader->used_bytes;

    int code = 0;
    while (reader->consumed != reserved) {
        if (unlikely(reader->consumed >= reader->populated))
            populate(reader, reserved);
        const uint8_t *at = reader->data + (reader->consumed & (reader->data_bytes - 1));
        union record_header header = {.word = load_acquire((const uint64_t *)at)};
        if (header.word == 0) {
            if (!dead)
                break;
            /* The record was reserved, but its writer died before it stored the length. We zeroed
             * this memory, so the next word that is not 0 is a header. */
            reader->busy_bytes += 8;
            reader->consumed += 8;
            continue;
        }
        if (header.length < 8 || header.length % 8 != 0 ||
            header.length > reserved - reader->consumed || header.length > RING_RECORD_BYTES_MAX ||
            header.thread >= RING_THREADS_MAX) {
            code = -EBADMSG;
            break;
        }
        if (header.type == RECORD_BUSY) {
            if (!dead)
                break;
            reader->busy_bytes += header.length;
        } else {
            code = take_record(&drain, header, at);
        }
        if (code < 0)
            break;
        reader->consumed += header.length;
        if (reader->consumed - released >= RELEASE_BYTES) {
            ring_reader_beat(reader, clock_read_ms(CLOCK_MONOTONIC));
            heartbeat_send();
            release_space(reader, released);
            released = reader->consumed;
        }
    }
    int flushed = flush_events(&drain);
    release_space(reader, released);
    if (code < 0 || flushed < 0)
        return code < 0 ? code : flushed;
    return (ssize_t)(reader->consumed - begin);
}

bool ring_reader_is_awaited(const struct ring_reader *reader)
{
    return load_acquire(&reader->control->client_state) == RING_CLIENT_AWAITED;
}

bool ring_reader_is_empty(const struct ring_reader *reader)
{
    return ring_reader_end(reader) == reader->consumed;
}

/* Return whether a thread has ended, perhaps in the middle of a record. */
static bool is_gone(const struct ring_reader *reader, uint32_t slot)
{
    uint32_t tid = load_relaxed(&reader->threads[slot].tid);
    return reader->process > 0 && tid != 0 && tid != RING_THREAD_CLAIMED &&
           syscall(SYS_tgkill, reader->process, tid, 0) < 0 && errno == ESRCH;
}

/* A thread that has used this many ticks since its record was found unfinished has left it: a
 * record takes less than a hundredth of a tick. */
#define TICKS_OF_A_RECORD 3

/* Read a thread's state and CPU time from /proc. Return false if they are unknown. */
static bool read_thread_stat(const struct ring_reader *reader, uint32_t slot, char *state,
                             uint64_t *ticks)
{
    char name[32], text[512];
    unsigned long long user = 0, system = 0;
    uint32_t tid = load_relaxed(&reader->threads[slot].tid);
    if (reader->process <= 0 || tid == 0 || tid == RING_THREAD_CLAIMED)
        return false;
    snprintf(name, sizeof(name), "task/%u/stat", tid);
    if (process_file_read(reader->process, name, text, sizeof(text)) < 0)
        return false;
    /* The thread's name before it may contain brackets. */
    const char *rest = strrchr(text, ')');
    if (rest == NULL || sscanf(rest, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu",
                               state, &user, &system) != 3)
        return false;
    *ticks = user + system;
    return true;
}

/* Return whether the slot's thread may still be in the middle of its record because it has not run
 * since: it was stopped, or others had the processor. A thread that sleeps has left its record. */
static bool was_not_run(const struct ring_reader *reader, uint32_t slot)
{
    uint64_t ticks;
    char state;
    return read_thread_stat(reader, slot, &state, &ticks) && state != 'S' &&
           ticks - reader->stuck_ticks < TICKS_OF_A_RECORD;
}

/* Return whether a thread may stand between its reservation and its header. Few threads write at
 * one moment. */
static bool one_may_have_reserved(const struct ring_reader *reader, uint32_t threads)
{
    uint64_t ticks;
    char state;
    for (uint32_t i = 0; i < threads; i++) {
        if (load_relaxed(&reader->threads[i].in_ring) == RING_WRITES &&
            read_thread_stat(reader, i, &state, &ticks) && state != 'S')
            return true;
    }
    return false;
}

/* What the threads do in the ring. This alone proves nothing: a signal handler that wrote a record
 * of its own may have reset its thread's `in_ring`. */
struct writers {
    uint32_t threads, waiting;
    bool someone_writes;
};

static struct writers find_writers(const struct ring_reader *reader)
{
    struct writers writers = {.threads = load_relaxed(&reader->control->threads_used)};
    if (writers.threads > RING_THREADS_MAX)
        writers.threads = RING_THREADS_MAX;
    for (uint32_t i = 0; i < writers.threads; i++) {
        uint32_t does = load_relaxed(&reader->threads[i].in_ring);
        writers.waiting += does == RING_WAITS;
        writers.someone_writes =
            writers.someone_writes || (does == RING_WRITES && !is_gone(reader, i));
    }
    return writers;
}

/* A waiting thread that runs writes its time twice as often as this, at least. */
#define WAITING_STEP_MS 100

/* Add the time for which threads have waited. While the process is stopped, they do not. */
static void count_waiting(struct ring_reader *reader)
{
    uint64_t waiting_ms = load_relaxed(&reader->control->waiting_ms);
    int64_t step_ms = (int64_t)(waiting_ms - reader->waiting_ms);
    reader->waiting_ms = waiting_ms;
    if (step_ms > 0)
        reader->waited_ms += step_ms < WAITING_STEP_MS ? (uint64_t)step_ms : WAITING_STEP_MS;
}

/* End the session for this process: its threads wait for one that does not run. */
static void end_held(struct ring_reader *reader)
{
    uint32_t running = RING_CLIENT_RUNNING;
    cas_relaxed(&reader->control->client_state, &running, (uint32_t)RING_CLIENT_HELD);
    ring_reader_stop(reader);
}

/* Return whether nobody will finish the record at the head of the ring, which has this header. */
static bool is_left(struct ring_reader *reader, union record_header header, uint64_t monotonic_ms)
{
    uint64_t stuck_ms = monotonic_ms - reader->stuck_since_ms;
    bool is_known = header.type == RECORD_BUSY && header.thread < RING_THREADS_MAX;
    if (is_known && is_gone(reader, header.thread))
        return true;
    struct writers writers = find_writers(reader);
    if (writers.waiting == 0 && writers.someone_writes)
        return false;
    if (writers.waiting > 0 && writers.waiting == writers.threads)
        return stuck_ms >= RING_ABANDONED_ALL_WAIT_MS;
    if (writers.waiting > 0 ? reader->waited_ms < RING_ABANDONED_SOME_WAIT_MS
                            : stuck_ms < RING_ABANDONED_MS)
        return false;
    if (is_known ? was_not_run(reader, header.thread)
                 : one_may_have_reserved(reader, writers.threads)) {
        reader->left_ms = UINT64_MAX;
        if (reader->waited_ms >= RING_UNSCHEDULED_MS)
            end_held(reader);
        return false;
    }
    /* In a frozen cgroup each thread seems to sleep. If threads still waited after this one did,
     * it was not so. */
    if (reader->left_ms == UINT64_MAX)
        reader->left_ms = reader->waited_ms;
    return writers.waiting == 0 || reader->waited_ms > reader->left_ms;
}

bool ring_reader_unstick(struct ring_reader *reader, uint64_t monotonic_ms)
{
    uint64_t reserved = ring_reader_end(reader), begin = reader->consumed;
    if (reserved == begin || reserved - begin > reader->data_bytes)
        return false;
    bool is_new = reader->stuck_at != begin;
    if (is_new) {
        reader->stuck_at = begin;
        reader->stuck_since_ms = monotonic_ms;
        reader->stuck_ticks = 0;
    }
    count_waiting(reader);
    const uint8_t *at = reader->data + (begin & (reader->data_bytes - 1));
    union record_header header = {.word = load_acquire((const uint64_t *)at)};
    if (is_new) {
        char state;
        reader->waited_ms = 0;
        reader->left_ms = UINT64_MAX;
        if (header.type == RECORD_BUSY && header.thread < RING_THREADS_MAX)
            read_thread_stat(reader, header.thread, &state, &reader->stuck_ticks);
        return false;
    }
    if (!is_left(reader, header, monotonic_ms))
        return false;

    header.word = load_acquire((const uint64_t *)at); /* it may be finished by now */
    if (header.word == 0) {
        /* Not even its length was stored: all words up to the next header are zero. */
        uint64_t bytes = 8;
        while (bytes < reserved - begin && load_relaxed((const uint64_t *)(at + bytes)) == 0)
            bytes += 8;
        reader->consumed += bytes;
    } else if (header.type == RECORD_BUSY && header.length >= 8 && header.length % 8 == 0 &&
               header.length <= reserved - begin) {
        reader->consumed += header.length;
    } else {
        return true; /* it has just been finished, or it is invalid and the drain will return the
                        error */
    }
    reader->busy_bytes += reader->consumed - begin;
    release_space(reader, begin);
    return reader->consumed != reserved;
}
