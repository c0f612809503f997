/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators that an attached process has under other names (families), in libraries that it opens
 * while it is profiled. The process's list of libraries is read about twice a second. Only a new
 * family stops the process. A program that opens such libraries all the time is looked at less
 * often, so it is seldom stopped.
 */
#include <stdio.h>
#include <string.h>

#include "recorder/session/target.h"
#include "util/clock.h"
#include "util/remark.h"

#define PERIOD_MS 500u
/* Looks take at most one part in 500 of the time, those at all processes together, and stops one in
 * 100 of a process's. */
#define LOOK_PAUSE_TIMES 500u
#define STOP_PAUSE_TIMES 100u
/* Stops are long if the threads get no processor. */
#define PAUSE_MS_MAX 10000u

void target_note_unseen_family(struct target *target, const char *name, const char *why)
{
    if (name[0] == 0 || target->unseen_allocator[0] != 0)
        return;
    snprintf(target->unseen_allocator, sizeof(target->unseen_allocator), "%.23s", name);
    snprintf(target->unseen_reason, sizeof(target->unseen_reason),
             "It has an allocator under another name (%s), which could not be patched%s%.200s: its "
             "memory is missing. --heaps libc.mmap shows what it maps, under heap_profile host.",
             name, why[0] != 0 ? ", because " : "", why);
}

static void note_added(struct target *target, const char *added, uint64_t now_ms)
{
    struct target_families *families = &target->families;
    size_t used = strlen(families->added);
    if (families->is_awaited)
        target->unseen_allocator[0] = target->unseen_reason[0] = 0;
    families->is_awaited = false;
    if (strstr(families->added, added) != NULL)
        families->reopened++;
    else
        snprintf(families->added + used, sizeof(families->added) - used, "%s%.100s (after %.1f s)",
                 used > 0 ? ", " : "", added, (double)(now_ms - target->start_ms) / 1e3);
}

void target_look_for_families(struct target *target)
{
    struct target_families *families = &target->families;
    struct attach_outcome outcome;
    struct error error = {0};
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (target->attach == NULL || target->exec != TARGET_EXEC_NONE || now_ms < families->due_ms)
        return;
    uint64_t began_us = clock_read_us(CLOCK_THREAD_CPUTIME_ID);
    bool is_new = target->unseen_allocator[0] == 0;
    int code = attach_update_families(target->attach, &outcome, &error);
    target_note_unseen_family(target, outcome.unseen_family, code < 0 ? error.message : "");
    if (code < 0 && outcome.refusal == ATTACH_BUSY)
        families->is_awaited |= is_new;
    if (outcome.added[0] != 0)
        note_added(target, outcome.added, now_ms);
    if (outcome.added[0] != 0 && outcome.functions_refused > 0)
        remark_add(target->attach_remark, sizeof(target->attach_remark),
                   "Nor could these be patched later, so their calls are not seen: %s.",
                   outcome.refused);
    families->stopped_us += outcome.stopped_us;
    target->calls_cut += outcome.calls_cut;
    uint64_t look_us = clock_read_us(CLOCK_THREAD_CPUTIME_ID) - began_us;
    uint64_t pause_ms =
        (look_us * LOOK_PAUSE_TIMES * target->neighbours + outcome.stopped_us * STOP_PAUSE_TIMES) /
        1000;
    families->due_ms = now_ms + (pause_ms < PERIOD_MS      ? PERIOD_MS
                                 : pause_ms > PAUSE_MS_MAX ? PAUSE_MS_MAX
                                                           : pause_ms);
}

void target_remark_families(const struct target *target, char *remark, size_t size)
{
    const struct target_families *families = &target->families;
    snprintf(remark, size, "%s", target->attach_remark);
    if (families->added[0] == 0)
        return;
    remark_add(
        remark, size,
        "Allocators of libraries that it opened later are counted since the profiler noticed "
        "them: %s.",
        families->added);
    if (families->reopened > 0)
        remark_add(remark, size, "Such a library was opened again %u times, and noticed again.",
                   families->reopened);
    remark_add(remark, size, "The threads were stopped for %.1f ms for that.",
               (double)families->stopped_us / 1e3);
}
