/* SPDX-License-Identifier: Apache-2.0 */
/* Wait until no thread is in a client, and unmap it; find clients and rings of dead attachers. */
#include "recorder/attach/remove_client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "recorder/attach/inject.h"
#include "recorder/attach/memory_sharers.h"
#include "recorder/attach/seccomp_filter.h"
#include "recorder/attach/stop_checks.h"
#include "util/clock.h"

/* How often the process is stopped to check that no thread is in the client. Between two stops the
 * client's own counters are read, for at most REMOVE_PATIENCE_MS in total: if many threads share
 * few processors, a thread that lost its processor during a sample gets it back only after seconds.
 */
#define REMOVE_ATTEMPTS 20
#define REMOVE_PATIENCE_MS 4000
#define REMOVE_PAUSE_MS 5

/* A ring with a heartbeat of this age is still served by a daemon. */
#define HEARTBEAT_PATIENCE_MS 2000

/* Limit of clients of dead attachers that are removed at once. */
#define ORPHANS_MAX 64

static void pause_ms(unsigned ms)
{
    tracee_waits();
    nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

/* Stop the process while no other one shares its memory. Return 0, a negative errno, or -EBUSY with
 * the reason in outcome->left. A child of vfork() is gone soon. */
static int stop_alone(struct tracee *tracee, uint64_t deadline_us, struct attach_outcome *outcome)
{
    struct memory_sharers sharers = {.pid = tracee->pid};
    int code = -EBUSY;
    do {
        pid_t sharer = memory_sharers_look(&sharers);
        if (sharer == 0)
            code = tracee_stop(tracee);
        if (code == 0 && (sharer = memory_sharers_look(&sharers)) != 0) {
            tracee_resume(tracee);
            code = -EBUSY;
        }
        if (code != -EBUSY)
            break;
        snprintf(outcome->left, sizeof(outcome->left),
                 "process %d, which shares its memory, would run while code is changed",
                 (int)sharer);
        pause_ms(REMOVE_PAUSE_MS);
    } while (clock_read_us(CLOCK_MONOTONIC) < deadline_us);
    memory_sharers_clear(&sharers);
    if (code == 0)
        outcome->left[0] = '\0';
    return code;
}

int remove_client(struct installed_client *client, struct tracee *tracee,
                  struct attach_outcome *outcome)
{
    int restored = -EBUSY;
    uint64_t deadline_us = clock_read_us(CLOCK_MONOTONIC) + REMOVE_PATIENCE_MS * 1000;
    for (int attempt = 0; attempt < REMOVE_ATTEMPTS; attempt++) {
        int code = stop_alone(tracee, deadline_us, outcome);
        if (code < 0)
            return code;
        outcome->threads = (unsigned)tracee->thread_count;
        code = installed_client_read(client, tracee);
        if (code == 0)
            restored = installed_client_restore(client, tracee);
        bool unused = code == 0 && restored == 0 && installed_client_is_unused(client, tracee);
        struct error forbidden = {0};
        struct client_filter_verdict verdict;
        bool must_stay = unused && stop_check_calls(tracee, CALL_LEAVES, &verdict, &forbidden) < 0;
        if (unused)
            tracee_move(tracee);
        if (unused && !must_stay)
            code = installed_client_remove(client, tracee);
        tracee_resume(tracee);
        uint64_t stopped = tracee->resumed_us - tracee->stopped_us;
        if (stopped > outcome->stopped_us)
            outcome->stopped_us = stopped;
        outcome->calls_cut = tracee->calls_cut;
        outcome->code_restored = restored == 0;
        if (code < 0 || restored < 0)
            return code < 0 ? code : restored;
        if (must_stay) {
            snprintf(outcome->left, sizeof(outcome->left),
                     "the profiler's memory stays mapped, unused: %.180s", forbidden.message);
            return -EBUSY;
        }
        if (unused)
            return 0;
        do {
            pause_ms(REMOVE_PAUSE_MS);
        } while (installed_client_is_busy(client, tracee) &&
                 clock_read_us(CLOCK_MONOTONIC) < deadline_us);
    }
    return -EBUSY;
}

static bool is_attached_ring(const struct process_region *region)
{
    return strstr(region->path, "/memfd:" ATTACHED_RING_NAME) != NULL;
}

/* Remove another attacher's client if that attacher has died. Return 1 if one was removed, 0 if
 * there is none, or a negative errno. */
static int remove_orphan(const struct process *process, struct tracee *tracee,
                         struct attach_outcome *outcome, struct error *error)
{
    struct installed_client orphan;
    struct ring_control control;
    if (!installed_client_find(&orphan, process, tracee))
        return 0;
    int32_t owner = orphan.params.daemon_pid;
    bool is_alive = owner == 0 || kill(owner, 0) == 0 || errno == EPERM;
    bool is_served = orphan.params.ring != 0 && is_alive &&
                     tracee_read(tracee, orphan.params.ring, &control, sizeof(control)) == 0 &&
                     control.stopping == 0 &&
                     clock_read_ms(CLOCK_MONOTONIC) < control.heartbeat_ms + HEARTBEAT_PATIENCE_MS;
    outcome->refusal = ATTACH_ATTACHED;
    if (is_served)
        return error_set(error, -EBUSY, "another heapprofd is attached to process %d",
                         (int)process->pid);
    int code = remove_client(&orphan, tracee, outcome);
    outcome->refusal = code < 0 ? ATTACH_BUSY : ATTACH_FAILED;
    outcome->stopped_us = 0; /* only the stop of the attach itself is reported */
    if (code < 0 && outcome->left[0] != 0) {
        outcome->refusal = ATTACH_SECCOMP;
        return error_set(error, -EPERM, "process %d still has parts of an earlier heapprofd: %s",
                         (int)process->pid, outcome->left);
    }
    if (code < 0)
        return error_set(
            error, -EAGAIN,
            "process %d still contains parts of an earlier heapprofd, which could not be "
            "removed (%s): try again later",
            (int)process->pid, strerror(-code));
    return 1;
}

static bool has_lost_ring(const struct process *process)
{
    bool has_ring = false;
    for (size_t i = 0; i < process->region_count; i++) {
        if (strstr(process->regions[i].path, "/memfd:" ATTACHED_MEMFD_NAME) != NULL)
            return false;
        has_ring |= is_attached_ring(&process->regions[i]);
    }
    return has_ring;
}

static int unmap_rings(const struct process *process, struct tracee *tracee)
{
    int code = tracee_work_begin(tracee, NULL);
    if (code < 0)
        return code;
    for (size_t i = 0; i < process->region_count; i++) {
        const struct process_region *region = &process->regions[i];
        if (is_attached_ring(region))
            inject_unmap(tracee, region->start, region->end - region->start);
    }
    return tracee_work_end(tracee);
}

/* Unmap rings without a client: their attacher was killed after it had mapped one of the two, or
 * while it removed both. Decide while the process is stopped: until then another attacher may map
 * or unmap its ring, and the process may map something else there. */
static int unmap_lost_rings(struct process *process, struct tracee *tracee)
{
    struct error forbidden = {0};
    struct client_filter_verdict verdict;
    if (!has_lost_ring(process))
        return 0;
    int code = tracee_stop(tracee);
    if (code < 0)
        return code;
    if (stop_check_calls(tracee, CALL_LEAVES, &verdict, &forbidden) == 0) {
        code = process_read_regions(process);
        if (code == 0 && has_lost_ring(process))
            code = unmap_rings(process, tracee);
    }
    tracee_resume(tracee);
    return code;
}

int remove_orphans(struct process *process, struct tracee *tracee, struct attach_outcome *outcome,
                   struct error *error)
{
    int code = 1;
    for (int i = 0; code > 0 && i < ORPHANS_MAX; i++) {
        code = remove_orphan(process, tracee, outcome, error);
        int read = code > 0 ? process_read_regions(process) : 0;
        if (read < 0)
            return error_set(error, read, "cannot read the mappings of process %d: %s",
                             (int)process->pid, strerror(-read));
    }
    if (code == 0) {
        code = unmap_lost_rings(process, tracee);
        if (code < 0)
            return stop_explain(tracee, code, outcome, error);
    }
    return code < 0 ? code : 0;
}
