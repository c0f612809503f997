/* SPDX-License-Identifier: Apache-2.0 */
/* Write the heaps of an event, as allocators and as sites (write.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "profile/memory_infra/frame_name.h"
#include "profile/memory_infra/write_private.h"
#include "util/json.h"

/* --- numbers --- */

void write_hex(FILE *out, const char *before, uint64_t value)
{
    fprintf(out, "%s\"%" PRIx64 "\"", before, value);
}

/* --- allocators --- */

static void write_scalar(FILE *out, const char *name, const char *units, uint64_t value, bool last)
{
    fprintf(out, "\"%s\":{\"type\":\"scalar\",\"units\":\"%s\",\"value\":\"%" PRIx64 "\"}%s", name,
            units, value, last ? "}}" : ",");
}

/* Print the name and the beginning of the attributes. */
static void begin_allocator(struct document *document, const char *name)
{
    json_print_ascii_string(document->out, name);
    write_hex(document->out, ":{\"guid\":", document->next_guid++);
    fputs(",\"attrs\":{", document->out);
}

static void write_allocators(struct document *document, const struct written_event *event)
{
    FILE *out = document->out;
    fputs("\"allocators\":{", out);
    for (size_t i = event->first; i < event->first + event->count; i++) {
        const struct written_heap *heap = &document->heaps[i];
        fputs(i == event->first ? "\n" : ",\n", out);
        begin_allocator(document, heap->name->key);
        write_scalar(out, "size", "bytes", heap->bytes, true);
        fputs(",\n", out);
        begin_allocator(document, heap->name->objects);
        write_scalar(out, "size", "bytes", heap->bytes, false);
        write_scalar(out, "shim_allocated_objects_count", "objects", heap->calls, false);
        write_scalar(out, "shim_allocated_objects_size", "bytes", heap->bytes, true);
    }
    fputs("},\n", out);
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

static void write_entry(FILE *out, const char *head, uint64_t id, const char *name, uint64_t value)
{
    fputs(head, out);
    json_print_unsigned(out, id);
    fputs(name, out);
    json_print_unsigned(out, value);
}

static void write_node(FILE *out, const struct site_node *node, uint64_t id, const struct ids *ids)
{
    write_entry(out, "{\"id\":", id, ",\"name_sid\":", ids->strings[node->frame.name]);
    if (node->parent != SITES_NONE) {
        fputs(",\"parent\":", out);
        json_print_unsigned(out, ids->nodes[node->parent]);
    }
    if (node->frame.file != 0)
        write_entry(out, ",\"file_sid\":", ids->strings[node->frame.file],
                    ",\"line\":", node->frame.line);
    fputc('}', out);
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
        fputs(separator, out);
        write_node(out, &sites->nodes[i], ids->nodes[i], ids);
        separator = ",\n";
    }
    fputs("],\n\"types\":[", out);
    for (size_t i = 0; i < sites->type_count; i++) {
        if (i > 0 && ids->types[i] == 0)
            continue;
        write_entry(out, i == 0 ? "\n{\"id\":" : ",\n{\"id\":", ids->types[i],
                    ",\"name_sid\":", ids->strings[sites->types[i]]);
        fputc('}', out);
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
        fputs("\"heaps_v2\":{\"version\":1,\n", document->out);
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
    return write_heaps_v2(document, event);
}
