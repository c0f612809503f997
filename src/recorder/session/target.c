/* SPDX-License-Identifier: Apache-2.0 */
/* Open, drain, attach, finish and dump one profiled process. */
#include "recorder/session/target.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "recorder/processes/diagnosis.h"
#include "recorder/session/heap_rules.h"
#include "util/clock.h"
#include "util/main_program.h"
#include "util/process_files.h"
#include "util/remark.h"
#include "wire/attached_params.h"

/* For this time after a fork, each drain also checks the title. */
#define EARLY_TITLE_MS 200u
/* A process mostly sets its title soon after its start: for this time it is read in each turn,
 * every 100 ms, and later once in the period. To read it takes a third of the work of a turn. */
#define CHANGING_TITLE_MS 2000u
#define TITLE_PERIOD_MS 1000u
#define YOUNG_MS 30000u
/* A process that has not accepted its ring by now waits no longer. */
#define LATE_MS (HANDSHAKE_TIMEOUT_MS + 1000)
#define LATE_ANSWERS_MAX 3

static void begin_ring(struct target *target)
{
    struct ring_heaps rules;
    heap_rules_fill(&rules, target->config);
    ring_reader_set_heaps(&target->reader, &rules);
    ring_reader_beat(&target->reader, clock_read_ms(CLOCK_MONOTONIC));
    target->answered_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
}

struct target *target_open(struct process_info *info, int pidfd, const char *ring_name,
                           uint64_t data_bytes, const struct heap_config *config, int *memfd)
{
    struct target *target = calloc(1, sizeof(*target));
    if (target == NULL) {
        process_info_clear(info);
        close(pidfd);
        return NULL;
    }
    target->info = *info;
    target->pidfd = pidfd;
    process_watch_open(&target->process, info->pid, info->start_boottime_ns);
    target->exits = (struct target_exits){-1, -1, -1};
    target->image_fd = process_image_open(info->pid);
    target->config = config;
    target->interval_bytes = heap_config_interval_of(config, HEAP_CONFIG_MALLOC);
    target->start_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
    target->clock_ahead_ms = process_info_clock_ahead_ms(info->pid);
    target->totals.client_state = RING_CLIENT_RUNNING;
    target->ledger = ledger_open(target->interval_bytes);
    process_rights_read(&target->rights, info->pid);
    target->non_module_code = non_module_code_open(info->pid);
    target->has_ring = target->ledger != NULL &&
                       ring_reader_open(&target->reader, ring_name, data_bytes, memfd) == 0;
    if (!target->has_ring) {
        target_close(target);
        return NULL;
    }
    target->finisher = walk_finisher_open(info->pid);
    ledger_finish_walks(target->ledger, target->finisher);
    begin_ring(target);
    return target;
}

static void detach(struct target *target);

void target_close(struct target *target)
{
    if (target == NULL)
        return;
    detach(target);
    if (target->has_ring)
        ring_reader_close(&target->reader);
    ledger_close(target->ledger);
    memory_watch_clear(&target->memory);
    slices_close(target->slices);
    walk_finisher_close(target->finisher);
    non_module_code_close(target->non_module_code);
    process_watch_close(&target->process);
    thread_watch_clear(&target->threads);
    if (target->image_fd >= 0)
        close(target->image_fd);
    if (target->pidfd >= 0)
        close(target->pidfd);
    process_info_clear(&target->info);
    free(target);
}

static void stream_change(void *context, const struct ledger_change *change)
{
    struct target *target = context;
    /* Earlier events of this pid belong to the program before an exec. */
    if (!target->announced)
        target_announce(target, target->stream);
    const struct trace_stream_event event = {
        .pid = target->info.pid,
        .heap = change->heap,
        .sequence = change->sequence,
        .address = change->address,
        .size = change->size,
        .count = change->count,
        .timestamp_ns = (target->start_ms + change->time_ms) * UINT64_C(1000000),
    };
    if (change->kind == LEDGER_ALLOCATED)
        trace_writer_stream_allocation(target->stream, &event);
    else if (change->kind == LEDGER_FREED)
        trace_writer_stream_free(target->stream, &event);
    else
        trace_writer_stream_undone(target->stream, &event);
}

void target_stream(struct target *target, struct trace_writer *writer)
{
    target->stream = writer;
    ledger_observe(target->ledger, stream_change, target);
}

