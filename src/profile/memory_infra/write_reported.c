/* SPDX-License-Identifier: Apache-2.0 */
/* Write what Chrome's dumps report of processes without backtraces (profile.reported): the sizes of
 * allocators, in the event of that time or in one of its own. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/write_private.h"
#include "util/sorted_search.h"

static int32_t pid_of(const struct document *document, const struct profile_reported *row)
{
    return document->profile->processes[row->process].pid;
}

/* Return whether a row is before a process and a time. */
static bool is_before(const struct document *document, const struct profile_reported *row,
                      int32_t pid, uint64_t boottime_ns)
{
    int32_t row_pid = pid_of(document, row);
    return row_pid != pid ? row_pid < pid : row->boottime_ns < boottime_ns;
}

static int compare_rows(const void *left_pointer, const void *right_pointer, void *context)
{
    const struct profile_reported *left = *(const struct profile_reported *const *)left_pointer;
    const struct profile_reported *right = *(const struct profile_reported *const *)right_pointer;
    if (is_before(context, left, pid_of(context, right), right->boottime_ns))
        return -1;
    if (is_before(context, right, pid_of(context, left), left->boottime_ns))
        return 1;
    return left < right ? -1 : left > right;
}

static int compare_events(const void *left_pointer, const void *right_pointer)
{
    const struct written_event *left = left_pointer, *right = right_pointer;
    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    return left->written_ns < right->written_ns ? -1 : left->written_ns > right->written_ns;
}

/* Return whether one of `count` events, all with heaps, is of the row's process and time. */
static bool has_event(const struct document *document, size_t count,
                      const struct profile_reported *row)
{
    const struct written_event *events = document->events;
    int32_t pid = pid_of(document, row);
    size_t at = SORTED_SEARCH(count, i,
                              events[i].pid != pid ? events[i].pid < pid
                                                   : events[i].boottime_ns < row->boottime_ns);
    return at < count && events[at].pid == pid && events[at].boottime_ns == row->boottime_ns;
}

/* Add events for the rows that no event has. */
static void add_events(struct document *document)
{
    size_t count = document->event_count;
    for (size_t i = 0; i < document->reported_count; i++) {
        const struct profile_reported *row = document->reported[i];
        int32_t pid = pid_of(document, row);
        bool is_first =
            i == 0 || is_before(document, document->reported[i - 1], pid, row->boottime_ns);
        if (is_first && !has_event(document, count, row))
            document->events[document->event_count++] = (struct written_event){
                .pid = pid,
                .process = row->process,
                .boottime_ns = row->boottime_ns,
                .written_ns = row->boottime_ns,
            };
    }
    qsort(document->events, document->event_count, sizeof(*document->events), compare_events);
}

int written_reported_make(struct document *document)
{
    const struct profile *profile = document->profile;
    size_t count = profile->reported_count;
    document->reported = reallocarray(NULL, count + 1, sizeof(*document->reported));
    if (document->reported == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        document->reported[i] = &profile->reported[i];
    document->reported_count = count;
    qsort_r(document->reported, count, sizeof(*document->reported), compare_rows, document);
    if (count > 0)
        add_events(document);
    return 0;
}

/* Without memory, names of heaps are left out: an allocator may then be there twice. */
static void intern_heaps(const struct document *document, const struct written_event *event,
                         struct intern_table *names)
{
    bool added;
    for (size_t i = event->first; i < event->first + event->count; i++) {
        const char *key = document->heaps[i].name->key;
        intern_bytes(names, key, strlen(key), &added);
    }
}

/* A file may have anything there, also what is no number. */
static bool is_size(double bytes)
{
    return bytes >= 0 && bytes < 0x1p63;
}

static void write_row(struct document *document, const struct profile_reported *row,
                      const char *separator)
{
    write_allocator(document, row->name, separator, (uint64_t)row->size_bytes);
    if (is_size(row->effective_bytes))
        fprintf(document->out,
                ",\"effective_size\":{\"type\":\"scalar\",\"units\":\"bytes\",\"value\":\"%" PRIx64
                "\"}",
                (uint64_t)row->effective_bytes);
    fputs("}}", document->out);
}

void write_reported(struct document *document, const struct written_event *event)
{
    const char *separator = event->count == 0 ? "\n" : ",\n";
    struct intern_table heaps = {0};
    size_t at =
        SORTED_SEARCH(document->reported_count, i,
                      is_before(document, document->reported[i], event->pid, event->boottime_ns));
    if (at < document->reported_count)
        intern_heaps(document, event, &heaps);
    for (; at < document->reported_count; at++) {
        const struct profile_reported *row = document->reported[at];
        if (pid_of(document, row) != event->pid || row->boottime_ns != event->boottime_ns)
            break;
        if (!row->is_allocator || !is_size(row->size_bytes) ||
            intern_find(&heaps, row->name, strlen(row->name)) != 0)
            continue;
        write_row(document, row, separator);
        separator = ",\n";
    }
    intern_free(&heaps);
}
