/* See unprofiled.h. */
#include "daemon/unprofiled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

/* Only so many of the latest are searched for a pid: an exec follows its fork soon. */
#define RECENT_RECORDS 1024u

static struct unprofiled_record *find_recent(struct unprofiled_list *list, pid_t pid)
{
    for (size_t i = list->count; i-- > 0 && list->count - i <= RECENT_RECORDS;) {
        if (list->records[i].pid == pid)
            return &list->records[i];
    }
    return NULL;
}

void unprofiled_add(struct unprofiled_list *list, pid_t pid, pid_t parent_pid, const char *name,
                    enum unprofiled_reason reason)
{
    struct unprofiled_record *record = find_recent(list, pid);
    if (record == NULL) {
        if (list->count >= UNPROFILED_RECORDS_MAX ||
            array_reserve(&list->records, &list->capacity, list->count, 1, sizeof(*list->records)) <
                0) {
            list->beyond++;
            return;
        }
        record = &list->records[list->count++];
    }
    record->pid = pid;
    record->parent_pid = parent_pid;
    record->reason = reason;
    snprintf(record->name, sizeof(record->name), "%s", name);
}

void unprofiled_remove(struct unprofiled_list *list, pid_t pid)
{
    struct unprofiled_record *record = find_recent(list, pid);
    if (record == NULL)
        return;
    size_t index = (size_t)(record - list->records);
    memmove(record, record + 1, (list->count - index - 1) * sizeof(*record));
    list->count--;
}

static const char *reason_words(enum unprofiled_reason reason)
{
    switch (reason) {
    case UNPROFILED_CHILD:
        return "started by the command, which alone is profiled; -n with its name profiles it, "
               "--follow-children everything that the command starts";
    case UNPROFILED_FORKED:
        return "forked by a process that was attached to, whose patches are its own; heap_profile "
               "-p attaches to such a child";
    case UNPROFILED_NAME:
        return "not one of the names after -n";
    case UNPROFILED_TOO_MANY:
        return "too many processes were being profiled at once; name those that matter with -n";
    }
    return "";
}

static int compare_records(const void *left_pointer, const void *right_pointer)
{
    const struct unprofiled_record *left = left_pointer, *right = right_pointer;
    int order = strcmp(left->name, right->name);
    if (order == 0)
        order = (int)left->reason - (int)right->reason;
    return order != 0 ? order : (left->pid > right->pid) - (left->pid < right->pid);
}

int unprofiled_write(struct unprofiled_list *list, struct trace_writer *writer)
{
    if (list->count > 0)
        qsort(list->records, list->count, sizeof(*list->records), compare_records);
    int code = 0;
    for (size_t first = 0, next; first < list->count && code == 0; first = next) {
        const struct unprofiled_record *record = &list->records[first];
        for (next = first + 1; next < list->count; next++) {
            if (strcmp(list->records[next].name, record->name) != 0 ||
                list->records[next].reason != record->reason)
                break;
        }
        char name[96];
        if (next - first > 1)
            snprintf(name, sizeof(name), "%s (%zu processes)", record->name, next - first);
        else
            snprintf(name, sizeof(name), "%s", record->name);
        struct trace_unprofiled entry = {.pid = record->pid,
                                         .parent_pid = record->parent_pid,
                                         .name = name,
                                         .reason = reason_words(record->reason),
                                         .by_choice = record->reason == UNPROFILED_NAME};
        code = trace_writer_unprofiled(writer, &entry);
    }
    if (code == 0 && list->beyond > 0) {
        char name[64];
        snprintf(name, sizeof(name), "(%zu more processes)", list->beyond);
        struct trace_unprofiled entry = {.name = name, .reason = "too many to list"};
        code = trace_writer_unprofiled(writer, &entry);
    }
    return code;
}

void unprofiled_clear(struct unprofiled_list *list)
{
    free(list->records);
    memset(list, 0, sizeof(*list));
}