static void slice_scope(void *context, const struct ledger_scope *scope)
{
    struct target *target = context;
    if (!target->announced)
        target_announce(target, target->stream);
    slices_take(target->slices, scope);
}

int target_slice(struct target *target, struct trace_writer *writer)
{
    target->stream = writer;
    target->slices =
        slices_open(writer, target->info.pid, target->image, target->start_ms * UINT64_C(1000000),
                    target->clock_ahead_ms * 1000000);
    if (target->slices == NULL)
        return -ENOMEM;
    ledger_observe_scopes(target->ledger, slice_scope, target);
    return 0;
}

void target_forget_announcements(struct target *target)
{
    target->announced = false;
    process_watch_restart(&target->process);
    thread_watch_restart(&target->threads);
    if (target->slices != NULL)
        slices_describe_again(target->slices);
}

static void read_totals(struct target *target)
{
    ring_reader_totals(&target->reader, &target->totals);
    ring_reader_heap_totals(&target->reader, target->heap_totals);
}

static void classify_code(struct target *target, uint64_t now_ms, bool dead)
{
    if (target->non_module_code != NULL)
        non_module_code_classify(target->non_module_code, ledger_callsites(target->ledger), now_ms,
                                 dead);
}

void target_name_code(struct target *target, bool dead, void (*pause)(void *context), void *context)
{
    enum non_module_end end = dead                               ? NON_MODULE_DEAD
                              : target->exec != TARGET_EXEC_NONE ? NON_MODULE_REPLACED
                                                                 : NON_MODULE_RUNS;
    if (target->non_module_code != NULL)
        non_module_code_name(target->non_module_code, ledger_callsites(target->ledger), end, pause,
                             context);
}

/* Update the title: a server's child begins with its parent's title and sets its own later. */
static void update_title(struct target *target)
{
    if (target->exec == TARGET_EXEC_NONE && process_info_refresh(&target->info, target->image_fd))
        target->title_changed = true;
}

/* A process that ends before its first memory point sets its title, if at all, soon after its
 * fork. */
static void update_early_title(struct target *target, uint64_t now_ms)
{
    if (target->origin == HANDSHAKE_FORK && !target->title_changed &&
        now_ms < target->start_ms + EARLY_TITLE_MS)
        update_title(target);
}

/* Report to the client that the process restricted its system calls while it is profiled: a
 * forbidden call may kill it. */
static void report_restrictions(struct target *target)
{
    if (target->attach != NULL && target->has_ring &&
        process_info_restrictions(target->info.pid) > target->restrictions)
        ring_reader_restrict(&target->reader);
}

uint64_t target_drain(struct target *target, bool dead)
{
    if (!target->has_ring)
        return 0;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (!dead)
        update_early_title(target, now_ms);
    /* A background session looks at its processes rarely, and programs restrict themselves soon
     * after their start. */
    if (!dead && target->config->background && now_ms < target->start_ms + YOUNG_MS)
        report_restrictions(target);
    ring_reader_beat(&target->reader, now_ms);
    bool is_limited = !dead && target->config->max_overhead_percent > 0;
    uint64_t begun_ns = is_limited ? clock_read_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    ssize_t bytes = target->drain_code;
    if (bytes == 0)
        bytes = ring_reader_drain(&target->reader, dead, &ledger_visitor, target->ledger);
    if (bytes == 0 && !dead && ring_reader_unstick(&target->reader, now_ms))
        bytes = ring_reader_drain(&target->reader, dead, &ledger_visitor, target->ledger);
    if (is_limited && bytes > 0)
        ring_reader_note_cost(&target->reader, clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns);
    if (bytes >= 0) {
        classify_code(target, now_ms, dead);
        return (uint64_t)bytes;
    }
    target->corrupted = bytes == -EBADMSG;
    target->out_of_memory = bytes != -EBADMSG;
    target->has_ring = false;
    ring_reader_stop(&target->reader);
    detach(target);
    read_totals(target);
    ring_reader_close(&target->reader);
    return 0;
}

void target_drain_meanwhile(struct target *target)
{
    if (!target->has_ring || target->drain_code < 0)
        return;
    ring_reader_beat(&target->reader, clock_read_ms(CLOCK_MONOTONIC));
    ssize_t bytes = ring_reader_drain(&target->reader, false, &ledger_visitor, target->ledger);
    target->drain_code = bytes < 0 ? (int)bytes : 0;
}

