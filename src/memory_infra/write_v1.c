/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See write.h: heaps as Chrome wrote them until 2017, totals of each frame, by type and of all
 * types, with the frames of all of a process's dumps in one event.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "memory_infra/write_private.h"
#include "util/json.h"

struct total {
    uint64_t bytes, count;
};

/* From sites of one type, or of all, to the totals of the nodes that they are in or below. */
struct totals {
    struct total *of_node;
    uint32_t *nodes; /* those that have any; not in order */
    size_t count;
};

static void add_total(struct document *document, struct totals *totals, const struct site *site)
{
    struct site_node *nodes = document->sites.nodes;
    uint32_t at = site->node;
    totals->of_node[at].bytes += site->whole_bytes;
    totals->of_node[at].count += site->whole_count;
    for (; at != SITES_NONE && !nodes[at].has_kept; at = nodes[at].parent) {
        nodes[at].has_kept = true;
        totals->nodes[totals->count++] = at;
    }
}

static int compare_indexes(const void *left_pointer, const void *right_pointer)
{
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    return left < right ? -1 : left > right;
}

static void write_v1_entry(FILE *out, uint32_t node, const char *type, const struct total *total)
{
    if (node == SITES_NONE)
        fputs("{\"bt\":\"\"", out);
    else
        fprintf(out, ",\n{\"bt\":\"%" PRIu32 "\"", node + 1);
    if (type != NULL)
        fprintf(out, ",\"type\":\"%s\"", type);
    fprintf(out, ",\"size\":\"%" PRIx64 "\",\"count\":\"%" PRIx64 "\"}", total->bytes,
            total->count);
}

/* Writes them, from the outermost on, and empties the totals. */
static void write_totals_of(struct document *document, struct totals *totals, const char *type)
{
    struct site_node *nodes = document->sites.nodes;
    struct total whole = {0};
    if (totals->count > 1)
        qsort(totals->nodes, totals->count, sizeof(*totals->nodes), compare_indexes);
    /* A parent stands before its children. */
    for (size_t i = totals->count; i-- > 0;) {
        uint32_t node = totals->nodes[i];
        struct total *above =
            nodes[node].parent == SITES_NONE ? &whole : &totals->of_node[nodes[node].parent];
        above->bytes += totals->of_node[node].bytes;
        above->count += totals->of_node[node].count;
    }
    if (type != NULL)
        fputs(",\n", document->out);
    write_v1_entry(document->out, SITES_NONE, type, &whole);
    for (size_t i = 0; i < totals->count; i++) {
        uint32_t node = totals->nodes[i];
        write_v1_entry(document->out, node, type, &totals->of_node[node]);
        totals->of_node[node] = (struct total){0};
        nodes[node].has_kept = false;
    }
    totals->count = 0;
}

static int compare_types(const void *left_pointer, const void *right_pointer)
{
    const struct site *left = left_pointer, *right = right_pointer;
    return left->type < right->type ? -1 : left->type > right->type;
}

static void write_v1_heap(struct document *document, const struct written_heap *heap,
                          struct totals *totals)
{
    struct site *sites = heap->count > 0 ? document->sites.items + heap->first : NULL;
    json_print_ascii_string(document->out, heap->name->key);
    fputs(":{\"entries\":[\n", document->out);
    for (size_t i = 0; i < heap->count; i++)
        add_total(document, totals, &sites[i]);
    write_totals_of(document, totals, NULL);
    if (heap->count > 1)
        qsort(sites, heap->count, sizeof(*sites), compare_types);
    for (size_t i = 0; i < heap->count;) {
        char type[16];
        uint32_t index = sites[i].type;
        snprintf(type, sizeof(type), "%" PRIu32, index);
        for (; i < heap->count && sites[i].type == index; i++)
            add_total(document, totals, &sites[i]);
        write_totals_of(document, totals, type);
    }
    fputs("]}", document->out);
}

int write_v1(struct document *document, const struct written_event *event)
{
    struct sites *sites = &document->sites;
    struct totals totals = {
        .of_node = calloc(sites->node_count + 1, sizeof(*totals.of_node)),
        .nodes = malloc((sites->node_count + 1) * sizeof(*totals.nodes)),
    };
    bool enough = totals.of_node != NULL && totals.nodes != NULL;
    for (size_t i = 0; i < sites->node_count; i++)
        sites->nodes[i].has_kept = false;
    if (enough)
        fputs("\"heaps\":{", document->out);
    for (size_t i = event->first; enough && i < event->first + event->count; i++) {
        fputs(i == event->first ? "\n" : ",\n", document->out);
        write_v1_heap(document, &document->heaps[i], &totals);
    }
    if (enough)
        fputc('}', document->out);
    free(totals.of_node);
    free(totals.nodes);
    return enough ? 0 : -ENOMEM;
}

void write_stack_frames(struct document *document)
{
    const struct sites *sites = &document->sites;
    const char *separator = "\n";
    for (size_t i = 0; i < sites->node_count; i++) {
        const struct site_node *node = &sites->nodes[i];
        if (!node->kept)
            continue;
        fprintf(document->out, "%s\"%zu\":{", separator, i + 1);
        write_frame_name(document, "name", node->frame.name);
        if (node->parent != SITES_NONE)
            fprintf(document->out, ",\"parent\":\"%" PRIu32 "\"", node->parent + 1);
        if (node->frame.file != 0) {
            fputs(",\"file\":", document->out);
            write_text(document, node->frame.file);
            fprintf(document->out, ",\"line\":%" PRIu32, node->frame.line);
        }
        fputc('}', document->out);
        separator = ",\n";
    }
}

void write_type_names(struct document *document)
{
    const struct sites *sites = &document->sites;
    for (size_t i = 0; i < sites->type_count; i++) {
        if (i > 0 && !sites->type_kept[i])
            continue;
        fprintf(document->out, "%s\"%zu\":", i == 0 ? "" : ",", i);
        write_text(document, sites->types[i]);
    }
}
