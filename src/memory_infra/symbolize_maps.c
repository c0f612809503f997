/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dump's maps anew. Entries that nothing changes keep their bytes. Each map gets all strings and
 * nodes that its own nodes lead to, also where an earlier one had them: readers may take it alone,
 * and to tell an id again with the same contents is harmless.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "memory_infra/frame_name.h"
#include "memory_infra/symbolize_private.h"
#include "util/array.h"

struct map_member {
    struct json_span key, value;
    char *nodes; /* anew; NULL: these are not nodes */
    size_t length;
};

struct map_members {
    struct map_member *items;
    size_t count, capacity;
    bool changed;
};

/* What stands in a node or string; members that are not known are kept. */
struct map_entry {
    uint64_t id, name_sid, parent;
    bool has_id, has_name, has_parent;
    struct json_span text; /* of a string */
    struct json_span others[8];
    size_t other_count;
    bool is_object;
};

/* Whether the reader passes it over: what a member before it said stays. */
static bool is_skipped(struct json_member member)
{
    char begin = *member.value.at;
    if (json_span_is(member.key, "string"))
        return begin != '"';
    return begin == 'n' &&
           (json_span_is(member.key, "id") || json_span_is(member.key, "name_sid") ||
            json_span_is(member.key, "parent"));
}

static bool read_entry(struct json_span value, struct map_entry *entry)
{
    struct json_member member;
    int more;
    *entry = (struct map_entry){0};
    if (!json_span_open(&value, '{'))
        return false;
    while ((more = json_span_next(&value, false, &member)) > 0) {
        if (is_skipped(member))
            continue;
        if (json_span_is(member.key, "id"))
            entry->has_id = json_span_number(member.value, &entry->id);
        else if (json_span_is(member.key, "name_sid"))
            entry->has_name = json_span_number(member.value, &entry->name_sid);
        else if (json_span_is(member.key, "parent"))
            entry->has_parent = json_span_number(member.value, &entry->parent);
        else if (json_span_is(member.key, "string"))
            entry->text = member.value;
        else if (!json_span_is(member.key, "file_sid") && !json_span_is(member.key, "line") &&
                 entry->other_count < sizeof(entry->others) / sizeof(*entry->others))
            entry->others[entry->other_count++] =
                (struct json_span){member.key.at, member.value.end};
    }
    return more == 0 && entry->has_id;
}

/* --- strings --- */

/* An id may be told more than once: what it means is what is told last. */
static int see_string(struct rewriting *at, uint64_t id, const char *text)
{
    uint64_t index = intern_find(&at->symbols->texts.ids, text, strlen(text));
    uint32_t before = id_map_find(&at->existing_ids, id);
    if (before != ID_MAP_NONE && at->strings[before].existing == id)
        at->strings[before].existing_in = 0;
    /* One of a file or type may not be escaped as a frame's has to be. */
    if (index == 0 || !frame_name_is_plain(text))
        return 0;
    at->strings[index - 1].existing = id;
    at->strings[index - 1].existing_in = at->object;
    return id_map_set(&at->existing_ids, id, (uint32_t)index - 1);
}

/* Those of the maps that a name may be told by. */
static int see_strings(struct rewriting *at, struct json_span list)
{
    struct json_member member;
    struct map_entry entry;
    int more;
    if (!json_span_open(&list, '['))
        return 0;
    while ((more = json_span_next(&list, true, &member)) > 0) {
        if (!read_entry(member.value, &entry) || entry.text.at == NULL)
            return -EBADMSG;
        char *text = json_span_text(entry.text);
        if (text == NULL)
            return -ENOMEM;
        int result = see_string(at, entry.id, text);
        free(text);
        if (result < 0)
            return result;
    }
    return more < 0 ? -EBADMSG : 0;
}

/* The id of a text in these maps; MEMORY_INFRA_NONE: no memory. */
static uint64_t string_id(struct rewriting *at, uint32_t text)
{
    struct string_state *string = &at->strings[text];
    if (string->existing_in == at->object)
        return string->existing;
    if (string->id == 0)
        string->id = at->symbols->next_id++;
    if (string->needed_by == at->object)
        return string->id;
    if (array_reserve(&at->needed, &at->needed_capacity, at->needed_count, 1, sizeof(uint32_t)) < 0)
        return MEMORY_INFRA_NONE;
    string->needed_by = at->object;
    at->needed[at->needed_count++] = text;
    return string->id;
}

static const struct pc_frame *frame_of(const struct rewriting *at, uint32_t process, uint64_t sid)
{
    uint32_t index = id_map_find(&at->symbols->processes[process].strings, sid);
    return index == ID_MAP_NONE ? NULL : &at->symbols->frames[index];
}

static bool is_dropped(const struct rewriting *at, uint32_t process, uint64_t sid)
{
    const struct pc_frame *frame = frame_of(at, process, sid);
    return frame != NULL && frame->is_used && !frame->is_kept;
}

