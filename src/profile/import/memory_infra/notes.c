/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own additions to the file's metadata (write.h has the keys), and the rate at which Chrome
 * sampled, which is part of its command line.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/memory_infra/state.h"
#include "util/array.h"

#define SAMPLING_RATE "--memlog-sampling-rate="

enum note_kind { NOTE_PROCESS, NOTE_HEAP, NOTE_DUMP, NOTE_KINDS };

struct import_notes {
    struct note_list {
        struct import_note *items;
        size_t count, capacity;
    } lists[NOTE_KINDS];
    struct intern_table ids; /* of keys */
    uint32_t *places;        /* by id - 1: index in its list */
    size_t place_capacity;
};

/* The members of notes of any kind. */
static const struct note_member {
    const char *name;
    enum { MEMBER_TEXT, MEMBER_NUMBER, MEMBER_BOOL } type;
    size_t offset;
} note_members[] = {
    {"name", MEMBER_TEXT, offsetof(struct import_note, name)},
    {"command", MEMBER_TEXT, offsetof(struct import_note, command)},
    {"parent-pid", MEMBER_NUMBER, offsetof(struct import_note, parent_pid)},
    {"uid", MEMBER_NUMBER, offsetof(struct import_note, uid)},
    {"allocator", MEMBER_TEXT, offsetof(struct import_note, allocator)},
    {"unseen-allocator", MEMBER_TEXT, offsetof(struct import_note, unseen_allocator)},
    {"allocator-frame", MEMBER_TEXT, offsetof(struct import_note, allocator_frame)},
    {"interval-bytes", MEMBER_NUMBER, offsetof(struct import_note, interval_bytes)},
    {"first-interval-bytes", MEMBER_NUMBER, offsetof(struct import_note, first_interval_bytes)},
    {"start-boottime-ns", MEMBER_NUMBER, offsetof(struct import_note, start_boottime_ns)},
    {"samples", MEMBER_NUMBER, offsetof(struct import_note, samples)},
    {"weighed-samples", MEMBER_NUMBER, offsetof(struct import_note, weighed_samples)},
    {"boottime-ns", MEMBER_NUMBER, offsetof(struct import_note, boottime_ns)},
    {"exact-bytes", MEMBER_NUMBER, offsetof(struct import_note, exact_bytes)},
    {"exact-calls", MEMBER_NUMBER, offsetof(struct import_note, exact_calls)},
    {"unexplained-bytes", MEMBER_NUMBER, offsetof(struct import_note, unexplained.bytes)},
    {"anonymous-bytes", MEMBER_NUMBER, offsetof(struct import_note, unexplained.of_bytes)},
    {"final", MEMBER_BOOL, offsetof(struct import_note, final)},
    {"incomplete", MEMBER_BOOL, offsetof(struct import_note, incomplete)},
    {"disagrees", MEMBER_BOOL, offsetof(struct import_note, disagrees)},
    {"unfinished", MEMBER_BOOL, offsetof(struct import_note, unfinished)},
    {"ended", MEMBER_BOOL, offsetof(struct import_note, ended)},
};

struct import_notes *import_notes_new(void)
{
    return calloc(1, sizeof(struct import_notes));
}

void import_notes_free(struct import_notes *notes)
{
    if (notes == NULL)
        return;
    for (int kind = 0; kind < NOTE_KINDS; kind++) {
        for (size_t i = 0; i < notes->lists[kind].count; i++)
            free(notes->lists[kind].items[i].losses);
        free(notes->lists[kind].items);
    }
    intern_free(&notes->ids);
    free(notes->places);
    free(notes);
}

/* --- texts --- */

static bool take_prefix(struct memory_infra_text *text, const char *prefix)
{
    size_t length = strlen(prefix);
    if (text->length < length || memcmp(text->at, prefix, length) != 0)
        return false;
    text->at += length;
    text->length -= length;
    return true;
}

/* Read the number at the beginning of a text, which may be negative, and the '-' that follows it
 * unless it is the last. */
static bool take_number(struct memory_infra_text *text, int64_t *number)
{
    char digits[24];
    size_t at = text->length > 0 && text->at[0] == '-' ? 1 : 0;
    while (at < text->length && at < sizeof(digits) - 1 && text->at[at] >= '0' &&
           text->at[at] <= '9')
        at++;
    memcpy(digits, text->at, at);
    digits[at] = '\0';
    char *end;
    *number = strtoll(digits, &end, 10);
    if (at == 0 || end != digits + at || (at < text->length && text->at[at] != '-'))
        return false;
    at += at < text->length;
    text->at += at;
    text->length -= at;
    return true;
}

static uint64_t number_of(struct memory_infra_text text)
{
    char digits[32];
    snprintf(digits, sizeof(digits), "%.*s", text.length < 31 ? (int)text.length : 31, text.at);
    return *digits == '-' ? 0 : strtoull(digits, NULL, 10);
}

/* --- notes --- */

/* Find the note of a key, or add it. NULL: no memory. */
static struct import_note *put_note(struct import_notes *notes, enum note_kind kind,
                                    struct memory_infra_text key)
{
    struct note_list *list = &notes->lists[kind];
    bool added;
    uint64_t id = intern_bytes(&notes->ids, key.at, key.length, &added);
    if (id == 0 || ARRAY_RESERVE(&notes->places, &notes->place_capacity, (size_t)id - 1, 1) < 0 ||
        ARRAY_RESERVE(&list->items, &list->capacity, list->count, 1) < 0)
        return NULL;
    if (added) {
        notes->places[id - 1] = (uint32_t)list->count;
        list->items[list->count++] = (struct import_note){0};
    }
    return &list->items[notes->places[id - 1]];
}

