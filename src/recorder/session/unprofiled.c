/* SPDX-License-Identifier: Apache-2.0 */
/* Keep the list of unprofiled processes, and write it grouped by name and reason. */
#include "recorder/session/unprofiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/processes/access.h"
#include "recorder/processes/program.h"
#include "util/array.h"
#include "util/clock.h"

/* Only the latest records are searched for a pid: an exec soon follows its fork. */
#define RECENT_RECORDS 1024u

static struct unprofiled_record *find_recent(struct unprofiled_list *list, pid_t pid)
{
    for (size_t i = list->count; i-- > 0 && list->count - i <= RECENT_RECORDS;) {
        if (list->records[i].pid == pid)
            return &list->records[i];
    }
    return NULL;
}

static struct unprofiled_record *find_or_add(struct unprofiled_list *list, pid_t pid)
{
    struct unprofiled_record *record = find_recent(list, pid);
    if (record != NULL)
        return record;
    if (list->count >= UNPROFILED_RECORDS_MAX ||
        ARRAY_RESERVE(&list->records, &list->capacity, list->count, 1) < 0)
        return NULL;
    record = &list->records[list->count++];
    *record = (struct unprofiled_record){.pid = pid};
    return record;
}

void unprofiled_add(struct unprofiled_list *list, pid_t pid, pid_t parent_pid, const char *name,
                    enum unprofiled_reason reason)
{
    struct unprofiled_record *record = find_or_add(list, pid);
    if (record == NULL) {
        list->unlisted++;
        return;
    }
    record->parent_pid = parent_pid;
    record->profiled = false;
    record->reason = reason;
    record->noted_us = clock_read_us(CLOCK_MONOTONIC);
    snprintf(record->name, sizeof(record->name), "%s", name);
}

void unprofiled_add_copy(struct unprofiled_list *list, pid_t pid,
                         const struct unprofiled_record *of_parent, uint64_t forked_us)
{
    const struct unprofiled_record copy = *of_parent; /* unprofiled_add() may move the list */
    unprofiled_add(list, pid, copy.pid, copy.name, copy.reason);
    struct unprofiled_record *record = find_recent(list, pid);
    if (record != NULL)
        record->noted_us = forked_us;
}

void unprofiled_note_profiled(struct unprofiled_list *list, pid_t pid)
{
    struct unprofiled_record *record = find_or_add(list, pid);
    if (record == NULL)
        return;
    record->profiled = true;
    record->noted_us = clock_read_us(CLOCK_MONOTONIC);
}

const struct unprofiled_record *unprofiled_find(struct unprofiled_list *list, pid_t pid)
{
    return find_recent(list, pid);
}

size_t unprofiled_count(const struct unprofiled_list *list)
{
    size_t count = list->unlisted;
    for (size_t i = 0; i < list->count; i++)
        count += !list->records[i].profiled;
    return count;
}

/* --- output --- */

static const struct {
    const char *name, *words;
} reasons[] = {
    [UNPROFILED_CHILD] = {"child", "started by the command, and only the command itself is "
                                   "profiled; use -n with its name, or --follow-children for "
                                   "everything that the command starts"},
    [UNPROFILED_FORKED] = {"forked",
                           "forked by a process that was attached to, and only the "
                           "parent is patched; heap_profile -n NAME or -p PID attaches to "
                           "such a child"},
    [UNPROFILED_NAME] = {"name", "not one of the names after -n"},
    [UNPROFILED_POLICY] = {"policy", "never_profile in " ACCESS_POLICY_PATH " denies it"},
    [UNPROFILED_TOO_MANY] = {"too_many", "too many processes were being profiled at once; name "
                                         "those that matter with -n"},
    [UNPROFILED_QUIET] = {"quiet", "it could load the library and did not report: it allocated "
                                   "nothing, ended before it could, or runs where the profiler's "
                                   "socket is not visible (chroot)"},
    [UNPROFILED_GONE] = {"gone", "it ended before the profiler examined it, and did not report; "
                                 "what it allocated is unknown"},
};

static const char *reason_name(enum unprofiled_reason reason)
{
    return reason >= UNPROFILED_SILENT ? preload_obstacle_name((enum preload_obstacle)(
                                             (unsigned)reason - UNPROFILED_SILENT))
                                       : reasons[reason].name;
}

static void unprofiled_explain(enum unprofiled_reason reason, char *text, size_t size)
{
    if (reason >= UNPROFILED_SILENT)
        preload_obstacle_explain((enum preload_obstacle)((unsigned)reason - UNPROFILED_SILENT),
                                 text, size);
    else
        snprintf(text, size, "%s", reasons[reason].words);
}

/* Order records by name and reason; profiled ones come last. */
static int compare_records(const void *left_pointer, const void *right_pointer)
{
    const struct unprofiled_record *left = left_pointer, *right = right_pointer;
    if (left->profiled != right->profiled)
        return left->profiled ? 1 : -1;
    int order = strcmp(left->name, right->name);
    if (order == 0)
        order = (int)left->reason - (int)right->reason;
    return order != 0 ? order : (left->pid > right->pid) - (left->pid < right->pid);
}

static int write_groups(const struct unprofiled_list *list, struct trace_writer *writer)
{
    int code = 0;
    for (size_t first = 0, next; first < list->count && code == 0; first = next) {
        const struct unprofiled_record *record = &list->records[first];
        if (record->profiled)
            break;
        for (next = first + 1; next < list->count; next++) {
            const struct unprofiled_record *other = &list->records[next];
            if (other->profiled || other->reason != record->reason ||
                strcmp(other->name, record->name) != 0)
                break;
        }
        char words[PROGRAM_REASON_BYTES];
        unprofiled_explain(record->reason, words, sizeof(words));
        struct trace_unprofiled entry = {.pid = record->pid,
                                         .parent_pid = record->parent_pid,
                                         .name = record->name,
                                         .reason = words,
                                         .kind = reason_name(record->reason),
                                         .by_choice = record->reason == UNPROFILED_NAME,
                                         .count = next - first};
        code = trace_writer_unprofiled(writer, &entry);
    }
    return code;
}

int unprofiled_write(struct unprofiled_list *list, struct trace_writer *writer)
{
    if (list->count > 0)
        qsort(list->records, list->count, sizeof(*list->records), compare_records);
    int code = write_groups(list, writer);
    if (code == 0 && list->unlisted > 0) {
        struct trace_unprofiled entry = {.name = "(others)",
                                         .reason = "too many to list",
                                         .kind = "unlisted",
                                         .count = list->unlisted};
        code = trace_writer_unprofiled(writer, &entry);
    }
    if (code == 0 && list->why_incomplete != NULL) {
        struct trace_unprofiled entry = {
            .name = "(perhaps others)", .reason = list->why_incomplete, .kind = "incomplete"};
        code = trace_writer_unprofiled(writer, &entry);
    }
    return code;
}

void unprofiled_clear(struct unprofiled_list *list)
{
    free(list->records);
    memset(list, 0, sizeof(*list));
}
