/* SPDX-License-Identifier: Apache-2.0 */
/* Name the allocators of heaps, the same in all events of a process, and write the heaps of an
 * event, as allocators and as sites (write.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/frame_name.h"
#include "profile/memory_infra/write_private.h"
#include "util/json.h"
#include "util/utf8.h"

/* --- names --- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Names of allocators are paths: a name with a '/' would be part of another. Invalid UTF-8 would
 * become the same replacement in all names. Chrome calls malloc's heap malloc. */
static char *make_key(const char *name, unsigned number)
{
    char *key;
    if (strcmp(name, HEAP_CONFIG_MALLOC) == 0)
        name = "malloc";
    else if (*name == '\0')
        name = "heap";
    if ((number == 1 ? asprintf(&key, "%s", name) : asprintf(&key, "%s-%u", name, number)) < 0)
        return NULL;
    for (char *at = key; *at != '\0';) {
        size_t length = utf8_length((const unsigned char *)at);
        if (length == 0)
            *at = '?';
        else if (*at == '/')
            *at = ':';
        at += length == 0 ? 1 : length;
    }
    return key;
}

/* Keys in use, and the next number to try for each first one. */
struct taken_keys {
    struct intern_table ids;
    struct id_map next;
};

/* Make a key that no other heap of the process has. */
static int make_unique_key(struct taken_keys *taken, const char *name, int32_t pid, char **key)
{
    bool added = false;
    uint64_t first = 0;
    for (unsigned number = 1; !added; number++) {
        uint32_t next = number == 2 ? id_map_find(&taken->next, first) : ID_MAP_NONE;
        if (next != ID_MAP_NONE)
            number = next;
        char *whole = NULL;
        free(*key);
        *key = make_key(name, number);
        int length = *key == NULL ? -1 : asprintf(&whole, "%" PRId32 " %s", pid, *key);
        uint64_t id = length < 0 ? 0 : intern_bytes(&taken->ids, whole, (size_t)length, &added);
        free(whole);
        if (id == 0)
            return -ENOMEM;
        first = number == 1 ? id : first;
        if (number > 1 && added && id_map_set(&taken->next, first, number + 1) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int make_allocator_frame(const struct profile_heap *heap, char **frame)
{
    int length;
    if (begins(heap->name, HEAP_CONFIG_MALLOC) || strcmp(heap->name, "malloc") == 0)
        length = asprintf(frame, "malloc");
    else if (begins(heap->name, HEAP_CONFIG_MMAP))
        length = asprintf(frame, "mmap");
    else
        length = asprintf(frame, "%s::allocate", heap->name);
    return length < 0 ? -ENOMEM : 0;
}

int written_names_make(struct document *document)
{
    const struct profile *profile = document->profile;
    struct taken_keys taken = {0};
    struct id_map numbers = {0}; /* by pid: number of heaps so far */
    int code = 0;
    document->names = calloc(profile->heap_count + 1, sizeof(*document->names));
    if (document->names == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < document->dump_count; i++) {
        const struct export_dump *chosen = &document->dumps[i];
        struct written_name *name = &document->names[chosen->heap - profile->heaps];
        name->dumps++;
        /* Contexts are not code, and also hold the allocations of inner contexts. */
        name->adds_frame = name->adds_frame || document->options->stack_mode == HEAP_STACK_PSEUDO ||
                           !sites_end_in_allocators(profile, chosen->dump);
    }
    for (size_t i = 0; i < profile->heap_count && code == 0; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        struct written_name *name = &document->names[i];
        int32_t pid = profile->processes[heap->process].pid;
        uint32_t number = id_map_find(&numbers, (uint32_t)pid);
        name->number = number == ID_MAP_NONE ? 0 : number;
        code = id_map_set(&numbers, (uint32_t)pid, (uint32_t)name->number + 1);
        if (code == 0 && name->dumps > 0)
            code = make_unique_key(&taken, heap->name, pid, &name->key);
        if (code == 0 && name->dumps > 0 &&
            asprintf(&name->objects, "%s/allocated_objects", name->key) < 0)
            code = -ENOMEM;
        if (code == 0 && name->adds_frame)
            code = make_allocator_frame(heap, &name->allocator_frame);
    }
    intern_free(&taken.ids);
    id_map_free(&taken.next);
    id_map_free(&numbers);
    return code;
}

void written_names_free(struct document *document)
{
    for (size_t i = 0; document->names != NULL && i < document->profile->heap_count; i++) {
        free(document->names[i].key);
        free(document->names[i].objects);
        free(document->names[i].allocator_frame);
    }
    free(document->names);
}

/* --- numbers --- */

void write_hex(FILE *out, const char *before, uint64_t value)
{
    fprintf(out, "%s\"%" PRIx64 "\"", before, value);
}

/* --- allocators --- */

static void write_scalar(FILE *out, const char *name, const char *units, uint64_t value)
{
    fprintf(out, "\"%s\":{\"type\":\"scalar\",\"units\":\"%s\",\"value\":\"%" PRIx64 "\"}", name,
            units, value);
}

void write_allocator(struct document *document, const char *name, const char *separator,
                     uint64_t bytes)
{
    fputs(separator, document->out);
    json_print_ascii_string(document->out, name);
    write_hex(document->out, ":{\"guid\":", document->next_guid++);
    fputs(",\"attrs\":{", document->out);
    write_scalar(document->out, "size", "bytes", bytes);
}

static void write_allocators(struct document *document, const struct written_event *event)
{
    FILE *out = document->out;
    fputs("\"allocators\":{", out);
    for (size_t i = event->first; i < event->first + event->count; i++) {
        const struct written_heap *heap = &document->heaps[i];
        write_allocator(document, heap->name->key, i == event->first ? "\n" : ",\n", heap->bytes);
        fputs("}}", out);
        write_allocator(document, heap->name->objects, ",\n", heap->bytes);
        fputc(',', out);
        write_scalar(out, "shim_allocated_objects_count", "objects", heap->calls);
        fputc(',', out);
        write_scalar(out, "shim_allocated_objects_size", "bytes", heap->bytes);
        fputs("}}", out);
    }
    write_reported(document, event);
    fputc('}', out);
}

/* --- heaps_v2 --- */

/* The ids in the file of kept strings, nodes and types, by index. */
struct ids {
    uint64_t *strings, *nodes, *types;
};

static int give_ids(struct document *document, struct ids *ids)
{
    const struct sites *sites = &document->sites;
    ids->strings = calloc(sites->string_count + 1, sizeof(*ids->strings));
    ids->nodes = calloc(sites->node_count + 1, sizeof(*ids->nodes));
    ids->types = calloc(sites->type_count + 1, sizeof(*ids->types));
    if (ids->strings == NULL || ids->nodes == NULL || ids->types == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < sites->string_count; i++)
        if (sites->strings[i].kept)
            ids->strings[i] = document->next_id++;
    for (size_t i = 0; i < sites->node_count; i++)
        if (sites->nodes[i].kept)
            ids->nodes[i] = document->next_id++;
    for (size_t i = 1; i < sites->type_count; i++)
        if (sites->type_kept[i])
            ids->types[i] = document->next_id++;
    return 0;
}

static void free_ids(struct ids *ids)
{
    free(ids->strings);
    free(ids->nodes);
    free(ids->types);
}

/* Append a key and a number. Return the end of the text. */
static char *put_number(char *at, const char *key, uint64_t number)
{
    char digits[20], *first = digits + sizeof(digits);
    do
        *--first = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    at = stpcpy(at, key);
    return mempcpy(at, first, (size_t)(digits + sizeof(digits) - first));
}

/* Nodes are nearly all of the text: write each at once. */
static void write_node(FILE *out, const char *separator, const struct site_node *node, uint64_t id,
                       const struct ids *ids)
{
    char text[200], *at = stpcpy(text, separator);
    at = put_number(at, "{\"id\":", id);
    at = put_number(at, ",\"name_sid\":", ids->strings[node->frame.name]);
    if (node->parent != SITES_NONE)
        at = put_number(at, ",\"parent\":", ids->nodes[node->parent]);
    if (node->frame.file != 0) {
        at = put_number(at, ",\"file_sid\":", ids->strings[node->frame.file]);
        at = put_number(at, ",\"line\":", node->frame.line);
    }
    *at++ = '}';
    fwrite(text, 1, (size_t)(at - text), out);
}

static void write_string(struct document *document, uint32_t string)
{
    char buffer[PROFILE_LABEL_BYTES];
    const char *text = sites_text(&document->sites, string, buffer);
    if (document->sites.strings[string].of_frame) {
        frame_name_write(document->out, "string", text);
        return;
    }
    fputs("\"string\":", document->out);
    json_print_ascii_string(document->out, text);
}

static void write_maps(struct document *document, const struct ids *ids)
{
    const struct sites *sites = &document->sites;
    FILE *out = document->out;
    const char *separator = "\n";
    fputs("\"maps\":{\"strings\":[", out);
    for (size_t i = 0; i < sites->string_count; i++) {
        if (ids->strings[i] == 0)
            continue;
        fputs(separator, out);
        fputs("{\"id\":", out);
        json_print_unsigned(out, ids->strings[i]);
        fputc(',', out);
        write_string(document, (uint32_t)i);
        fputc('}', out);
        separator = ",\n";
    }
    fputs("],\n\"nodes\":[", out);
    separator = "\n";
    for (size_t i = 0; i < sites->node_count; i++) {
        if (ids->nodes[i] == 0)
            continue;
        write_node(out, separator, &sites->nodes[i], ids->nodes[i], ids);
        separator = ",\n";
    }
    fputs("],\n\"types\":[", out);
    for (size_t i = 0; i < sites->type_count; i++) {
        if (i > 0 && ids->types[i] == 0)
            continue;
        fprintf(out, "%s{\"id\":%" PRIu64 ",\"name_sid\":%" PRIu64 "}", i == 0 ? "\n" : ",\n",
                ids->types[i], ids->strings[sites->types[i]]);
    }
    fputs("]},\n", out);
}

enum column { COLUMN_NODES, COLUMN_TYPES, COLUMN_COUNTS, COLUMN_SIZES, COLUMNS };

static uint64_t column_value(const struct site *site, const struct ids *ids, enum column column)
{
    switch (column) {
    case COLUMN_NODES:
        return ids->nodes[site->node];
    case COLUMN_TYPES:
        return ids->types[site->type];
    case COLUMN_COUNTS:
        return site->whole_count;
    default:
        return site->whole_bytes;
    }
}

static void write_sites(struct document *document, const struct written_heap *heap,
                        const struct ids *ids)
{
    static const char *const names[COLUMNS] = {"{\"nodes\":[", "],\n\"types\":[",
                                               "],\n\"counts\":[", "],\n\"sizes\":["};
    FILE *out = document->out;
    json_print_ascii_string(out, heap->name->key);
    fputc(':', out);
    for (enum column column = 0; column < COLUMNS; column++) {
        fputs(names[column], out);
        for (size_t i = 0; i < heap->count; i++) {
            if (i > 0)
                fputc(',', out);
            json_print_unsigned(out,
                                column_value(&document->sites.items[heap->first + i], ids, column));
        }
    }
    fputs("]}", out);
}

static int write_heaps_v2(struct document *document, const struct written_event *event)
{
    struct ids ids = {0};
    int code = give_ids(document, &ids);
    if (code == 0) {
        fputs(",\n\"heaps_v2\":{\"version\":1,\n", document->out);
        write_maps(document, &ids);
        fputs("\"allocators\":{", document->out);
        for (size_t i = event->first; i < event->first + event->count; i++) {
            fputs(i == event->first ? "\n" : ",\n", document->out);
            write_sites(document, &document->heaps[i], &ids);
        }
        fputs("}}", document->out);
    }
    free_ids(&ids);
    return code;
}

/* --- an event --- */

static int collect_heap(struct document *document, size_t index)
{
    const struct memory_infra_write_options *options = document->options;
    struct written_heap *heap = &document->heaps[index];
    struct sites *sites = &document->sites;
    int code;
    heap->dump = &document->dumps[index];
    heap->name = &document->names[heap->dump->heap - document->profile->heaps];
    heap->first = sites->count;
    if ((code = sites_add(sites, heap->dump, heap->name->allocator_frame)) < 0)
        return code;
    heap->bytes = heap->calls = 0;
    for (size_t i = heap->first; i < sites->count; i++) {
        heap->bytes += sites->items[i].whole_bytes;
        heap->calls += sites->items[i].whole_count;
    }
    if (options->prune_bytes > 0 || options->prune_count > 0)
        code = sites_prune(sites, heap->first, options->prune_bytes, options->prune_count);
    heap->count = sites->count - heap->first;
    document->sites_written += (int64_t)heap->count;
    return code;
}

int write_heaps(struct document *document, const struct written_event *event)
{
    int code = 0;
    for (size_t i = event->first; i < event->first + event->count && code == 0; i++)
        code = collect_heap(document, i);
    if (code < 0)
        return code;
    sites_keep(&document->sites, 0);
    write_allocators(document, event);
    return event->count == 0 ? 0 : write_heaps_v2(document, event);
}
