/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Give names to the frames of one `maps` object. The reader of read.h parses the object again and
 * reports the positions of its strings and nodes; only changes are replaced, all other bytes are
 * copied. Each object gets all strings and nodes that its own nodes refer to, even if an earlier
 * one has them: readers may read it alone, and the same definition twice is harmless.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/frame_name.h"
#include "profile/memory_infra/symbolize_private.h"
#include "util/array.h"
#include "util/json.h"

/* The reader parses whole files: the text around a `maps` object that makes it one. */
#define BEFORE_MAPS "[{\"args\":{\"dumps\":{\"heaps_v2\":{\"version\":1,\"maps\":"
#define AFTER_MAPS "}}}}]"
#define BEFORE_LENGTH (sizeof(BEFORE_MAPS) - 1)

#define BLANKS " \t\n\v\f\r" /* to the scanner */

/* An inserted node, without its id. MEMORY_INFRA_NONE: it lacks the member. */
struct node_contents {
    uint64_t process, parent, name, file, line;
};

/* The members of a node that a name changes. */
enum member { MEMBER_NAME, MEMBER_PARENT, MEMBER_FILE, MEMBER_LINE, MEMBERS };

/* A string of the object, or a node that gets a name. */
struct entry {
    struct memory_infra_range range;
    bool is_node, is_dropped;
    uint8_t lengths[MEMBERS];  /* of the numbers; 0: the node lacks the member */
    uint32_t offsets[MEMBERS]; /* from the node's beginning */
    uint32_t answer;
    uint32_t inserted_count; /* nodes to be written before it */
    uint64_t parent;         /* id; MEMORY_INFRA_NONE: none */
};

struct maps_rewriter {
    struct memory_infra_symbols *symbols;
    uint32_t object;  /* counts the objects, from 1 */
    uint32_t process; /* of the event */
    uint32_t event;
    size_t next_frame; /* the first one that a later event defines */
    /* The object, in the reader's byte counts. */
    uint64_t end;
    bool is_whole;                     /* it was a single object, up to its end */
    struct memory_infra_range strings; /* its list */
    struct entry *entries;
    size_t entry_count, entry_capacity;
    struct string_state {
        uint64_t id;                     /* of the new string in the file */
        uint64_t existing_id;            /* of an equal one in the object */
        uint32_t needed_by, existing_in; /* objects */
    } * texts;                           /* by text */
    struct id_map existing;              /* string id: its text, of the object's strings */
    uint32_t *needed;                    /* texts that the object gets as strings */
    size_t needed_count, needed_capacity;
    struct intern_table node_ids; /* inserted nodes by contents */
    struct inserted_node {
        uint64_t id;
        uint32_t object; /* the last that has it */
    } * nodes;
    size_t node_count, node_capacity;
    struct insertion {
        uint64_t id;
        struct node_contents contents;
    } * insertions;
    size_t insertion_count, insertion_capacity;
};

/* --- the object's contents --- */

static const struct pc_frame *find_frame(const struct maps_rewriter *rewriter, uint64_t string)
{
    const struct memory_infra_symbols *symbols = rewriter->symbols;
    uint32_t index = id_map_find(&symbols->processes[rewriter->process].strings, string);
    return index == ID_MAP_NONE ? NULL : &symbols->frames[index];
}

static int add_entry(struct maps_rewriter *rewriter, const struct entry *entry)
{
    return ARRAY_ADD(&rewriter->entries, &rewriter->entry_count, &rewriter->entry_capacity, *entry);
}