static int write_strings(struct rewriting *at, struct json_span list, uint32_t process, bool last,
                         bool *changed, FILE *out)
{
    struct json_member member;
    struct map_entry entry;
    bool first = true;
    int more;
    if (!json_span_open(&list, '['))
        return -EBADMSG;
    fputc('[', out);
    while ((more = json_span_next(&list, true, &member)) > 0) {
        if (!read_entry(member.value, &entry))
            return -EBADMSG;
        if (is_dropped(at, process, entry.id)) {
            *changed = true;
            continue;
        }
        if (!first)
            fputc(',', out);
        first = false;
        span_write(out, member.value);
    }
    for (size_t i = 0; last && i < at->needed_count; i++) {
        fprintf(out, "%s{\"id\":%" PRIu64 ",", first ? "" : ",", at->strings[at->needed[i]].id);
        frame_name_write(out, "string", at->symbols->texts.items[at->needed[i]]);
        fputc('}', out);
        first = false;
        *changed = true;
    }
    fputc(']', out);
    return more < 0 ? -EBADMSG : 0;
}

/* --- nodes --- */

struct node_contents {
    uint64_t process, parent, name, file, line; /* parent, file: MEMORY_INFRA_NONE */
};

static int contents_of(struct rewriting *at, const struct source_place *place, uint64_t parent,
                       uint32_t process, struct node_contents *contents)
{
    *contents = (struct node_contents){process, parent, string_id(at, place->function),
                                       MEMORY_INFRA_NONE, place->line};
    if (place->file != NONE)
        contents->file = string_id(at, place->file);
    return contents->name == MEMORY_INFRA_NONE ||
                   (place->file != NONE && contents->file == MEMORY_INFRA_NONE)
               ? -ENOMEM
               : 0;
}

static void write_node(FILE *out, uint64_t id, const struct node_contents *contents,
                       const struct map_entry *entry)
{
    fprintf(out, "{\"id\":%" PRIu64 ",\"name_sid\":%" PRIu64, id, contents->name);
    if (contents->parent != MEMORY_INFRA_NONE)
        fprintf(out, ",\"parent\":%" PRIu64, contents->parent);
    if (contents->file != MEMORY_INFRA_NONE)
        fprintf(out, ",\"file_sid\":%" PRIu64, contents->file);
    if (contents->line != 0)
        fprintf(out, ",\"line\":%" PRIu64, contents->line);
    for (size_t i = 0; entry != NULL && i < entry->other_count; i++) {
        fputc(',', out);
        span_write(out, entry->others[i]);
    }
    fputc('}', out);
}

/* Its id in *id, written if these maps have it not yet. */
static int insert_node(struct rewriting *at, const struct node_contents *contents, uint64_t *id,
                       FILE *out)
{
    bool added;
    uint64_t index = intern_bytes(&at->node_ids, contents, sizeof(*contents), &added);
    if (index == 0)
        return -ENOMEM;
    if (added) {
        if (array_reserve(&at->nodes, &at->node_capacity, at->node_count, 1, sizeof(*at->nodes)) <
            0)
            return -ENOMEM;
        at->nodes[at->node_count++] = (struct inserted_node){at->symbols->next_id++, 0};
    }
    struct inserted_node *node = &at->nodes[index - 1];
    *id = node->id;
    if (node->object == at->object)
        return 0;
    node->object = at->object;
    write_node(out, node->id, contents, NULL);
    fputc(',', out);
    return 0;
}

/* From the outermost function in. */
static int write_answer(struct rewriting *at, const struct answer *answer,
                        const struct map_entry *entry, uint32_t process, FILE *out)
{
    const struct source_place *places = &at->symbols->places[answer->place];
    uint64_t parent = entry->has_parent ? entry->parent : MEMORY_INFRA_NONE;
    struct node_contents contents;
    int result = 0;
    for (uint32_t i = answer->count - 1; i > 0 && result == 0; i--) {
        result = contents_of(at, &places[i], parent, process, &contents);
        if (result == 0)
            result = insert_node(at, &contents, &parent, out);
    }
    if (result == 0)
        result = contents_of(at, &places[0], parent, process, &contents);
    if (result == 0)
        write_node(out, entry->id, &contents, entry);
    return result;
}

static int write_nodes(struct rewriting *at, struct json_span list, uint32_t event, bool *changed,
                       FILE *out)
{
    uint32_t process = at->symbols->events[event].process;
    struct json_member member;
    struct map_entry entry;
    int more, result = 0;
    bool first = true;
    if (!json_span_open(&list, '['))
        return -EBADMSG;
    fputc('[', out);
    while (result == 0 && (more = json_span_next(&list, true, &member)) != 0) {
        if (more < 0 || !read_entry(member.value, &entry) || !entry.has_name)
            return -EBADMSG;
        if (!first)
            fputc(',', out);
        first = false;
        const struct pc_frame *frame = frame_of(at, process, entry.name_sid);
        const struct answer *answer =
            frame == NULL ? NULL : symbols_answer(at->symbols, event, frame);
        if (answer == NULL) {
            span_write(out, member.value);
            continue;
        }
        *changed = true;
        result = write_answer(at, answer, &entry, process, out);
    }
    fputc(']', out);
    return result;
}