void target_ask_interval(struct target *target, uint64_t interval_bytes)
{
    uint32_t doublings = 0;
    uint64_t wide_bytes = heap_config_wide_interval(target->config);
    uint64_t first_bytes = target->interval_bytes;
    if (!target->has_ring || first_bytes == 0)
        return;
    target->asked_bytes = interval_bytes;
    /* In a limited session the first step leads to the wide interval (client/sample/adaptive.h). */
    if (wide_bytes != 0 && interval_bytes > 1) {
        first_bytes = wide_bytes / 2;
        doublings = 1;
    }
    while (doublings < RING_DOUBLINGS_MAX && first_bytes << doublings < interval_bytes)
        doublings++;
    ring_reader_ask_doublings(&target->reader, doublings);
}

/* Begin a cut, so that the samples taken from here on are of the same moment as the totals. Without
 * memory for it, the totals are of a later moment. */
static void cut(struct target *target)
{
    target_drain(target, false);
    if (target->has_ring)
        ring_reader_cut(&target->reader);
}

static void drain_for_snapshot(void *context)
{
    target_drain(context, false);
}

/* `is_of_dump`: the samples are those of the dump's moment, and no later ones may be read. */
static void take_memory_snapshot(struct target *target, bool is_of_dump)
{
    const struct memory_watch_request request = {
        .pid = target->info.pid,
        .allocator = target->allocator,
        .allocator_has_others = target->allocator_has_others,
        .with_rollup = is_of_dump && target->config->timeline.smaps_rollup,
        .has_malloc = target->interval_bytes > 0,
        .facts = {.ledger = target->ledger,
                  .from_start = target->was_attached ? target->is_complete
                                                     : target->origin == HANDSHAKE_STARTUP,
                  .drain = is_of_dump || !target->has_ring ? NULL : drain_for_snapshot,
                  .context = target},
    };
    /* A background session reads memory at its dumps only, within the same share of the time. */
    if (target->config->background &&
        !(is_of_dump && memory_watch_is_due(&target->memory, target->neighbours)))
        return;
    if (target->exec == TARGET_EXEC_NONE)
        memory_watch_take_snapshot(&target->memory, &request);
}

/* Wait until the open records are finished; no new ones begin. A record that stays open was
 * abandoned by its writer (a signal handler's jump), and the records after it are valid. */
static void finish_open_records(struct target *target)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int ms = 0; ms < RING_ABANDONED_ALL_WAIT_MS && target->has_ring; ms++) {
        if (ring_reader_is_empty(&target->reader))
            return;
        nanosleep(&pause, NULL);
        target_drain(target, false);
    }
    target_drain(target, true);
}

/* Take samples and totals of one moment, while the process runs. Wait a while for unfinished
 * records, which block the records after them: their threads may be waiting for a processor. Of a
 * process that is killed meanwhile, nobody finishes them. */
static void take_samples_and_totals(struct target *target, const struct dump_files *files)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    cut(target);
    target_drain(target, false);
    for (int ms = 0; ms < RING_ABANDONED_MS && target->reader.cut != NULL; ms++) {
        if (ring_reader_is_empty(&target->reader))
            break;
        nanosleep(&pause, NULL);
        dump_files_pause(files);
        target_drain(target, target_is_dead(target));
    }
    if (!target->has_ring)
        return;
    read_totals(target);
    ring_reader_end_cut(&target->reader);
}

void target_finish(struct target *target, bool dead)
{
    if (!target->has_ring)
        return;
    if (!dead) {
        /* Do this while the client is still in place. */
        target_drain(target, false);
        take_memory_snapshot(target, true);
        target->left_ns = clock_read_ns(CLOCK_MONOTONIC_COARSE);
        cut(target);
        if (!target->has_ring)
            return;
        ring_reader_stop(&target->reader);
    }
    detach(target);
    /* A drain takes at most one ring full. */
    for (int i = 0; i < 4 && target_drain(target, dead) > 0; i++)
        ;
    if (!dead)
        finish_open_records(target);
    if (!target->has_ring)
        return;
    read_totals(target);
    target->has_ring = false;
    ring_reader_close(&target->reader);
}

