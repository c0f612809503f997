/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attach to a process and detach from it. The steps are ordered so that the process is intact after
 * each of them. Attach: prepare everything while the process runs, stop all threads, map memory
 * that nothing refers to yet, patch the entries, and let the threads continue. Detach: restore the
 * entries and, once no thread is in the client, unmap the memory.
 */
#include "attach/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "attach/image.h"
#include "attach/inject.h"
#include "attach/installed_client.h"
#include "attach/locate.h"
#include "attach/process.h"
#include "attach/remove_client.h"
#include "attach/seccomp_filter.h"
#include "attach/stop_checks.h"
#include "attach/symbols_remote.h"
#include "attach/tracee.h"
#include "attach/trampoline.h"
#include "util/clock.h"
#include "util/process_files.h"
#include "wire/sampling.h"

/* Attempts to find no thread in a signal handler that interrupted a replaced entry. */
#define ENTRY_ATTEMPTS 20

/* Bytes that are read of a function of unknown size. */
#define UNSIZED_BYTES 64u
#define FUNCTION_BYTES_MAX (16u << 10)

struct attach {
    pid_t pid;
    uint64_t start_time; /* of the process: its pid may be reused */
    struct installed_client client;
    struct trampoline trampolines[ATTACHED_FUNCTIONS];
    unsigned count;
};

/* Return when the process started, in the kernel's ticks, or 0 if it has ended. */
static uint64_t start_time_of(pid_t pid)
{
    struct process_stat stat;
    return process_stat_read(pid, &stat) ? stat.start_ticks : 0;
}

/* Report that a process has ended instead of the step that failed because of it. A process that
 * ends meanwhile makes any of our steps fail. */
static int explain_end(pid_t pid, int code, struct attach_outcome *outcome, struct error *error)
{
    if (code == 0 || outcome->refusal == ATTACH_NO_PROCESS || !process_has_ended(pid))
        return code;
    outcome->refusal = ATTACH_NO_PROCESS;
    return error_set(error, -ESRCH, "pid %d has ended", (int)pid);
}

/* --- preparations, while it runs --- */

static void note_refused(struct attach_outcome *outcome, const char *name, const char *why)
{
    size_t used = strlen(outcome->refused);
    outcome->functions_refused++;
    snprintf(outcome->refused + used, sizeof(outcome->refused) - used, "%s%s (%s)",
             used > 0 ? ", " : "", name, why);
}

static int make_trampolines(struct attach *attach, const struct located *located,
                            const struct tracee *tracee, struct image *image, uint64_t base,
                            struct attach_outcome *outcome, struct error *error)
{
    struct attached_params *params = image_params(image);
    uint8_t *code = malloc(FUNCTION_BYTES_MAX);
    if (code == NULL)
        return error_set(error, -ENOMEM, "out of memory");
    for (int i = 0; i < ATTACHED_FUNCTIONS; i++) {
        const struct located_function *function = &located->functions[i];
        if (function->address == 0)
            continue;
        size_t wanted = function->size > 0 ? function->size : UNSIZED_BYTES;
        if (wanted > FUNCTION_BYTES_MAX)
            wanted = FUNCTION_BYTES_MAX;
        size_t got = tracee_read_some(tracee, function->address, code, wanted);
        struct trampoline *trampoline = &attach->trampolines[attach->count];
        size_t place = image->trampolines_start + attach->count * TRAMPOLINE_BYTES;
        const char *why = "";
        if (trampoline_make(trampoline, function->address, code, got, params->hooks[i],
                            base + place, &why) < 0) {
            note_refused(outcome, function->name, why);
            continue;
        }
        trampoline->site.function = (uint32_t)i;
        memcpy(image->bytes + place, trampoline->code, trampoline->code_bytes);
        params->real[i] = trampoline->site.trampoline;
        params->sites[attach->count++] = trampoline->site;
    }
    free(code);
    if (params->real[ATTACHED_MALLOC] != 0 && params->real[ATTACHED_FREE] != 0)
        return 0;
    outcome->refusal = ATTACH_UNSUPPORTED;
    return error_set(error, -ENOTSUP,
                     "process %d: its allocator (%s) cannot be patched: %s; start it under "
                     "heap_profile host",
                     (int)attach->pid, located->allocator, outcome->refused);
}

/* Find the allocator and make the trampolines, for an image at *base. This only reads the process.
 */
