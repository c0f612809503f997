/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second pass of symbolize.h: copy the file, and write each `maps` object anew, with the names
 * of its frames. Only one of the objects is in memory at a time; the reader of read.h parses it
 * again. Strings that stay keep their bytes, and with them any escapes (frame_name.h). Each object
 * gets all strings and nodes that its own nodes refer to, even if an earlier one has them: readers
 * may read it alone, and the same definition twice is harmless.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/frame_name.h"
#include "profile/memory_infra/symbolize_private.h"
#include "trace/read/trace_source.h"
#include "util/array.h"
#include "util/json.h"
#include "util/packed_file.h"

/* The reader parses whole files: the text around a `maps` object that makes it one. */
#define BEFORE_MAPS "[{\"args\":{\"dumps\":{\"heaps_v2\":{\"version\":1,\"maps\":"
#define AFTER_MAPS "}}}}]"
#define BEFORE_LENGTH (sizeof(BEFORE_MAPS) - 1)

/* A node without its id. MEMORY_INFRA_NONE: it lacks the member. */
struct node_contents {
    uint64_t process, parent, name, file, line;
};

struct maps_rewriter {
    struct memory_infra_symbols *symbols;
    uint32_t object;  /* counts the objects, from 1 */
    uint32_t process; /* of the event */
    uint32_t event;
    bool has_entered;
    size_t next_frame; /* the first one that a later event defines */
    /* The object, in the reader's byte counts. */
    uint64_t end;
    bool is_whole;                      /* it was a single object, up to its end */
    struct memory_infra_range *strings; /* those that stay */
    size_t string_count, string_capacity;
    struct memory_infra_node *nodes;
    size_t node_count, node_capacity;
    struct node_type {
        uint64_t id, name;
    } * types;
    size_t type_count, type_capacity;
    struct string_state {
        uint64_t id;                     /* of the new string in the file */
        uint64_t existing_id;            /* of an equal one in the object */
        uint32_t needed_by, existing_in; /* objects */
    } * texts;                           /* by text */
    struct id_map existing;              /* string id: its text, of the object's strings */
    uint32_t *needed;                    /* texts that the object gets as strings */
    size_t needed_count, needed_capacity;
    struct intern_table insertion_ids; /* inserted nodes by contents */
    struct insertion {
        uint64_t id;
        uint32_t object; /* the last that has it */
    } * insertions;
    size_t insertion_count, insertion_capacity;
    FILE *out;
    const char *separator; /* before the list's next element */
};

/* --- the object's contents --- */

static const struct pc_frame *find_frame(const struct maps_rewriter *rewriter, uint64_t string)
{
    const struct memory_infra_symbols *symbols = rewriter->symbols;
    uint32_t index = id_map_find(&symbols->processes[rewriter->process].strings, string);
    return index == ID_MAP_NONE ? NULL : &symbols->frames[index];
}

/* Drop the addresses that no node needs any more. Remember the other strings, which new names can
 * share. If an id is defined twice, the last text holds. */
static int take_string(void *context, uint64_t id, struct memory_infra_text text,
                       struct memory_infra_range range)
{
    struct maps_rewriter *rewriter = context;
    const struct pc_frame *frame = find_frame(rewriter, id);
    uint32_t before = id_map_find(&rewriter->existing, id);
    if (before != ID_MAP_NONE && rewriter->texts[before].existing_id == id)
        rewriter->texts[before].existing_in = 0;
    if (frame != NULL && frame->is_used && !frame->is_kept)
        return 0;
    uint64_t index = intern_find(&rewriter->symbols->texts.ids, text.at, text.length);
    /* The name of a file or type may lack the escapes that a frame's name needs. */
    if (index != 0 && frame_name_is_plain(rewriter->symbols->texts.items[index - 1])) {
        rewriter->texts[index - 1].existing_id = id;
        rewriter->texts[index - 1].existing_in = rewriter->object;
        if (id_map_set(&rewriter->existing, id, (uint32_t)index - 1) < 0)
            return -ENOMEM;
    }
    return ARRAY_ADD(&rewriter->strings, &rewriter->string_count, &rewriter->string_capacity,
                     range);
}

