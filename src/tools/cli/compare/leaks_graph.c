/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the page and the nested JSON objects of the leaks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/interpreter_frames.h"
#include "tools/cli/compare/leaks.h"
#include "tools/cli/view/saved_page.h"
#include "trace/intern.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define OBJECTS_SUFFIX "-objects.json"

/* --- the page --- */

/* Return the largest of the dumps that were added up. */
static struct export_dump largest_of(const struct export_dump *dumps, size_t count)
{
    struct export_dump best = {0};
    for (size_t i = 0; i < count; i++) {
        struct rollup_size size = rollup_size_of(dumps[i].dump), most;
        if (best.dump != NULL)
            most = rollup_size_of(best.dump);
        if (best.dump == NULL || rollup_size_compare(&size, &most) < 0)
            best = dumps[i];
    }
    return best;
}

/* Open the page on the heap that has grown most. */
static struct view_opening find_opening(const struct leaks *leaks)
{
    const struct leaks_heap *most = NULL;
    for (size_t i = 0; i < leaks->heap_count; i++) {
        const struct leaks_heap *heap = &leaks->heaps[i];
        if (heap->pair->after_count > 0 &&
            (most == NULL || heap->rows.grown.size_sum > most->rows.grown.size_sum))
            most = heap;
    }
    if (most == NULL)
        return (struct view_opening){.tab = "flame"};
    return (struct view_opening){
        .tab = "flame",
        .at = largest_of(most->pair->after, most->pair->after_count),
        .base = leaks->before == NULL ? (struct export_dump){0}
                                      : largest_of(most->pair->before, most->pair->before_count),
        .view = EXPORT_SPACE,
    };
}

/* Return the dumps that were compared; malloc'd. */
static struct export_dump *list_dumps(const struct leaks *leaks, size_t *count)
{
    const struct compare_source *before = leaks->before, *after = leaks->after;
    *count = after->dump_count + (before == NULL ? 0 : before->dump_count);
    struct export_dump *dumps = xcalloc(*count + 1, sizeof(*dumps));
    for (size_t i = 0; i < *count; i++)
        dumps[i] = i < after->dump_count ? after->dumps[i] : before->dumps[i - after->dump_count];
    return dumps;
}

static int write_page(const struct leaks *leaks, FILE *out, struct error *error)
{
    const struct compare_source *before = leaks->before, *after = leaks->after;
    bool is_one_file = before == NULL || before->profile == after->profile;
    const struct saved_page_profile both[] = {
        {is_one_file ? after->path : before->path, is_one_file ? after->profile : before->profile},
        {after->path, after->profile},
    };
    char title[512];
    if (before != NULL)
        snprintf(title, sizeof(title), "Growth from %.200s to %.200s", before->argument,
                 after->argument);
    else
        snprintf(title, sizeof(title), "Live in %.400s", after->argument);
    size_t count;
    struct export_dump *dumps = list_dumps(leaks, &count);
    const struct view_save_options options = {
        .choice = {dumps, count, .with_earlier = false},
        .opening = find_opening(leaks),
        .title = title,
    };
    int code = saved_page_write(both, is_one_file ? 1 : 2, &options, out, error);
    free(dumps);
    return code;
}

/* --- the nested objects --- */

/* A node of the tree of all entries' stacks, with the outermost frame at the root. */
struct node {
    const char *name; /* of the function; unused in the root */
    double size, count;
    size_t first, last, next; /* children, and the next sibling; 0: none */
};

struct tree {
    struct node *items; /* the first is the root */
    size_t count, capacity;
    struct intern_table names, ids;
    char **texts;
    size_t text_capacity;
    uint32_t *stack;
};

static const char *leaks_graph_name_of(struct tree *tree, const struct profile *profile,
                                       const struct profile_frame *frame, uint64_t *number)
{
    char buffer[PROFILE_LABEL_BYTES];
    bool added;
    const char *label = interpreter_frames_label(profile, frame, buffer);
    *number = xmalloc_id(intern_bytes(&tree->names, label, strlen(label), &added));
    if (added) {
        XARRAY_RESERVE(&tree->texts, &tree->text_capacity, *number - 1, 1);
        tree->texts[*number - 1] = xstrdup(label);
    }
    return tree->texts[*number - 1];
}

/* Return the node of a frame below another, creating it if needed. */
static size_t node_below(struct tree *tree, size_t parent, const struct profile *profile,
                         const struct profile_frame *frame)
{
    uint64_t number;
    bool added;
    const char *name = leaks_graph_name_of(tree, profile, frame, &number);
    uint64_t key[] = {parent, number};
    uint64_t id = xmalloc_id(intern_bytes(&tree->ids, key, sizeof(key), &added));
    if (added) {
        XARRAY_RESERVE(&tree->items, &tree->capacity, id, 1);
        struct node *above = &tree->items[parent];
        tree->items[id] = (struct node){.name = name};
        if (above->first == 0)
            above->first = id;
        else
            tree->items[above->last].next = id;
        above->last = id;
        tree->count = id + 1;
    }
    return (size_t)id;
}

static void add_entry(struct tree *tree, const struct growth_entry *entry)
{
    const struct profile *profile = entry->row->profile;
    size_t depth = export_take_stack(profile, entry->row->callsite, tree->stack), at = 0;
    for (;;) {
        tree->items[at].size += entry->size;
        tree->items[at].count += entry->count;
        if (depth == 0)
            return;
        at = node_below(tree, at, profile, &profile->frames[tree->stack[--depth]]);
    }
}