static int prepare(struct attach *attach, struct process *process, struct tracee *tracee,
                   struct located *located, struct image *image, uint64_t *base,
                   struct attach_outcome *outcome, struct error *error)
{
    int code = locate_functions(located, process, tracee, outcome, error);
    if (code < 0)
        return code;
    snprintf(outcome->allocator, sizeof(outcome->allocator), "%s", located->allocator);
    *base = inject_find_place(process, located->functions[ATTACHED_MALLOC].address, image_total());
    if (*base == 0)
        return error_set(error, -ENOMEM,
                         "process %d has no free address space within 2 GiB of its allocator",
                         (int)attach->pid);
    code = image_make(image, *base, error);
    return code < 0 ? code
                    : make_trampolines(attach, located, tracee, image, *base, outcome, error);
}

static void fill_params(struct attached_params *params, const struct attach *attach,
                        const struct attach_options *options, const struct located *located)
{
    params->data_bytes = options->data_bytes;
    params->interval_bytes = options->interval_bytes;
    params->certain_bytes = sampling_certain_bytes(options->interval_bytes);
    params->block_client_timeout_us = options->block_client_timeout_us;
    params->start_ms = options->start_ms;
    params->flags = options->flags;
    params->daemon_pid = options->daemon_pid;
    params->clock_gettime = located->clock_gettime;
    params->stack_end = located->stack_end;
    params->dl_find_object = located->dl_find_object;
    params->cxx_allocates = params->real[ATTACHED_CXX] != 0;
    params->site_count = attach->count;
    if (getrandom(&params->seed, sizeof(params->seed), GRND_NONBLOCK) !=
        (ssize_t)sizeof(params->seed))
        params->seed = clock_read_us(CLOCK_MONOTONIC) ^ ((uint64_t)attach->pid << 40);
}

/* --- with all threads stopped --- */

/* Return whether the code that the trampolines were made from is unchanged. */
static bool code_is_unchanged(const struct attach *attach, const struct tracee *tracee)
{
    for (unsigned i = 0; i < attach->count; i++) {
        const struct attached_site *site = &attach->trampolines[i].site;
        uint8_t bytes[ATTACHED_SITE_BYTES];
        if (tracee_read(tracee, site->address, bytes, site->length) < 0 ||
            memcmp(bytes, site->original, site->length) != 0)
            return false;
    }
    return true;
}

/* Move threads out of the replaced entries. Return 0, or the id of a thread that cannot be moved or
 * whose signal handler will return there. */
static pid_t clear_entries(const struct attach *attach, struct tracee *tracee)
{
    uint64_t low = UINT64_MAX, high = 0;
    for (unsigned i = 0; i < attach->count; i++) {
        const struct attached_site *site = &attach->trampolines[i].site;
        low = site->address < low ? site->address : low;
        high = site->address + site->length > high ? site->address + site->length : high;
    }
    for (size_t t = 0; t < tracee->thread_count; t++) {
        struct user_regs_struct *registers = tracee_registers(&tracee->threads[t]);
        if (registers == NULL)
            continue;
        /* Most threads return to no entry at all: check the whole range first. */
        bool may_return = handler_returns_to(tracee, registers, low, high);
        for (unsigned i = 0; i < attach->count; i++) {
            const struct trampoline *trampoline = &attach->trampolines[i];
            uint64_t start = trampoline->site.address, end = start + trampoline->site.length;
            if (may_return && handler_returns_to(tracee, registers, start + 1, end))
                return tracee->threads[t].tid;
            if (registers->rip <= start || registers->rip >= end)
                continue;
            uint64_t to = trampoline_enter(trampoline, registers->rip);
            if (to == 0)
                return tracee->threads[t].tid;
            registers->rip = to;
            tracee->threads[t].moved = true;
        }
    }
    return 0;
}

static int patch_entries(const struct attach *attach, struct tracee *tracee)
{
    for (unsigned i = 0; i < attach->count; i++) {
        const struct attached_site *site = &attach->trampolines[i].site;
        int code = tracee_write(tracee, site->address, site->patched, site->length);
        if (code < 0)
            return code;
    }
    return 0;
}

/* Map the client and patch the entries. The process is stopped before and after. */
static int enter_stopped(struct attach *attach, const struct attach_options *options,
                         struct tracee *tracee, struct image *image, uint64_t base,
                         struct error *error)
{
    struct attached_params *params = image_params(image);
    uint64_t ring = 0;
    int code = tracee_work_begin(tracee);
    if (code < 0)
        return error_set(error, code, "cannot make system calls in process %d: %s",
                         (int)attach->pid, strerror(-code));
    params->image = base;
    params->image_bytes = image->total;
    params->marker = base + image->marker_start;
    params->ring_bytes = RING_DATA_OFFSET + 2 * options->data_bytes;
    code = inject_map(tracee, image, base, options->ring_fd, options->data_bytes, &ring, error);
    int ended = tracee_work_end(tracee);
    if (code == 0 && ended < 0)
        code = error_set(error, ended, "process %d ended meanwhile", (int)attach->pid);
    if (code < 0)
        return code;