static int take_node(void *context, const struct memory_infra_node *node)
{
    struct maps_rewriter *rewriter = context;
    return ARRAY_ADD(&rewriter->nodes, &rewriter->node_count, &rewriter->node_capacity, *node);
}

static int take_type(void *context, uint64_t id, uint64_t name)
{
    struct maps_rewriter *rewriter = context;
    const struct node_type type = {id, name};
    return ARRAY_ADD(&rewriter->types, &rewriter->type_count, &rewriter->type_capacity, type);
}

static int take_maps(void *context, struct memory_infra_range range)
{
    struct maps_rewriter *rewriter = context;
    rewriter->is_whole = range.begin == BEFORE_LENGTH && range.end == rewriter->end;
    return rewriter->is_whole ? 0 : -EBADMSG;
}

static int parse(struct maps_rewriter *rewriter, const char *bytes, size_t length)
{
    static const struct memory_infra_visitor visitor = {
        .string = take_string, .node = take_node, .type = take_type, .maps = take_maps};
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

/* --- names --- */

/* Return the names of a node in this event. NULL: none. */
static const struct answer *find_answer(const struct maps_rewriter *rewriter, uint64_t string)
{
    const struct memory_infra_symbols *symbols = rewriter->symbols;
    const struct pc_frame *frame = find_frame(rewriter, string);
    if (frame == NULL || frame->stamp != rewriter->event + 1)
        return NULL;
    uint32_t answer = symbols->uses[frame->use].answer;
    return answer == NONE ? NULL : &symbols->answers[answer];
}

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
    if (ARRAY_ADD(&rewriter->needed, &rewriter->needed_count, &rewriter->needed_capacity, text) < 0)
        return MEMORY_INFRA_NONE;
    string->needed_by = rewriter->object;
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

/* --- the new text --- */

static void begin_list(struct maps_rewriter *rewriter, const char *before)
{
    fputs(before, rewriter->out);
    rewriter->separator = "\n";
}

static void write_number(struct maps_rewriter *rewriter, const char *before, uint64_t number)
{
    fputs(before, rewriter->out);
    json_print_unsigned(rewriter->out, number);
}

static void begin_element(struct maps_rewriter *rewriter, uint64_t id)
{
    fputs(rewriter->separator, rewriter->out);
    write_number(rewriter, "{\"id\":", id);
    rewriter->separator = ",\n";
}

/* Append a member unless it is missing. Return the end of the text. */
static char *put_member(char *at, const char *key, uint64_t number)
{
    char digits[20], *first = digits + sizeof(digits);
    if (number == MEMORY_INFRA_NONE)
        return at;
    do
        *--first = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    at = stpcpy(at, key);
    return mempcpy(at, first, (size_t)(digits + sizeof(digits) - first));
}

/* Nodes are nearly all of the text: write each at once. */
static void write_contents(struct maps_rewriter *rewriter, uint64_t id,
                           const struct node_contents *contents)
{
    char text[200], *at = stpcpy(text, rewriter->separator);
    at = put_member(at, "{\"id\":", id);
    at = put_member(at, ",\"name_sid\":", contents->name);
    at = put_member(at, ",\"parent\":", contents->parent);
    at = put_member(at, ",\"file_sid\":", contents->file);
    at = put_member(at, ",\"line\":", contents->line);
    *at++ = '}';
    fwrite(text, 1, (size_t)(at - text), rewriter->out);
    rewriter->separator = ",\n";
}

/* Set *id to the id of the inserted node with these contents. Write it unless this object has
 * it. */
static int insert_node(struct maps_rewriter *rewriter, const struct node_contents *contents,
                       uint64_t *id)
{
    bool added;
    uint64_t index = intern_bytes(&rewriter->insertion_ids, contents, sizeof(*contents), &added);
    if (index == 0 || ARRAY_RESERVE(&rewriter->insertions, &rewriter->insertion_capacity,
                                    rewriter->insertion_count, 1) < 0)
        return -ENOMEM;
    if (added)
        rewriter->insertions[rewriter->insertion_count++] =
            (struct insertion){rewriter->symbols->next_id++, 0};
    struct insertion *node = &rewriter->insertions[index - 1];
    *id = node->id;
    if (node->object != rewriter->object)
        write_contents(rewriter, node->id, contents);
    node->object = rewriter->object;
    return 0;
}

/* A node with a name becomes the innermost function, below inserted nodes. */
static int write_node(struct maps_rewriter *rewriter, const struct memory_infra_node *node)
{
    const struct answer *answer = find_answer(rewriter, node->name_sid);
    struct node_contents contents = {
        .parent = node->parent,
        .name = node->name_sid,
        .file = node->file_sid,
        .line = node->line == 0 ? MEMORY_INFRA_NONE : node->line,
    };
    uint64_t parent = node->parent;
    int result = 0;
    for (uint32_t i = answer == NULL ? 0 : answer->count; i > 0 && result == 0; i--) {
        const struct source_place *place = &rewriter->symbols->places[answer->place + i - 1];
        result = set_contents(rewriter, place, parent, &contents);
        if (result == 0 && i > 1)
            result = insert_node(rewriter, &contents, &parent);
    }
    write_contents(rewriter, node->id, &contents);
    return result;
}

static void write_strings(struct maps_rewriter *rewriter, const char *bytes)
{
    for (size_t i = 0; i < rewriter->string_count; i++) {
        struct memory_infra_range range = rewriter->strings[i];
        fputs(rewriter->separator, rewriter->out);
        fwrite(bytes + (range.begin - BEFORE_LENGTH), 1, range.end - range.begin, rewriter->out);
        rewriter->separator = ",\n";
    }
    for (size_t i = 0; i < rewriter->needed_count; i++) {
        uint32_t text = rewriter->needed[i];
        begin_element(rewriter, rewriter->texts[text].id);
        fputc(',', rewriter->out);
        frame_name_write(rewriter->out, "string", rewriter->symbols->texts.items[text]);
        fputc('}', rewriter->out);
    }
}

/* Strings are last: the nodes decide which ones are needed. */
static int write_object(struct maps_rewriter *rewriter, const char *bytes)
{
    int result = 0;
    begin_list(rewriter, "{\"nodes\":[");
    for (size_t i = 0; i < rewriter->node_count && result == 0; i++)
        result = write_node(rewriter, &rewriter->nodes[i]);
    begin_list(rewriter, "],\n\"types\":[");
    for (size_t i = 0; i < rewriter->type_count; i++) {
        begin_element(rewriter, rewriter->types[i].id);
        write_number(rewriter, ",\"name_sid\":", rewriter->types[i].name);
        fputc('}', rewriter->out);
    }
    begin_list(rewriter, "],\n\"strings\":[");
    write_strings(rewriter, bytes);
    fputs("]}", rewriter->out);
    return result;
}

/* --- all objects in order --- */

/* Apply the strings of this event, and mark the frames that it uses. */
static int enter_event(struct maps_rewriter *rewriter, uint32_t event)
{
    struct memory_infra_symbols *symbols = rewriter->symbols;
    const struct dump_event *entered = &symbols->events[event];
    int result = 0;
    if (rewriter->has_entered && rewriter->event == event) /* its `maps` may be there again */
        return 0;
    rewriter->has_entered = true;
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

/* Write an object with the names of its event's frames. Return 0; -EBADMSG: it differs from the
 * first pass; -ENOMEM. */
static int rewrite(struct maps_rewriter *rewriter, const char *bytes, size_t length, uint32_t event)
{
    rewriter->object++;
    rewriter->string_count = rewriter->node_count = rewriter->type_count = 0;
    rewriter->needed_count = 0;
    id_map_free(&rewriter->existing);
    int result = enter_event(rewriter, event);
    if (result == 0)
        result = parse(rewriter, bytes, length);
    return result < 0 ? result : write_object(rewriter, bytes);
}

static int open_rewriter(struct maps_rewriter *rewriter, struct memory_infra_symbols *symbols)
{
    rewriter->symbols = symbols;
    for (size_t i = 0; i < symbols->process_count; i++)
        id_map_free(&symbols->processes[i].strings); /* defined anew, from the first event on */
    rewriter->texts = calloc(symbols->texts.count + 1, sizeof(*rewriter->texts));
    return rewriter->texts == NULL ? -ENOMEM : 0;
}

static void close_rewriter(struct maps_rewriter *rewriter)
{
    free(rewriter->strings);
    free(rewriter->nodes);
    free(rewriter->types);
    free(rewriter->texts);
    id_map_free(&rewriter->existing);
    free(rewriter->needed);
    intern_free(&rewriter->insertion_ids);
    free(rewriter->insertions);
}

/* --- the file --- */

struct copying {
    struct maps_rewriter rewriter;
    struct packed_file out;
    size_t next;       /* of the file's `maps` */
    uint64_t position; /* in the file */
    char *object;      /* the bytes so far of the `maps` that has begun */
    size_t length, capacity;
};

static int write_maps(struct copying *at, uint32_t event)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return -ENOMEM;
    at->rewriter.out = out;
    int result = rewrite(&at->rewriter, at->object, at->length, event);
    bool has_failed = ferror(out) != 0;
    has_failed |= fclose(out) != 0;
    if (has_failed && result == 0)
        result = -ENOMEM;
    if (result == 0)
        packed_file_write(&at->out, text, length);
    free(text);
    at->length = 0;
    return result;
}

/* Take the next bytes up to the beginning or end of a `maps` object. Return their number, or a
 * negative errno. */
static ssize_t take_bytes(struct copying *at, const char *bytes, size_t length)
{
    const struct memory_infra_symbols *symbols = at->rewriter.symbols;
    const struct maps_place *maps =
        at->next < symbols->maps_count ? &symbols->maps[at->next] : NULL;
    if (maps == NULL || at->position < maps->range.begin) {
        uint64_t before = maps == NULL ? length : maps->range.begin - at->position;
        length = before < length ? (size_t)before : length;
        packed_file_write(&at->out, bytes, length);
        return (ssize_t)length;
    }
    uint64_t rest = maps->range.end - at->position;
    length = rest < length ? (size_t)rest : length;
    if (ARRAY_RESERVE(&at->object, &at->capacity, at->length, length) < 0)
        return -ENOMEM;
    memcpy(at->object + at->length, bytes, length);
    at->length += length;
    if (length < rest)
        return (ssize_t)length;
    at->next++;
    int result = write_maps(at, maps->event);
    return result < 0 ? result : (ssize_t)length;
}

static int copy_all(struct copying *at, struct trace_source *source, const char *path,
                    struct error *error)
{
    static char buffer[256 * 1024];
    ssize_t got = 0, taken = 0;
    while (at->out.code == 0 && taken >= 0 &&
           (got = trace_source_read(source, buffer, sizeof(buffer), error)) > 0) {
        for (ssize_t done = 0; done < got && taken >= 0; done += taken) {
            taken = take_bytes(at, buffer + done, (size_t)(got - done));
            at->position += taken > 0 ? (uint64_t)taken : 0;
        }
    }
    if (taken == -ENOMEM)
        return error_set(error, -ENOMEM, "%s: no memory to write its frames", path);
    if (got < 0)
        return (int)got;
    if (at->out.code == 0 && (taken < 0 || at->position != at->rewriter.symbols->bytes))
        return error_set(error, -EBADMSG, "%s: was changed while it was read", path);
    return 0;
}

int memory_infra_symbols_write(struct memory_infra_symbols *symbols, const char *path, int fd,
                               bool gzip, struct error *error)
{
    struct trace_source *source = trace_source_open(path, error);
    if (source == NULL)
        return error->code;
    /* Without names, the maps stay as they are. */
    struct copying at = {.next = symbols->answer_count == 0 ? symbols->maps_count : 0};
    packed_file_open(&at.out, fd, gzip, 0);
    int result = open_rewriter(&at.rewriter, symbols) < 0
                     ? error_set(error, -ENOMEM, "%s: no memory to write its frames", path)
                     : copy_all(&at, source, path, error);
    int closed = packed_file_close(&at.out);
    if (result == 0 && closed < 0)
        result = error_set(error, closed, "%s: the rewritten file cannot be written: %s", path,
                           strerror(-closed));
    trace_source_close(source);
    close_rewriter(&at.rewriter);
    free(at.object);
    return result;
}