/* Remember the strings that new names can share. If an id is defined twice, the last text holds. */
static int take_string(void *context, uint64_t id, struct memory_infra_text text,
                       struct memory_infra_range range)
{
    struct maps_rewriter *rewriter = context;
    const struct pc_frame *frame = find_frame(rewriter, id);
    const struct entry entry = {.range = range,
                                .is_dropped = frame != NULL && frame->is_used && !frame->is_kept};
    uint32_t before = id_map_find(&rewriter->existing, id);
    if (before != ID_MAP_NONE && rewriter->texts[before].existing_id == id)
        rewriter->texts[before].existing_in = 0;
    uint64_t index = intern_find(&rewriter->symbols->texts.ids, text.at, text.length);
    /* The name of a file or type may lack the escapes that a frame's name needs. */
    if (index != 0 && !entry.is_dropped &&
        frame_name_is_plain(rewriter->symbols->texts.items[index - 1])) {
        rewriter->texts[index - 1].existing_id = id;
        rewriter->texts[index - 1].existing_in = rewriter->object;
        if (id_map_set(&rewriter->existing, id, (uint32_t)index - 1) < 0)
            return -ENOMEM;
    }
    return add_entry(rewriter, &entry);
}

static int take_node(void *context, const struct memory_infra_node *node)
{
    struct maps_rewriter *rewriter = context;
    const struct memory_infra_symbols *symbols = rewriter->symbols;
    const struct pc_frame *frame = find_frame(rewriter, node->name_sid);
    const struct memory_infra_range ranges[MEMBERS] = {
        [MEMBER_NAME] = node->name_sid_range,
        [MEMBER_PARENT] = node->parent_range,
        [MEMBER_FILE] = node->file_sid_range,
        [MEMBER_LINE] = node->line_range,
    };
    struct entry entry = {.range = node->range, .is_node = true, .parent = node->parent};
    if (frame == NULL || frame->stamp != rewriter->event + 1 ||
        symbols->uses[frame->use].answer == NONE)
        return 0;
    if (node->range.end - node->range.begin > UINT32_MAX)
        return -ENOMEM;
    entry.answer = symbols->uses[frame->use].answer;
    for (int i = 0; i < MEMBERS; i++) {
        entry.lengths[i] = (uint8_t)(ranges[i].end - ranges[i].begin);
        entry.offsets[i] = (uint32_t)(ranges[i].begin - node->range.begin);
    }
    return add_entry(rewriter, &entry);
}

static int take_maps(void *context, struct memory_infra_range range,
                     struct memory_infra_range strings)
{
    struct maps_rewriter *rewriter = context;
    rewriter->is_whole = range.begin == BEFORE_LENGTH && range.end == rewriter->end;
    rewriter->strings = strings;
    return rewriter->is_whole ? 0 : -EBADMSG;
}

static int parse(struct maps_rewriter *rewriter, const char *bytes, size_t length)
{
    static const struct memory_infra_visitor visitor = {
        .string = take_string, .node = take_node, .maps = take_maps};
    struct memory_infra_reader *reader = memory_infra_reader_new(&visitor, rewriter);
    int result = reader == NULL ? -ENOMEM : 0;
    rewriter->end = BEFORE_LENGTH + length;
    rewriter->is_whole = false;
    if (result == 0)
        result = memory_infra_reader_feed(reader, BEFORE_MAPS, BEFORE_LENGTH, NULL);
    if (result == 0)
        result = memory_infra_reader_feed(reader, bytes, length, NULL);
    if (result == 0)
        result = memory_infra_reader_feed(reader, AFTER_MAPS, strlen(AFTER_MAPS), NULL);
    if (result == 0)
        result = memory_infra_reader_end(reader, NULL);
    memory_infra_reader_free(reader);
    return result == 0 && !rewriter->is_whole ? -EBADMSG : result;
}

/* --- additions --- */

/* Return the id of a text's string in this object; add the string if it is missing.
 * MEMORY_INFRA_NONE: no memory. */
static uint64_t string_id(struct maps_rewriter *rewriter, uint32_t text)
{
    struct string_state *string = &rewriter->texts[text];
    if (string->existing_in == rewriter->object)
        return string->existing_id;
    if (string->id == 0)
        string->id = rewriter->symbols->next_id++;
    if (string->needed_by == rewriter->object)
        return string->id;
    if (ARRAY_RESERVE(&rewriter->needed, &rewriter->needed_capacity, rewriter->needed_count, 1) < 0)
        return MEMORY_INFRA_NONE;
    string->needed_by = rewriter->object;
    rewriter->needed[rewriter->needed_count++] = text;
    return string->id;
}