    params->ring = ring;
    attach->client.params_address = base + image->params_offset;
    attach->client.trampolines = attach->trampolines;
    attach->client.trampoline_count = attach->count;
    attach->client.params = *params;
    code = tracee_write(tracee, attach->client.params_address, params, sizeof(*params));
    if (code == 0) {
        tracee_move(tracee);
        code = patch_entries(attach, tracee);
    }
    if (code < 0) {
        installed_client_restore(&attach->client, tracee);
        /* No thread has run since then, so this check only moves the threads back. */
        if (installed_client_is_unused(&attach->client, tracee)) {
            tracee_move(tracee);
            installed_client_remove(&attach->client, tracee);
        }
        return error_set(error, code, "cannot write the code of process %d: %s", (int)attach->pid,
                         strerror(-code));
    }
    return 0;
}

/* Stop the process at a moment when no thread is inside an entry that will be replaced, or move the
 * threads out of it. Return 0; or a negative errno, with all threads running. */
static int stop_outside_entries(const struct attach *attach, struct tracee *tracee,
                                struct attach_outcome *outcome, uint64_t *stopped_at,
                                struct error *error)
{
    for (int attempt = 0;; attempt++) {
        *stopped_at = clock_read_us(CLOCK_MONOTONIC);
        int code = tracee_stop(tracee);
        if (code < 0)
            return stop_explain(tracee, code, outcome, error);
        pid_t in_the_way = clear_entries(attach, tracee);
        if (in_the_way == 0)
            return 0;
        for (size_t i = 0; i < tracee->thread_count; i++)
            tracee->threads[i].moved = false;
        tracee_resume(tracee);
        if (attempt == ENTRY_ATTEMPTS) {
            outcome->refusal = ATTACH_BUSY;
            return error_set(error, -EAGAIN,
                             "a thread of process %d is at the entry of its allocator: try again",
                             (int)attach->pid);
        }
        tracee_wait_turn(tracee, in_the_way);
    }
}

/* --- attaching and detaching --- */

static int attach_to(struct attach *attach, const struct attach_options *options,
                     struct process *process, struct tracee *tracee, struct attach_outcome *outcome,
                     struct error *error)
{
    struct located located;
    struct image image = {0};
    uint64_t stopped_at = 0, base = 0;
    if (locate_system_call(process, tracee) < 0) {
        outcome->refusal = ATTACH_UNSUPPORTED;
        return error_set(error, -ENOTSUP, "no system call instruction was found in process %d",
                         (int)attach->pid);
    }
    int code = remove_orphans(process, tracee, outcome, error);
    if (code == 0)
        code = prepare(attach, process, tracee, &located, &image, &base, outcome, error);
    if (code == 0) {
        fill_params(image_params(&image), attach, options, &located);
        code = stop_outside_entries(attach, tracee, outcome, &stopped_at, error);
    }
    if (code == 0) {
        outcome->threads = (unsigned)tracee->thread_count;
        bool avoid_copying = false;
        code = stop_check_seccomp(tracee, SECCOMP_TO_STAY, &avoid_copying, error);
        image_params(&image)->avoid_copying = avoid_copying;
        if (code < 0)
            outcome->refusal = ATTACH_SECCOMP;
        if (code == 0 && !code_is_unchanged(attach, tracee)) {
            outcome->refusal = ATTACH_BUSY;
            code = error_set(error, -EAGAIN, "the code of process %d changed meanwhile: try again",
                             (int)attach->pid);
        }
        if (code == 0)
            code = enter_stopped(attach, options, tracee, &image, base, error);
        if (code == -EEXIST) {
            outcome->refusal = ATTACH_BUSY;
            code = error_set(error, -EAGAIN,
                             "process %d has meanwhile mapped memory at the client's address: try "
                             "again",
                             (int)attach->pid);
        }
        if (code < 0) {
            for (size_t i = 0; i < tracee->thread_count; i++)
                tracee->threads[i].moved = false;
        }
        tracee_resume(tracee);
        outcome->stopped_us = tracee->resumed_us - stopped_at;
    }
    image_free(&image);
    return code;
}