static void begin_node(struct json_writer *json, const struct node *node)
{
    json_object(json, NULL);
    json_string(json, "name", node->name);
    json_number(json, "size", node->size);
    json_number(json, "count", node->count);
    if (node->first != 0)
        json_array(json, "children");
}

/* Write the tree without recursion: its stacks may be deeper than our own stack allows. */
static void write_tree(const struct tree *tree, FILE *out)
{
    size_t *way = xcalloc(tree->count + 1, sizeof(*way)), depth = 0, at = 0;
    struct json_writer json = json_begin(out);
    for (;;) {
        begin_node(&json, &tree->items[at]);
        if (tree->items[at].first != 0) {
            way[depth++] = at;
            at = tree->items[at].first;
            continue;
        }
        json_end_object(&json);
        while (depth > 0 && tree->items[at].next == 0) {
            at = way[--depth];
            json_end_array(&json);
            json_end_object(&json);
        }
        if (tree->items[at].next == 0)
            break;
        json_line(&json);
        at = tree->items[at].next;
    }
    fputc('\n', out);
    free(way);
}

static size_t deepest_of(const struct leaks *leaks)
{
    size_t after = export_deepest_stack(leaks->after->profile);
    size_t before = leaks->before == NULL ? 0 : export_deepest_stack(leaks->before->profile);
    return after > before ? after : before;
}

static void write_objects(const struct leaks *leaks, const struct leaks_heap *heap, FILE *out)
{
    static const struct node root = {.name = "root"};
    struct tree tree = {.stack = xcalloc(deepest_of(leaks), sizeof(*tree.stack))};
    XARRAY_ADD(&tree.items, &tree.count, &tree.capacity, root);
    for (size_t i = 0; i < heap->rows.grown.count; i++)
        add_entry(&tree, &heap->rows.grown.entries[i]);
    write_tree(&tree, out);
    for (uint64_t i = 0; i < tree.names.count && i < tree.text_capacity; i++)
        free(tree.texts[i]);
    intern_free(&tree.names);
    intern_free(&tree.ids);
    free(tree.texts);
    free(tree.items);
    free(tree.stack);
}

/* --- the files --- */

static FILE *open_in(const struct leaks_directory *output, const char *name,
                     struct output_file *file, struct error *error)
{
    if (output_file_open_in(file, output->fd, output->path, name, 0, error) < 0)
        return NULL;
    return xmalloc_made(output_file_stream(file));
}

static void write_index_entry(const struct leaks_heap *heap, const char *objects,
                              struct json_writer *index)
{
    json_line(index);
    json_object(index, NULL);
    json_signed(index, "pid", heap->process->pid);
    json_string(index, "heap", heap->name);
    json_string(index, "name", heap->process->name);
    json_string(index, "labels", heap->process->command);
    json_string(index, "objects", objects);
    json_unsigned(index, "potential leaks", heap->rows.grown.count);
    json_number(index, "objects leaked", heap->rows.grown.count_sum);
    json_end_object(index);
}

static int write_heaps(const struct leaks *leaks, const struct leaks_directory *output,
                       struct json_writer *index, struct error *error)
{
    struct output_file file;
    int code = 0;
    for (size_t i = 0; i < leaks->heap_count && code == 0; i++) {
        const struct leaks_heap *heap = &leaks->heaps[i];
        if (heap->rows.grown.count == 0)
            continue;
        FILE *out = leaks_create(output, heap, OBJECTS_SUFFIX, &file, error);
        if (out == NULL)
            return error->code;
        write_objects(leaks, heap, out);
        code = output_file_close(&file, 0, error);
        write_index_entry(heap, file.name, index);
    }
    return code;
}

static int write_index(const struct leaks *leaks, const struct leaks_directory *output,
                       struct error *error)
{
    struct output_file file;
    FILE *out = open_in(output, "index.json", &file, error);
    if (out == NULL)
        return error->code;
    struct json_writer json = json_begin(out);
    json_array(&json, NULL);
    int code = write_heaps(leaks, output, &json, error);
    json_line(&json);
    json_end_array(&json);
    fputc('\n', out);
    return output_file_close(&file, code, error);
}

static int write_index_page(const struct leaks *leaks, const struct leaks_directory *output,
                            struct error *error)
{
    struct output_file file;
    FILE *out = open_in(output, "index.html", &file, error);
    if (out == NULL)
        return error->code;
    int code = write_page(leaks, out, error);
    return output_file_close(&file, code, error);
}

int leaks_write_graph(const struct leaks *leaks, const char *parent, size_t *removed,
                      struct error *error)
{
    struct leaks_directory output;
    char directory[PATH_MAX];
    if (snprintf(directory, sizeof(directory), "%s/graph", parent) >= (int)sizeof(directory))
        return error_set(error, -ENAMETOOLONG, "%.200s: its name is too long", parent);
    int code = leaks_open_directory(&output, directory, error);
    if (code < 0)
        return code;
    code = leaks_remove_old(&output, OBJECTS_SUFFIX, removed, error);
    if (code == 0)
        code = write_index(leaks, &output, error);
    if (code == 0)
        code = write_index_page(leaks, &output, error);
    close(output.fd);
    return code;
}