static int set_contents(struct maps_rewriter *rewriter, const struct source_place *place,
                        uint64_t parent, struct node_contents *contents)
{
    *contents = (struct node_contents){
        .process = rewriter->process,
        .parent = parent,
        .name = string_id(rewriter, place->function),
        .file = place->file == NONE ? MEMORY_INFRA_NONE : string_id(rewriter, place->file),
        .line = place->line == 0 ? MEMORY_INFRA_NONE : place->line,
    };
    return contents->name == MEMORY_INFRA_NONE ||
                   (place->file != NONE && contents->file == MEMORY_INFRA_NONE)
               ? -ENOMEM
               : 0;
}

/* Set *id to the id of the node with these contents. Insert the node unless this object has it. */
static int insert_node(struct maps_rewriter *rewriter, const struct node_contents *contents,
                       uint64_t *id)
{
    bool added;
    uint64_t index = intern_bytes(&rewriter->node_ids, contents, sizeof(*contents), &added);
    if (index == 0 ||
        ARRAY_RESERVE(&rewriter->nodes, &rewriter->node_capacity, rewriter->node_count, 1) < 0)
        return -ENOMEM;
    if (added)
        rewriter->nodes[rewriter->node_count++] =
            (struct inserted_node){rewriter->symbols->next_id++, 0};
    struct inserted_node *node = &rewriter->nodes[index - 1];
    *id = node->id;
    if (node->object == rewriter->object)
        return 0;
    node->object = rewriter->object;
    if (ARRAY_RESERVE(&rewriter->insertions, &rewriter->insertion_capacity,
                      rewriter->insertion_count, 1) < 0)
        return -ENOMEM;
    rewriter->insertions[rewriter->insertion_count++] = (struct insertion){*id, *contents};
    return 0;
}

/* Prepare the names of a node: it becomes the innermost function, below inserted nodes. */
static int name_node(struct maps_rewriter *rewriter, struct entry *entry)
{
    const struct answer *answer = &rewriter->symbols->answers[entry->answer];
    const struct source_place *places = &rewriter->symbols->places[answer->place];
    size_t before = rewriter->insertion_count;
    struct node_contents contents;
    int result = 0;
    for (uint32_t i = answer->count - 1; i > 0 && result == 0; i--) {
        result = set_contents(rewriter, &places[i], entry->parent, &contents);
        if (result == 0)
            result = insert_node(rewriter, &contents, &entry->parent);
    }
    entry->inserted_count = (uint32_t)(rewriter->insertion_count - before);
    return result < 0 ? result : set_contents(rewriter, &places[0], entry->parent, &contents);
}

/* --- the text --- */

/* Copy the object up to the position of a replacement. */
struct writing {
    const char *bytes;
    uint64_t copied;                   /* up to here, as the reader counts */
    bool has_element;                  /* an element of the list of strings stays */
    const struct insertion *insertion; /* the next */
    FILE *out;
};

static void copy_until(struct writing *to, uint64_t offset)
{
    if (offset <= to->copied)
        return;
    fwrite(to->bytes + (to->copied - BEFORE_LENGTH), 1, offset - to->copied, to->out);
    to->copied = offset;
}

static void write_number(FILE *out, const char *before, uint64_t number)
{
    fputs(before, out);
    json_print_unsigned(out, number);
}

static const char *const member_keys[MEMBERS] = {
    [MEMBER_NAME] = ",\"name_sid\":",
    [MEMBER_PARENT] = ",\"parent\":",
    [MEMBER_FILE] = ",\"file_sid\":",
    [MEMBER_LINE] = ",\"line\":",
};

static void list_members(const struct node_contents *contents, uint64_t values[MEMBERS])
{
    values[MEMBER_NAME] = contents->name;
    values[MEMBER_PARENT] = contents->parent;
    values[MEMBER_FILE] = contents->file;
    values[MEMBER_LINE] = contents->line;
}

