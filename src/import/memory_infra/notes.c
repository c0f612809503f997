/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own additions to the file's metadata (write.h has the keys), and the rate at which Chrome
 * sampled, which is part of its command line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/memory_infra/state.h"
#include "util/array.h"

#define SAMPLING_RATE "--memlog-sampling-rate="

struct import_notes {
    struct import_heap_note *heaps;
    size_t heap_count, heap_capacity;
    struct import_process_note *processes;
    size_t process_count, process_capacity;
    struct import_dump_note *dumps;
    size_t dump_count, dump_capacity;
    struct intern_table ids; /* of keys */
    uint32_t *places;        /* by id - 1: index in its array */
    size_t place_capacity;
};

struct import_notes *import_notes_new(void)
{
    return calloc(1, sizeof(struct import_notes));
}

void import_notes_free(struct import_notes *notes)
{
    if (notes == NULL)
        return;
    free(notes->heaps);
    free(notes->processes);
    free(notes->dumps);
    intern_free(&notes->ids);
    free(notes->places);
    free(notes);
}

/* --- texts --- */

static bool is(struct memory_infra_text text, const char *wanted)
{
    return strlen(wanted) == text.length && memcmp(text.at, wanted, text.length) == 0;
}

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

/* The index of a key's note in its array; `count` if it is to be added. */
static int find_place(struct import_notes *notes, struct memory_infra_text key, size_t count,
                      size_t *place)
{
    bool added;
    uint64_t id = intern_bytes(&notes->ids, key.at, key.length, &added);
    if (id == 0 || array_reserve(&notes->places, &notes->place_capacity, (size_t)id - 1, 1,
                                 sizeof(*notes->places)) < 0)
        return -ENOMEM;
    if (added)
        notes->places[id - 1] = (uint32_t)count;
    *place = notes->places[id - 1];
    return 0;
}

static const char *text_of(struct importing *importing, struct memory_infra_text text)
{
    return builder_text(importing->builder, text.at, text.length);
}

static int take_process(struct importing *importing, struct memory_infra_text key,
                        struct memory_infra_text rest, struct memory_infra_text inner,
                        struct memory_infra_text value)
{
    struct import_notes *notes = importing->notes;
    int64_t pid;
    size_t place;
    if (!take_number(&rest, &pid) || rest.length > 0)
        return 0;
    if (find_place(notes, key, notes->process_count, &place) < 0 ||
        array_reserve(&notes->processes, &notes->process_capacity, notes->process_count, 1,
                      sizeof(*notes->processes)) < 0)
        return -ENOMEM;
    if (place == notes->process_count)
        notes->processes[notes->process_count++] =
            (struct import_process_note){.pid = (int32_t)pid};
    struct import_process_note *note = &notes->processes[place];
    if (is(inner, "name"))
        note->name = text_of(importing, value);
    else if (is(inner, "command"))
        note->command = text_of(importing, value);
    else if (is(inner, "parent-pid"))
        note->parent_pid = (int32_t)number_of(value);
    else if (is(inner, "uid"))
        note->uid = (int32_t)number_of(value);
    return importing->builder->error;
}

static int take_heap(struct importing *importing, struct memory_infra_text key,
                     struct memory_infra_text rest, struct memory_infra_text inner,
                     struct memory_infra_text value)
{
    struct import_notes *notes = importing->notes;
    int64_t pid, number;
    size_t place;
    if (!take_number(&rest, &pid) || !take_number(&rest, &number) || rest.length > 0)
        return 0;
    if (find_place(notes, key, notes->heap_count, &place) < 0 ||
        array_reserve(&notes->heaps, &notes->heap_capacity, notes->heap_count, 1,
                      sizeof(*notes->heaps)) < 0)
        return -ENOMEM;
    if (place == notes->heap_count)
        notes->heaps[notes->heap_count++] =
            (struct import_heap_note){.pid = (int32_t)pid, .number = (uint32_t)number};
    struct import_heap_note *note = &notes->heaps[place];
    if (is(inner, "name"))
        note->name = text_of(importing, value);
    else if (is(inner, "allocator"))
        note->allocator = text_of(importing, value);
    else if (is(inner, "allocator-frame"))
        note->allocator_frame = text_of(importing, value);
    else if (is(inner, "interval-bytes"))
        note->interval_bytes = number_of(value);
    else if (is(inner, "first-interval-bytes"))
        note->first_interval_bytes = number_of(value);
    else if (is(inner, "start-boottime-ns"))
        note->start_boottime_ns = number_of(value);
    return importing->builder->error;
}