struct attach *attach_open(const struct attach_options *options, struct attach_outcome *outcome,
                           struct error *error)
{
    struct process process;
    struct tracee tracee;
    *outcome = (struct attach_outcome){.refusal = ATTACH_FAILED};
    struct attach *attach = calloc(1, sizeof(*attach));
    if (attach == NULL) {
        error_set(error, -ENOMEM, "out of memory");
        return NULL;
    }
    attach->pid = options->pid;
    attach->start_time = start_time_of(options->pid);
    int code = process_read(&process, options->pid, options->beside_client, outcome, error);
    if (code == 0) {
        process.symbols = executable_symbols_open(options->pid);
        code = tracee_open(&tracee, options->pid);
        if (options->patience_ms > 0)
            tracee.patience_ms = options->patience_ms;
        if (code < 0)
            stop_explain(&tracee, code, outcome, error);
        else
            code = attach_to(attach, options, &process, &tracee, outcome, error);
        tracee_close(&tracee);
        executable_symbols_close(process.symbols);
    }
    process_clear(&process);
    code = explain_end(options->pid, code, outcome, error);
    if (code < 0) {
        free(attach);
        return NULL;
    }
    return attach;
}

int attach_close(struct attach *attach, struct attach_outcome *outcome, struct error *error)
{
    struct tracee tracee = {.memory_fd = -1};
    struct process process = {.pid = attach->pid};
    *outcome = (struct attach_outcome){.refusal = ATTACH_FAILED};
    int code = -ESRCH;
    /* An exec has discarded the image and the patched code. */
    if (start_time_of(attach->pid) == attach->start_time && attach->start_time != 0 &&
        process_read_regions(&process) == 0) {
        const struct process_region *region =
            process_region_of(&process, attach->client.params_address);
        if (region != NULL && strstr(region->path, ATTACHED_MEMFD_NAME) != NULL)
            code = tracee_open(&tracee, attach->pid);
    }
    if (code == 0) {
        code = locate_system_call(&process, &tracee);
        if (code == 0)
            code = remove_client(&attach->client, &tracee, outcome);
    }
    tracee_close(&tracee);
    process_clear(&process);
    outcome->process_gone = code == -ESRCH || code == -ENOENT;
    if (outcome->process_gone)
        code = 0;
    if (code == -EBUSY && outcome->code_restored) {
        outcome->left_mapped = true;
        if (outcome->left[0] == 0)
            snprintf(outcome->left, sizeof(outcome->left),
                     "a thread still runs code of the profiler, so its memory stays mapped until "
                     "the next "
                     "session attaches");
        code = 0;
    }
    pid_t pid = attach->pid;
    free(attach);
    if (code < 0)
        return error_set(error, code, "cannot take the profiler out of process %d: %s", (int)pid,
                         strerror(-code));
    return 0;
}

unsigned attach_tidy(void)
{
    return tracee_release_pending();
}

int attach_check_released(pid_t pid, struct error *error)
{
    pid_t tid = tracee_pending_of(pid);
    if (tid == 0)
        return 0;
    return error_set(error, -EAGAIN,
                     "thread %d of process %d could not be stopped (it waits in the kernel): try "
                     "again later",
                     (int)tid, (int)pid);
}

int attach_check(pid_t pid, struct attach_outcome *outcome, struct error *error)
{
    struct process process;
    struct tracee tracee;
    struct located located;
    struct image image = {0};
    uint64_t base;
    *outcome = (struct attach_outcome){.refusal = ATTACH_FAILED};
    struct attach *attach = calloc(1, sizeof(*attach));
    if (attach == NULL)
        return error_set(error, -ENOMEM, "out of memory");
    attach->pid = pid;
    int code = process_read(&process, pid, false, outcome, error);
    if (code == 0) {
        process.symbols = executable_symbols_open(pid);
        code = tracee_open(&tracee, pid);
        if (code < 0)
            stop_explain(&tracee, code, outcome, error);
        else
            code = prepare(attach, &process, &tracee, &located, &image, &base, outcome, error);
        image_free(&image);
        tracee_close(&tracee);
        executable_symbols_close(process.symbols);
    }
    process_clear(&process);
    free(attach);
    return explain_end(pid, code, outcome, error);
}

int attach_check_loaded(pid_t pid)
{
    struct process process;
    struct tracee tracee;
    struct attach_outcome outcome;
    int code = process_read(&process, pid, false, &outcome, NULL);
    if (code == 0) {
        code = tracee_open(&tracee, pid);
        struct remote_memory memory = {&tracee, REMOTE_READS_MAX};
        if (code == 0 && !remote_is_loaded(&process, &memory))
            code = -EAGAIN;
        tracee_close(&tracee);
    }
    process_clear(&process);
    return code;
}