static void write_inserted(FILE *out, const struct insertion *node)
{
    uint64_t values[MEMBERS];
    list_members(&node->contents, values);
    write_number(out, "{\"id\":", node->id);
    for (int i = 0; i < MEMBERS; i++)
        if (values[i] != MEMORY_INFRA_NONE)
            write_number(out, member_keys[i], values[i]);
    fputs("},", out);
}

/* Return the next number of the node to be replaced, or MEMBERS after the last one. */
static enum member next_member(const struct entry *entry, const uint64_t values[MEMBERS],
                               uint64_t copied)
{
    enum member next = MEMBERS;
    for (enum member i = 0; i < MEMBERS; i++)
        if (values[i] != MEMORY_INFRA_NONE && entry->lengths[i] > 0 &&
            entry->range.begin + entry->offsets[i] >= copied &&
            (next == MEMBERS || entry->offsets[i] < entry->offsets[next]))
            next = i;
    return next;
}

/* Replace the node's numbers. Write members that it lacks after its name. */
static int write_node(struct maps_rewriter *rewriter, struct writing *to, const struct entry *entry)
{
    const struct answer *answer = &rewriter->symbols->answers[entry->answer];
    struct node_contents contents;
    uint64_t values[MEMBERS];
    enum member member;
    int result =
        set_contents(rewriter, &rewriter->symbols->places[answer->place], entry->parent, &contents);
    list_members(&contents, values);
    if (answer->count == 1)
        values[MEMBER_PARENT] = MEMORY_INFRA_NONE; /* it stays */
    copy_until(to, entry->range.begin);
    for (uint32_t i = 0; i < entry->inserted_count; i++)
        write_inserted(to->out, to->insertion++);
    while ((member = next_member(entry, values, to->copied)) != MEMBERS) {
        uint64_t begin = entry->range.begin + entry->offsets[member];
        copy_until(to, begin);
        write_number(to->out, "", values[member]);
        to->copied = begin + entry->lengths[member];
        for (int i = 0; member == MEMBER_NAME && i < MEMBERS; i++)
            if (values[i] != MEMORY_INFRA_NONE && entry->lengths[i] == 0)
                write_number(to->out, member_keys[i], values[i]);
    }
    return result;
}

static uint64_t skip_blanks(const struct writing *to, uint64_t at)
{
    while (strchr(BLANKS, to->bytes[at - BEFORE_LENGTH]) != NULL)
        at++;
    return at;
}

/* Return the last byte before `at` that is not blank. */
static uint64_t byte_before(const struct writing *to, uint64_t at)
{
    while (strchr(BLANKS, to->bytes[at - 1 - BEFORE_LENGTH]) != NULL)
        at--;
    return at - 1;
}

static char byte_at(const struct writing *to, uint64_t at)
{
    return to->bytes[at - BEFORE_LENGTH];
}

/* Drop a string with the comma before it, or after it if no element of the list stays before it. */
static void write_string(struct writing *to, const struct entry *entry)
{
    uint64_t before = byte_before(to, entry->range.begin);
    uint64_t after = skip_blanks(to, entry->range.end);
    if (byte_at(to, before) == '[')
        to->has_element = false;
    else if (byte_at(to, byte_before(to, before)) == 'l') /* null */
        to->has_element = true;
    if (!entry->is_dropped) {
        to->has_element = true;
    } else if (to->has_element) {
        copy_until(to, before);
        to->copied = entry->range.end;
    } else {
        copy_until(to, entry->range.begin);
        to->copied = byte_at(to, after) == ',' ? after + 1 : entry->range.end;
    }
}

/* Write new strings at the end of the object's list of strings, or as a list of their own. */
static void write_new_strings(const struct maps_rewriter *rewriter, struct writing *to)
{
    uint64_t list_end = rewriter->strings.end;
    bool has_list = list_end > 0;
    copy_until(to, (has_list ? list_end : rewriter->end) - 1);
    fputs(has_list ? "" : ",\"strings\":[", to->out);
    char last = has_list ? byte_at(to, byte_before(to, list_end - 1)) : '[';
    bool follows = last == '}' ? to->has_element : last != '[';
    for (size_t i = 0; i < rewriter->needed_count; i++) {
        uint32_t text = rewriter->needed[i];
        fputs(i > 0 || follows ? "," : "", to->out);
        write_number(to->out, "{\"id\":", rewriter->texts[text].id);
        fputc(',', to->out);
        frame_name_write(to->out, "string", rewriter->symbols->texts.items[text]);
        fputc('}', to->out);
    }
    fputs(has_list ? "" : "]", to->out);
}

