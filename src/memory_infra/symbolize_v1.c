/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stackFrames` anew, and the entries of `heaps`: these are totals of a frame and all that it
 * called, so what is put between a frame and its parent has the frame's own totals.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory_infra/frame_name.h"
#include "memory_infra/symbolize_private.h"
#include "util/json.h"

/* --- frames --- */

static void write_place(const struct memory_infra_symbols *symbols,
                        const struct source_place *place, FILE *out)
{
    fputc('{', out);
    frame_name_write(out, "name", symbols->texts.items[place->function]);
    if (place->file != NONE) {
        fputs(",\"file\":", out);
        json_print_ascii_string(out, symbols->texts.items[place->file]);
    }
    if (place->line != 0)
        fprintf(out, ",\"line\":%" PRIu32, place->line);
}

/* Level 0 is the frame itself, with its own key; the outermost has the parent that it had. */
static void write_levels(const struct memory_infra_symbols *symbols, const struct pc_frame *frame,
                         const struct answer *answer, struct json_span key, struct json_span value,
                         FILE *out)
{
    struct json_member member;
    struct json_span parent = {0};
    for (uint32_t level = 0; level < answer->count; level++) {
        if (level == 0)
            span_write(out, key);
        else
            fprintf(out, ",\"%" PRIu64 "\"", frame->inserted + level - 1);
        fputc(':', out);
        write_place(symbols, &symbols->places[answer->place + level], out);
        struct json_span rest = value;
        while (json_span_next(&rest, false, &member) > 0) {
            if (json_span_is(member.key, "parent")) {
                parent = member.value;
            } else if (level == 0 && !json_span_is(member.key, "name") &&
                       !json_span_is(member.key, FRAME_NAME_MEMBER) &&
                       !json_span_is(member.key, "file") && !json_span_is(member.key, "line")) {
                fputc(',', out);
                span_write(out, (struct json_span){member.key.at, member.value.end});
            }
        }
        if (level + 1 < answer->count) {
            fprintf(out, ",\"parent\":\"%" PRIu64 "\"", frame->inserted + level);
        } else if (parent.at != NULL) {
            fputs(",\"parent\":", out);
            span_write(out, parent);
        }
        fputc('}', out);
    }
}

struct read_name {
    bool is_told, is_pc;
    uint64_t address;
};

/* Read a name as read_values.c does: of several the last, and null, objects and lists are none. */
static int read_name(struct json_span value, struct read_name *name)
{
    if (*value.at == 'n' || *value.at == '{' || *value.at == '[')
        return 0;
    *name = (struct read_name){.is_told = true};
    if (*value.at != '"')
        return 0;
    char *text = json_span_text(value);
    if (text == NULL)
        return -ENOMEM;
    name->is_pc = symbols_read_pc(text, strlen(text), &name->address);
    free(text);
    return 0;
}

/* 1: the frame is a `pc:` one; 0: it is not; -EBADMSG or -ENOMEM. */
static int read_frame(struct json_span *value, uint64_t *address)
{
    struct read_name name = {0}, real_name = {0};
    struct json_member member;
    struct json_span rest;
    int more;
    if (!json_span_open(value, '{'))
        return 0;
    rest = *value;
    while ((more = json_span_next(&rest, false, &member)) > 0) {
        bool is_real = json_span_is(member.key, FRAME_NAME_MEMBER);
        if (!is_real && !json_span_is(member.key, "name"))
            continue;
        int result = read_name(member.value, is_real ? &real_name : &name);
        if (result < 0)
            return result;
    }
    if (real_name.is_told)
        name = real_name;
    *address = name.address;
    return more < 0 ? -EBADMSG : name.is_pc;
}

/* Return the use of the event's next v1 frame: they were told in this order, over all of its
 * objects, with uses of heaps_v2 among them. NULL: there is none. */
static const struct pc_use *next_use(struct rewriting *at, uint32_t event)
{
    const struct memory_infra_symbols *symbols = at->symbols;
    const struct dump_event *of = &symbols->events[event];
    if (at->frames_event != event + 1) {
        at->frames_event = event + 1;
        at->frames_use = 0;
    }
    while (at->frames_use < of->use_count) {
        const struct pc_use *use = &symbols->uses[of->first_use + at->frames_use++];
        if (symbols->frames[use->frame].key != NONE)
            return use;
    }
    return NULL;
}

int rewrite_frames(struct rewriting *at, struct json_span bytes, uint32_t event, FILE *out)
{
    const struct memory_infra_symbols *symbols = at->symbols;
    struct json_span rest = bytes;
    struct json_member member;
    const char *copied = bytes.at;
    int more;
    if (!json_span_open(&rest, '{'))
        return -EBADMSG;
    while ((more = json_span_next(&rest, false, &member)) > 0) {
        uint64_t address;
        struct json_span value = member.value;
        int is_pc = read_frame(&value, &address);
        if (is_pc < 0)
            return is_pc;
        if (is_pc == 0)
            continue;
        const struct pc_use *told = next_use(at, event);
        if (told == NULL)
            return -EBADMSG;
        const struct pc_frame *frame = &symbols->frames[told->frame];
        if (frame->address != address)
            return -EBADMSG;
        if (told->answer == NONE)
            continue;
        span_write(out, (struct json_span){copied, member.key.at});
        write_levels(symbols, frame, &symbols->answers[told->answer], member.key, value, out);
        copied = member.value.end;
    }
    span_write(out, (struct json_span){copied, bytes.end});
    return more < 0 ? -EBADMSG : 0;
}

/* --- entries --- */

struct entries {
    struct rewriting *rewriting;
    uint32_t event;
    const struct memory_infra_symbols *symbols;
    const struct dump_process *process;
    const char *copied; /* up to here the event has been written */
    FILE *out;
};

/* The frame that an entry is of, if it was given others to be inlined in. */
static int find_inlined(const struct entries *at, struct json_span value,
                        const struct pc_frame **frame, uint32_t *levels)
{
    *frame = NULL;
    char *key = *value.at == '"' ? json_span_text(value)
                                 : strndup(value.at, (size_t)(value.end - value.at));
    if (key == NULL)
        return -ENOMEM;
    uint64_t text = intern_find(&at->symbols->texts.ids, key, strlen(key));
    free(key);
    uint32_t index = text == 0 ? ID_MAP_NONE : id_map_find(&at->process->keys, text - 1);
    if (index == ID_MAP_NONE || at->symbols->frames[index].inserted == 0)
        return 0;
    *frame = &at->symbols->frames[index];
    const struct answer *answer = symbols_answer(at->symbols, (*frame)->event, *frame);
    *levels = answer == NULL ? 0 : answer->count - 1;
    return 0;
}

static int take_entry(struct entries *at, struct json_span entry)
{
    struct json_span rest = entry;
    struct json_member member;
    const struct pc_frame *frame;
    uint32_t levels;
    int more;
    if (!json_span_open(&rest, '{'))
        return 0;
    while ((more = json_span_next(&rest, false, &member)) > 0 && !json_span_is(member.key, "bt"))
        continue;
    if (more <= 0)
        return more < 0 ? -EBADMSG : 0;
    int result = find_inlined(at, member.value, &frame, &levels);
    if (result < 0 || frame == NULL)
        return result;
    span_write(at->out, (struct json_span){at->copied, entry.end});
    at->copied = entry.end;
    for (uint32_t i = 0; i < levels; i++) {
        fputc(',', at->out);
        span_write(at->out, (struct json_span){entry.at, member.value.at});
        fprintf(at->out, "\"%" PRIu64 "\"", frame->inserted + i);
        span_write(at->out, (struct json_span){member.value.end, entry.end});
    }
    return 0;
}

/* Goes to what a path of keys leads to, "*" for any of them, and takes the elements of the lists
 * there. */
static int descend(struct entries *at, struct json_span value, const char *const *path)
{
    struct json_member member;
    bool of_list = *path == NULL;
    int more, result = 0;
    if (!json_span_open(&value, of_list ? '[' : '{'))
        return 0;
    while (result == 0 && (more = json_span_next(&value, of_list, &member)) != 0) {
        if (more < 0)
            return -EBADMSG;
        if (of_list)
            result = take_entry(at, member.value);
        else if (strcmp(*path, "*") == 0 || json_span_is(member.key, *path))
            result = descend(at, member.value, path + 1);
    }
    return result;
}

/* Write frames that stand in the event of the entries. */
static int take_frames(struct entries *at, struct json_span value)
{
    struct json_span inner = value;
    if (!json_span_open(&inner, '{'))
        return 0;
    span_write(at->out, (struct json_span){at->copied, value.at});
    at->copied = value.end;
    return rewrite_frames(at->rewriting, value, at->event, at->out);
}

static int take_arguments(struct entries *at, struct json_span arguments)
{
    static const char *const path[] = {"heaps", "*", "entries", NULL};
    struct json_member member;
    int more = 0, result = 0;
    if (!json_span_open(&arguments, '{'))
        return 0;
    while (result == 0 && (more = json_span_next(&arguments, false, &member)) > 0) {
        if (json_span_is(member.key, "stackFrames"))
            result = take_frames(at, member.value);
        else if (json_span_is(member.key, "dumps"))
            result = descend(at, member.value, path);
    }
    return result == 0 && more < 0 ? -EBADMSG : result;
}

int rewrite_entries(struct rewriting *at, struct json_span bytes, uint32_t event, FILE *out)
{
    struct entries entries = {
        .rewriting = at,
        .event = event,
        .symbols = at->symbols,
        .process = &at->symbols->processes[at->symbols->events[event].process],
        .copied = bytes.at,
        .out = out,
    };
    struct json_span rest = bytes;
    struct json_member member;
    int more = 0, result = json_span_open(&rest, '{') ? 0 : -EBADMSG;
    while (result == 0 && (more = json_span_next(&rest, false, &member)) > 0) {
        if (json_span_is(member.key, "args"))
            result = take_arguments(&entries, member.value);
    }
    if (result == 0 && more < 0)
        result = -EBADMSG;
    if (result == 0)
        span_write(out, (struct json_span){entries.copied, bytes.end});
    return result;
}