/* Take a member "loss-NAME". */
static void set_loss(struct importing *importing, struct import_note *note,
                     struct memory_infra_text name, struct memory_infra_text value)
{
    char loss[64];
    if (!take_prefix(&name, "loss-") || name.length >= sizeof(loss))
        return;
    memcpy(loss, name.at, name.length);
    loss[name.length] = '\0';
    if (note->losses == NULL && (note->losses = calloc(1, sizeof(*note->losses))) == NULL)
        builder_fail(importing->builder);
    else
        trace_loss_take_name(note->losses, loss, number_of(value));
}

static void set_member(struct importing *importing, struct import_note *note,
                       struct memory_infra_text name, struct memory_infra_text value)
{
    set_loss(importing, note, name, value);
    for (size_t i = 0; i < sizeof(note_members) / sizeof(note_members[0]); i++) {
        void *member = (char *)note + note_members[i].offset;
        if (!memory_infra_text_is(name, note_members[i].name))
            continue;
        if (note_members[i].type == MEMBER_TEXT)
            *(const char **)member = builder_text(importing->builder, value.at, value.length);
        else if (note_members[i].type == MEMBER_NUMBER)
            *(uint64_t *)member = number_of(value);
        else
            *(bool *)member = memory_infra_text_is(value, "true");
    }
}

/* rest: the text after the kind in the key: PID, PID-N or PID-N-ID. */
static int take_note(struct importing *importing, enum note_kind kind, struct memory_infra_text key,
                     struct memory_infra_text rest, struct memory_infra_text inner,
                     struct memory_infra_text value)
{
    int64_t pid, number = 0;
    if (!take_number(&rest, &pid) || (kind != NOTE_PROCESS && !take_number(&rest, &number)) ||
        (rest.length > 0) != (kind == NOTE_DUMP))
        return 0;
    struct import_note *note = put_note(importing->notes, kind, key);
    if (note == NULL)
        return -ENOMEM;
    note->pid = (int32_t)pid;
    note->number = (uint32_t)number;
    set_member(importing, note, inner, value);
    return importing->builder->error;
}

static void take_sampling_rate(struct importing *importing, struct memory_infra_text command)
{
    const char *found = memmem(command.at, command.length, SAMPLING_RATE, strlen(SAMPLING_RATE));
    if (found == NULL)
        return;
    found += strlen(SAMPLING_RATE);
    size_t left = command.length - (size_t)(found - command.at), digits = 0;
    while (digits < left && digits < 15 && found[digits] >= '0' && found[digits] <= '9')
        digits++;
    importing->sampling_rate = number_of((struct memory_infra_text){found, digits});
}

int import_notes_take(struct importing *importing, struct memory_infra_text key,
                      struct memory_infra_text inner, struct memory_infra_text value)
{
    struct memory_infra_text rest = key;
    if (memory_infra_text_is(key, "command_line") && inner.length == 0)
        take_sampling_rate(importing, value);
    if (!take_prefix(&rest, "heapprofd-"))
        return 0;
    if (memory_infra_text_is(rest, "boottime-to-realtime-ns")) {
        int64_t number;
        if (take_number(&value, &number))
            importing->builder->profile->boottime_to_realtime_ns = number;
        return 0;
    }
    if (take_prefix(&rest, "process-"))
        return take_note(importing, NOTE_PROCESS, key, rest, inner, value);
    if (take_prefix(&rest, "heap-"))
        return take_note(importing, NOTE_HEAP, key, rest, inner, value);
    return take_prefix(&rest, "dump-") ? take_note(importing, NOTE_DUMP, key, rest, inner, value)
                                       : 0;
}

/* --- lookup --- */

const struct import_note *import_notes_heap(const struct importing *importing, int32_t pid,
                                            const char *allocator)
{
    const struct note_list *heaps = &importing->notes->lists[NOTE_HEAP];
    for (size_t i = 0; i < heaps->count; i++)
        if (heaps->items[i].pid == pid && heaps->items[i].allocator != NULL &&
            strcmp(heaps->items[i].allocator, allocator) == 0)
            return &heaps->items[i];
    return NULL;
}

static const struct import_note *find_note(const struct import_notes *notes, enum note_kind kind,
                                           const char *key)
{
    uint64_t id = intern_find(&notes->ids, key, strlen(key));
    return id == 0 ? NULL : &notes->lists[kind].items[notes->places[id - 1]];
}

const struct import_note *import_notes_process(const struct importing *importing, int32_t pid)
{
    char key[64];
    snprintf(key, sizeof(key), "heapprofd-process-%" PRId32, pid);
    return find_note(importing->notes, NOTE_PROCESS, key);
}

const struct import_note *import_notes_dump(const struct importing *importing,
                                            const struct import_note *heap, const char *id)
{
    char key[200];
    snprintf(key, sizeof(key), "heapprofd-dump-%" PRId32 "-%" PRIu32 "-%s", heap->pid, heap->number,
             id);
    return find_note(importing->notes, NOTE_DUMP, key);
}