static int write_object(struct maps_rewriter *rewriter, struct writing *to)
{
    uint64_t strings_at = rewriter->strings.end > 0 ? rewriter->strings.end : rewriter->end;
    bool is_done = rewriter->needed_count == 0;
    int result = 0;
    for (size_t i = 0; i <= rewriter->entry_count && result == 0; i++) {
        const struct entry *entry = i < rewriter->entry_count ? &rewriter->entries[i] : NULL;
        if (!is_done && (entry == NULL || entry->range.begin > strings_at)) {
            write_new_strings(rewriter, to);
            is_done = true;
        }
        if (entry != NULL && entry->is_node)
            result = write_node(rewriter, to, entry);
        else if (entry != NULL)
            write_string(to, entry);
    }
    copy_until(to, rewriter->end);
    return result;
}

/* --- all objects in order --- */

/* Apply the strings of this event, and mark the frames that it uses. */
static int enter_event(struct maps_rewriter *rewriter, uint32_t event)
{
    struct memory_infra_symbols *symbols = rewriter->symbols;
    const struct dump_event *entered = &symbols->events[event];
    int result = 0;
    rewriter->event = event;
    rewriter->process = entered->process;
    for (; rewriter->next_frame < symbols->frame_count &&
           symbols->frames[rewriter->next_frame].event <= event && result == 0;
         rewriter->next_frame++) {
        const struct pc_frame *frame = &symbols->frames[rewriter->next_frame];
        result = id_map_set(&symbols->processes[frame->process].strings, frame->id,
                            frame->is_name ? ID_MAP_NONE : (uint32_t)rewriter->next_frame);
    }
    for (uint32_t i = entered->first_use; i < entered->first_use + entered->use_count; i++) {
        struct pc_frame *frame = &symbols->frames[symbols->uses[i].frame];
        frame->stamp = event + 1;
        frame->use = i;
    }
    return result;
}

int maps_rewrite(struct maps_rewriter *rewriter, const char *bytes, size_t length, uint32_t event,
                 FILE *out)
{
    struct writing to = {.bytes = bytes, .copied = BEFORE_LENGTH, .out = out};
    rewriter->object++;
    rewriter->entry_count = rewriter->needed_count = rewriter->insertion_count = 0;
    id_map_free(&rewriter->existing);
    int result = enter_event(rewriter, event);
    if (result == 0)
        result = parse(rewriter, bytes, length);
    for (size_t i = 0; i < rewriter->entry_count && result == 0; i++)
        if (rewriter->entries[i].is_node)
            result = name_node(rewriter, &rewriter->entries[i]);
    to.insertion = rewriter->insertions;
    return result < 0 ? result : write_object(rewriter, &to);
}

struct maps_rewriter *maps_rewriter_new(struct memory_infra_symbols *symbols)
{
    struct maps_rewriter *rewriter = calloc(1, sizeof(*rewriter));
    if (rewriter == NULL)
        return NULL;
    rewriter->symbols = symbols;
    rewriter->texts = calloc(symbols->texts.count + 1, sizeof(*rewriter->texts));
    if (rewriter->texts == NULL) {
        free(rewriter);
        return NULL;
    }
    for (size_t i = 0; i < symbols->process_count; i++)
        id_map_free(&symbols->processes[i].strings); /* defined anew, from the first event on */
    return rewriter;
}

void maps_rewriter_free(struct maps_rewriter *rewriter)
{
    if (rewriter == NULL)
        return;
    free(rewriter->entries);
    free(rewriter->texts);
    id_map_free(&rewriter->existing);
    free(rewriter->needed);
    intern_free(&rewriter->node_ids);
    free(rewriter->nodes);
    free(rewriter->insertions);
    free(rewriter);
}