bool target_is_dead(const struct target *target)
{
    struct pollfd poll_pidfd = {.fd = target->pidfd, .events = POLLIN};
    return poll(&poll_pidfd, 1, 0) == 1;
}

bool target_is_awaited(const struct target *target)
{
    return target->has_ring && !target->was_attached && ring_reader_is_awaited(&target->reader);
}

bool target_is_late(const struct target *target, uint64_t now_ms)
{
    return target_is_awaited(target) && now_ms >= target->answered_ms + LATE_MS &&
           target->late_answers < LATE_ANSWERS_MAX;
}

int target_renew_ring(struct target *target, const char *name, uint64_t data_bytes, int *memfd)
{
    struct ring_reader fresh = {0};
    int code = ring_reader_open(&fresh, name, data_bytes, memfd);
    if (code < 0)
        return code;
    fresh.process = target->reader.process;
    ring_reader_stop(&target->reader);
    ring_reader_close(&target->reader);
    target->reader = fresh;
    target->late_answers++;
    target->start_ms = clock_read_ms(CLOCK_MONOTONIC_COARSE);
    begin_ring(target);
    return 0;
}

bool target_has_exec(const struct target *target)
{
    return target->exec == TARGET_EXEC_NONE && target->image_fd >= 0 &&
           process_image_is_gone(target->image_fd) && process_has_image(target->info.pid);
}

/* Reopen image_fd if the program was replaced between its opening and the attaching. */
static void renew_image(struct target *target)
{
    if (target->image_fd < 0 || !process_image_is_gone(target->image_fd))
        return;
    int fd = process_image_open(target->info.pid);
    if (fd >= 0 &&
        process_info_file_contains(target->info.pid, "maps", "memfd:" ATTACHED_MEMFD_NAME)) {
        close(target->image_fd);
        target->image_fd = fd;
    } else if (fd >= 0) {
        /* The program was replaced after the attaching. */
        close(fd);
    }
}

/* Note what attaching does not see: libraries allocate from another allocator if the program does
 * not export its own, and rustc puts calls of a global allocator inline. */
static void note_unexported_allocator(struct target *target, bool libraries_are_seen)
{
    struct program program;
    struct main_program main;
    main_program_find(&main, target->info.pid);
    if (program_read(&program, main.path) < 0)
        return;
    target->is_go = program.file.is_go;
    if (strcmp(program.file.allocator, PROGRAM_RUSTS_ALLOCATOR) == 0) {
        snprintf(target->unseen_allocator, sizeof(target->unseen_allocator), "inlined calls");
        snprintf(target->unseen_reason, sizeof(target->unseen_reason),
                 "%s has a global allocator of its own: what optimized code requests from it "
                 "without a call of __rust_alloc is missing, and what its libraries allocated may "
                 "be, too.",
                 process_info_name(&target->info));
        return;
    }
    if (program.file.allocator[0] == 0 || program.file.allocator_is_exported ||
        !program.file.has_interpreter || libraries_are_seen)
        return;
    snprintf(target->unseen_allocator, sizeof(target->unseen_allocator), "malloc of libraries");
    snprintf(target->unseen_reason, sizeof(target->unseen_reason),
             "%s does not export its allocator (%s): what its libraries allocated with the shared "
             "malloc is missing.",
             process_info_name(&target->info), program.file.allocator);
}