/* --- the object --- */

static bool is_list(const struct map_member *member, const char *name)
{
    struct json_span inner = member->value;
    return json_span_is(member->key, name) && json_span_open(&inner, '[');
}

/* What strings mean from this event on. */
static int replay(struct rewriting *at, uint32_t event)
{
    const struct memory_infra_symbols *symbols = at->symbols;
    int result = 0;
    for (; at->next_frame < symbols->frame_count &&
           symbols->frames[at->next_frame].event <= event && result == 0;
         at->next_frame++) {
        const struct pc_frame *frame = &symbols->frames[at->next_frame];
        if (frame->id != MEMORY_INFRA_NONE)
            result = id_map_set(&symbols->processes[frame->process].strings, frame->id,
                                frame->is_name ? ID_MAP_NONE : (uint32_t)at->next_frame);
    }
    return result;
}

static int read_members(struct rewriting *at, struct json_span bytes, struct map_members *members)
{
    struct json_member member;
    int more, result = 0;
    if (!json_span_open(&bytes, '{'))
        return -EBADMSG;
    while (result == 0 && (more = json_span_next(&bytes, false, &member)) != 0) {
        if (more < 0)
            return -EBADMSG;
        if (array_reserve(&members->items, &members->capacity, members->count, 1,
                          sizeof(*members->items)) < 0)
            return -ENOMEM;
        members->items[members->count++] = (struct map_member){member.key, member.value, NULL, 0};
        if (json_span_is(member.key, "strings"))
            result = see_strings(at, member.value);
    }
    return result;
}

static int make_nodes(struct rewriting *at, struct map_members *members, uint32_t event)
{
    int result = 0;
    for (size_t i = 0; i < members->count && result == 0; i++) {
        struct map_member *member = &members->items[i];
        if (!is_list(member, "nodes"))
            continue;
        FILE *out = open_memstream(&member->nodes, &member->length);
        if (out == NULL)
            return -ENOMEM;
        result = write_nodes(at, member->value, event, &members->changed, out);
        if (fclose(out) != 0 && result == 0)
            result = -ENOMEM;
    }
    return result;
}

static int write_members(struct rewriting *at, struct map_members *members, uint32_t process,
                         FILE *out)
{
    size_t last = members->count;
    int result = 0;
    for (size_t i = 0; i < members->count; i++)
        last = is_list(&members->items[i], "strings") ? i : last;
    fputc('{', out);
    for (size_t i = 0; i < members->count && result == 0; i++) {
        const struct map_member *member = &members->items[i];
        if (i > 0)
            fputc(',', out);
        span_write(out, member->key);
        fputc(':', out);
        if (member->nodes != NULL)
            fwrite(member->nodes, 1, member->length, out);
        else if (is_list(member, "strings"))
            result = write_strings(at, member->value, process, i == last, &members->changed, out);
        else
            span_write(out, member->value);
    }
    if (last == members->count && at->needed_count > 0 && result == 0) {
        static const char none[] = "[]";
        fputs(",\"strings\":", out);
        result = write_strings(at, (struct json_span){none, none + 2}, process, true,
                               &members->changed, out);
    }
    fputc('}', out);
    return result;
}

int rewrite_maps(struct rewriting *at, struct json_span bytes, uint32_t event, FILE *out)
{
    uint32_t process = at->symbols->events[event].process;
    struct map_members members = {0};
    char *text = NULL;
    size_t length;
    at->object++;
    at->needed_count = 0;
    id_map_free(&at->existing_ids);
    symbols_enter(at->symbols, event);
    int result = replay(at, event);
    if (result == 0)
        result = read_members(at, bytes, &members);
    if (result == 0)
        result = make_nodes(at, &members, event);
    FILE *made = result == 0 ? open_memstream(&text, &length) : NULL;
    if (made != NULL) {
        result = write_members(at, &members, process, made);
        if (fclose(made) != 0 && result == 0)
            result = -ENOMEM;
    } else if (result == 0) {
        result = -ENOMEM;
    }
    /* Maps in which there is nothing to do keep their bytes. */
    if (result == 0 && members.changed)
        fwrite(text, 1, length, out);
    else if (result == 0)
        span_write(out, bytes);
    for (size_t i = 0; i < members.count; i++)
        free(members.items[i].nodes);
    free(members.items);
    free(text);
    return result;
}