static int take_dump(struct importing *importing, struct memory_infra_text key,
                     struct memory_infra_text rest, struct memory_infra_text inner,
                     struct memory_infra_text value)
{
    struct import_notes *notes = importing->notes;
    int64_t pid, number;
    size_t place;
    if (!take_number(&rest, &pid) || !take_number(&rest, &number) || rest.length == 0)
        return 0;
    if (find_place(notes, key, notes->dump_count, &place) < 0 ||
        array_reserve(&notes->dumps, &notes->dump_capacity, notes->dump_count, 1,
                      sizeof(*notes->dumps)) < 0)
        return -ENOMEM;
    if (place == notes->dump_count)
        notes->dumps[notes->dump_count++] = (struct import_dump_note){
            .pid = (int32_t)pid, .number = (uint32_t)number, .id = text_of(importing, rest)};
    struct import_dump_note *note = &notes->dumps[place];
    if (is(inner, "boottime-ns"))
        note->boottime_ns = number_of(value);
    else if (is(inner, "exact-bytes"))
        note->exact_bytes = number_of(value);
    else if (is(inner, "exact-calls"))
        note->exact_calls = number_of(value);
    else if (is(inner, "final"))
        note->final = is(value, "true");
    else if (is(inner, "incomplete"))
        note->incomplete = is(value, "true");
    else if (is(inner, "ended"))
        note->ended = is(value, "true");
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
    if (is(key, "command_line") && inner.length == 0)
        take_sampling_rate(importing, value);
    if (!take_prefix(&rest, "heapprofd-"))
        return 0;
    if (is(rest, "boottime-to-realtime-ns")) {
        int64_t number;
        if (take_number(&value, &number))
            importing->builder->profile->boottime_to_realtime_ns = number;
        return 0;
    }
    if (take_prefix(&rest, "process-"))
        return take_process(importing, key, rest, inner, value);
    if (take_prefix(&rest, "heap-"))
        return take_heap(importing, key, rest, inner, value);
    return take_prefix(&rest, "dump-") ? take_dump(importing, key, rest, inner, value) : 0;
}

/* --- looking them up --- */

const struct import_heap_note *import_notes_heap(const struct importing *importing, int32_t pid,
                                                 const char *allocator)
{
    const struct import_notes *notes = importing->notes;
    for (size_t i = 0; i < notes->heap_count; i++)
        if (notes->heaps[i].pid == pid && notes->heaps[i].allocator != NULL &&
            strcmp(notes->heaps[i].allocator, allocator) == 0)
            return &notes->heaps[i];
    return NULL;
}

const struct import_process_note *import_notes_process(const struct importing *importing,
                                                       int32_t pid)
{
    char key[64];
    snprintf(key, sizeof(key), "heapprofd-process-%" PRId32, pid);
    uint64_t id = intern_find(&importing->notes->ids, key, strlen(key));
    return id == 0 ? NULL : &importing->notes->processes[importing->notes->places[id - 1]];
}

const struct import_dump_note *import_notes_dump(const struct importing *importing,
                                                 const struct import_heap_note *heap,
                                                 const char *id)
{
    char key[200];
    snprintf(key, sizeof(key), "heapprofd-dump-%" PRId32 "-%" PRIu32 "-%s", heap->pid, heap->number,
             id);
    uint64_t found = intern_find(&importing->notes->ids, key, strlen(key));
    return found == 0 ? NULL : &importing->notes->dumps[importing->notes->places[found - 1]];
}