int target_attach(struct target *target, int ring_fd, const struct handshake_reply *reply,
                  enum attach_moment moment, unsigned patience_ms, struct error *error)
{
    struct attach_outcome outcome;
    const struct attach_options options = {
        .pid = target->info.pid,
        .ring_fd = ring_fd,
        .data_bytes = reply->data_bytes,
        .interval_bytes = reply->interval_bytes,
        .block_client_timeout_us = reply->block_client_timeout_us,
        .adaptive_threshold_bytes = reply->adaptive_threshold_bytes,
        .adaptive_max_interval_bytes = reply->adaptive_max_interval_bytes,
        .start_ms = reply->start_ms,
        .flags = reply->flags,
        .moment = moment,
        .patience_ms = patience_ms,
        .max_overhead_percent = reply->max_overhead_percent,
        .wide_interval_bytes = reply->wide_interval_bytes,
        .wants_python = heap_config_wants_heap(target->config, HEAP_CONFIG_PYTHON),
        .wants_families = heap_config_wants_families(target->config),
        /* In another pid namespace our pid is meaningless: the client then relies on the
         * heartbeat. */
        .daemon_pid = process_info_shares_pids(target->info.pid) ? getpid() : 0,
    };
    target->attach = attach_open(&options, &outcome, error);
    if (target->attach == NULL) {
        if (outcome.refusal == ATTACH_BUSY)
            return -EAGAIN;
        return outcome.refusal == ATTACH_UNSUPPORTED ? -ENOTSUP : error->code;
    }
    target->was_attached = true;
    target->moment = moment;
    renew_image(target);
    target->restrictions = process_info_restrictions(target->info.pid);
    target->attach_stopped_us = outcome.stopped_us;
    target->calls_cut = outcome.calls_cut;
    target->python = outcome.python;
    memcpy(target->allocator, outcome.allocator, sizeof(target->allocator));
    target->allocator_has_others = outcome.allocator_has_others;
    note_unexported_allocator(target, outcome.allocator_is_shared);
    target_note_unseen_family(target, outcome.unseen_family, "");
    if (outcome.functions_refused > 0)
        snprintf(target->attach_remark, sizeof(target->attach_remark),
                 "These functions could not be patched, so their calls are not seen: %s.%s",
                 outcome.refused,
                 strstr(outcome.refused, "dlclose") == NULL
                     ? ""
                     : " Code of libraries that were unloaded may have the names of later ones.");
    return 0;
}

static void detach(struct target *target)
{
    struct attach_outcome outcome;
    struct error error = {0};
    if (target->attach == NULL)
        return;
    int code = attach_close(target->attach, &outcome, &error);
    target->attach = NULL;
    target->detach_stopped_us = outcome.stopped_us;
    target->calls_cut += outcome.calls_cut;
    const char *what = code < 0 ? error.message : outcome.left;
    if (what[0] != 0)
        remark_add(target->attach_remark, sizeof(target->attach_remark),
                   "When the profiler left it: %.200s.", what);
}

static struct ring_totals present_totals(const struct target *target)
{
    struct ring_totals totals = target->totals;
    if (target->has_ring)
        ring_reader_totals(&target->reader, &totals);
    return totals;
}

uint64_t target_lost(const struct target *target)
{
    struct ring_totals totals = present_totals(target);
    uint64_t lost = 0;
    for (unsigned i = 0; i < RING_LOSS_COUNT; i++) {
        /* These losses keep their sample (only its stack or its free is incomplete), or are counted
         * elsewhere, too. */
        if (i != RING_LOST_UNWIND && i != RING_LOST_LIVE_SET && i != RING_LOST_NO_SCRATCH &&
            i != RING_LOST_FREE && i != RING_LOST_CALLS && i != RING_LOST_BYTES &&
            i != RING_LOST_SCOPES && i != RING_LOST_INTERPRETER_STATE &&
            i != RING_LOST_INTERPRETER_UNKNOWN && i != RING_LOST_MODULES)
            lost += totals.lost[i];
    }
    return lost;
}

struct trace_process target_trace_process(const struct process_info *info, const char *const *comm,
                                          uint64_t image)
{
    bool has_arguments = info->argument_count > 0;
    return (struct trace_process){
        .pid = info->pid,
        .parent_pid = info->parent_pid,
        .uid = (int32_t)info->uid,
        .arguments = has_arguments ? info->arguments : comm,
        .argument_count = has_arguments ? info->argument_count : 1,
        .arguments_are_comm = !has_arguments,
        .start_boottime_ns = info->start_boottime_ns,
        .name = process_info_name(info),
        .image = image,
    };
}

static int write_process(const struct target *target, struct trace_writer *writer)
{
    const char *comm = target->info.comm;
    struct trace_process process = target_trace_process(&target->info, &comm, target->image);
    return trace_writer_process_tree(writer, &process, 1, NULL, 0);
}

int target_announce(struct target *target, struct trace_writer *writer)
{
    if (target->announced)
        return 0;
    target->announced = true;
    trace_writer_stream_flush(writer);
    return write_process(target, writer);
}

void target_notice_changes(struct target *target, size_t targets)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    report_restrictions(target);
    target->neighbours = targets;
    target_look_for_families(target);
    /* Each dump updates the title, too. */
    if (target->config->background || target->exec == TARGET_EXEC_AWAY)
        return;
    bool is_title_due = now_ms >= target->title_due_ms;
    bool is_memory_due = memory_watch_is_due(&target->memory, targets);
    bool is_growth_due = memory_watch_is_growth_due(&target->memory, targets);
    struct process_memory memory;
    if ((!is_title_due && !is_growth_due) || !process_watch_rss(&target->process, &memory))
        return;
    if (is_title_due) {
        update_title(target);
        if (now_ms > target->start_ms + CHANGING_TITLE_MS)
            target->title_due_ms = now_ms + TITLE_PERIOD_MS;
    }
    is_memory_due |=
        is_growth_due && memory_watch_has_grown(&target->memory, targets, memory.rss_bytes);
    is_memory_due |= memory_watch_has_settled(&target->memory, targets, memory.rss_bytes,
                                              ledger_live_bytes(target->ledger));
    if (is_memory_due) {
        target_drain(target, false);
        take_memory_snapshot(target, false);
    }
}

void target_note_program(struct target *target, const struct program *program)
{
    target->is_go = program->file.is_go;
    if (program->file.allocator[0] == 0)
        return;
    memcpy(target->unseen_allocator, program->file.allocator, sizeof(target->unseen_allocator));
    program_way(program, process_info_name(&target->info), target->unseen_reason,
                sizeof(target->unseen_reason));
    if (target->attach_failure[0] != 0)
        remark_add(target->unseen_reason, sizeof(target->unseen_reason),
                   "That was not possible: %s.", target->attach_failure);
}

void target_note_unread_program(struct target *target)
{
    snprintf(target->unseen_allocator, sizeof(target->unseen_allocator), "one of its own, perhaps");
    snprintf(target->attach_remark, sizeof(target->attach_remark),
             "The program's file could not be read in time: it is unknown whether it has an "
             "allocator of its own, whose allocations would be missing.");
}

/* Texts that a dump's request points to. */
struct dump_texts {
    char remark[DIAGNOSIS_BYTES_MAX];
    char program[96];   /* Two programs of one pid must not appear as two dumps of one heap. */
    char generated[48]; /* the path of generated code */
};

static void make_texts(const struct target *target, const struct target_end *end,
                       struct dump_texts *texts)
{
    texts->remark[0] = 0;
    if (end->final)
        target_diagnose(target, end, texts->remark);
    char *program = texts->program;
    int used = snprintf(program, sizeof(texts->program), "%.64s, before exec",
                        process_info_name(&target->info));
    if (target->execs > 0)
        snprintf(program + used, sizeof(texts->program) - (size_t)used, " %u", target->execs + 1);
    snprintf(texts->generated, sizeof(texts->generated),
             target->execs > 0 ? "[jit:%d-%u]" : "[jit:%d]", (int)target->info.pid,
             target->execs + 1);
}

static uint32_t client_error_of(enum ring_client_state state)
{
    switch (state) {
    case RING_CLIENT_TIMED_OUT:
    case RING_CLIENT_HELD:
        return TRACE_CLIENT_TIMED_OUT;
    case RING_CLIENT_DAEMON_GONE:
        return TRACE_CLIENT_PROFILER_SILENT;
    default:
        return 0;
    }
}

static void fill_losses(const struct target *target, const struct ring_totals *totals,
                        struct trace_heap_dump *status)
{
    status->buffer_overran = totals->client_state == RING_CLIENT_OVERRAN;
    status->buffer_corrupted = target->corrupted;
    status->hit_guardrail = target->out_of_memory || target->hit_guardrail;
    status->client_error = client_error_of(totals->client_state);
    status->blocked_us = totals->blocked_us;
    dump_losses(totals->lost, status->lost);
    status->lost[TRACE_LOST_UNWIND] += ledger_counts(target->ledger).walks_failed;
    if (target->slices != NULL)
        status->lost[TRACE_LOST_SCOPES] += slices_lost(target->slices);
}

void target_note_losses(const struct target *target, struct trace_heap_dump *status)
{
    struct ring_totals totals = present_totals(target);
    fill_losses(target, &totals, status);
}

static struct trace_heap_dump make_status(const struct target *target, const struct target_end *end,
                                          const struct dump_texts *texts)
{
    const struct ring_totals *totals = &target->totals;
    uint64_t walks_failed = ledger_counts(target->ledger).walks_failed;
    struct trace_heap_dump status = {
        .pid = target->info.pid,
        .image = target->image,
        .heap_name = target->exec == TARGET_EXEC_SUPERSEDED ? texts->program : NULL,
        .start_timestamp_ns =
            target->last_dump_ns != 0 ? target->last_dump_ns : target->start_ms * UINT64_C(1000000),
        .interval_bytes = heap_config_first_interval(target->config),
        .first_interval_bytes = heap_config_first_interval(target->config),
        .max_overhead_percent = heap_config_wide_interval(target->config) != 0
                                    ? target->config->max_overhead_percent
                                    : 0,
        .from_startup = target->origin == HANDSHAKE_STARTUP,
        .disconnected = end->running == false,
        .final = end->final,
        .unwinding_errors = totals->lost[RING_LOST_UNWIND] + walks_failed,
        .exact_bytes = totals->bytes,
        .exact_calls = totals->calls,
        .unsent_bytes_of_ring = target->reader.busy_bytes,
        .allocator = target->allocator[0] != 0 ? target->allocator : NULL,
        .exit_status = end->exit_status,
        .cause = end->cause,
        .cause_used_bytes = end->cause_used_bytes,
        .cause_limit_bytes = end->cause_limit_bytes,
        .unseen_allocator = target->unseen_allocator[0] != 0 ? target->unseen_allocator
                            : totals->unseen_family[0] != 0  ? totals->unseen_family
                                                             : NULL,
        .remark = texts->remark[0] != 0 ? texts->remark : NULL,
    };
    fill_losses(target, totals, &status);
    return status;
}

int target_write_dump(struct target *target, struct trace_writer *writer, struct dump_files *files,
                      const struct target_end *end, bool dump_at_max)
{
    /* The dump has all allocations before this time, and a few after it. */
    uint64_t timestamp_ns =
        target->left_ns > 0 ? target->left_ns : clock_read_ns(CLOCK_MONOTONIC_COARSE);
    if (target->has_ring)
        take_samples_and_totals(target, files);
    ledger_calibrate(target->ledger, &target->totals, target->heap_totals, end->checkpoint);
    if (target->left_ns > 0)
        memory_watch_recount(&target->memory, target->ledger);
    if (!end->checkpoint)
        update_title(target);
    struct dump_texts texts;
    make_texts(target, end, &texts);
    if (target->non_module_code != NULL && !end->final && !end->checkpoint)
        non_module_code_settle(target->non_module_code, ledger_callsites(target->ledger),
                               !end->running || target->exec == TARGET_EXEC_AWAY);
    if (target->totals.has_deepbind && target->unseen_allocator[0] == 0)
        snprintf(target->unseen_allocator, sizeof(target->unseen_allocator), "malloc of libraries");
    struct dump_request request = {
        .status = make_status(target, end, &texts),
        .start_ms = target->start_ms,
        .root_pid = end->running ? target->info.pid : 0,
        .rights = &target->rights,
        .heap_totals = target->heap_totals,
        .stack_mode = target->config->stack_mode,
        .no_heap_name = target->config->heaps != NULL ? target->config->heaps[0] : NULL,
        .non_module_code = target->non_module_code,
        .generated_path = texts.generated,
        .sites = target->memory.has_last ? &target->memory.sites : NULL,
    };
    request.status.timestamp_ns = timestamp_ns;
    request.status.dump_at_max = dump_at_max;

    if (end->checkpoint) {
        int code = write_process(target, writer);
        if (code == 0)
            code = target_name_threads_for_checkpoint(target, writer);
        return code < 0 ? code : dump_write(writer, files, target->ledger, &request);
    }
    if (end->running && target->has_ring)
        take_memory_snapshot(target, true);

    if (target->title_changed)
        target->title_changed = target->announced = false;
    int code = target_announce(target, writer);
    if (code == 0)
        code = memory_watch_write(&target->memory, writer, !target->config->timeline.off);
    if (code == 0)
        code = target_name_threads(target, writer);
    if (code == 0)
        code = dump_write(writer, files, target->ledger, &request);
    target->last_dump_ns = request.status.timestamp_ns;
    if (code == 0 && target->non_module_code != NULL)
        code = non_module_code_write(target->non_module_code, writer, texts.generated);
    return code;
}
