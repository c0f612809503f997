/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the data of the page; src/export/flame/ has the page itself. */
#include "export/flame_page.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/view.h"
#include "flame_page_parts.h"
#include "trace/intern.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/json.h"

#define SIDES 2
/* Sums of an estimate; model.js expects this order. */
#define SUMS 5

/* A profile whose stacks are in the page. */
struct side {
    const struct profile *profile;
    uint32_t *frames; /* by frame: its number in the page, from 1; 0: not added yet */
    uint32_t
        *nodes; /* by callsite: node_base + its node in the graph, from 1; smaller: no node yet */
};

struct page_frame {
    uint32_t name, module, file; /* in texts */
};

struct node {
    uint32_t up, frame; /* up: distance to its parent before it; 0: it has none */
    uint32_t site;      /* from 1; 0: it allocates nothing itself */
};

struct site {
    uint32_t node;
    struct flame_figure figures[FLAME_FIGURES_MAX];
};

struct flame_page {
    FILE *out;
    struct side sides[SIDES];
    size_t side_count, graph_count;
    struct intern_table text_ids, frame_ids;
    char **texts;
    size_t text_capacity;
    struct page_frame *frames;
    size_t frame_capacity;
    /* For the graph that is being added. */
    struct intern_table node_ids;
    uint32_t node_base; /* number of nodes of the graphs before it */
    struct node *nodes;
    size_t node_capacity;
    struct site *sites;
    size_t site_capacity, site_count;
    uint32_t *stack;
    size_t stack_capacity;
};

/* --- names --- */

/* Return the number of a text, from 0; UINT32_MAX: no memory. */
static uint32_t text_of(struct flame_page *page, const char *text)
{
    bool added = false;
    uint64_t id = intern_bytes(&page->text_ids, text, strlen(text), &added);
    if (id == 0 || id >= UINT32_MAX)
        return UINT32_MAX;
    if (added) {
        if (ARRAY_RESERVE(&page->texts, &page->text_capacity, id - 1, 1) < 0)
            return UINT32_MAX;
        page->texts[id - 1] = strdup(text);
        if (page->texts[id - 1] == NULL)
            return UINT32_MAX;
    }
    return (uint32_t)(id - 1);
}

static const char *module_of(const struct profile *profile, const struct profile_frame *frame)
{
    const char *path = frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
    return base_name(path);
}

/* Return the number of a frame, from 1; 0: no memory. */
static uint32_t frame_of(struct flame_page *page, struct side *side, uint32_t index)
{
    if (side->frames[index] != 0)
        return side->frames[index];
    char buffer[EXPORT_LABEL_BYTES];
    bool added = false;
    const struct profile_frame *frame = &side->profile->frames[index];
    struct page_frame made = {text_of(page, export_frame_label(side->profile, frame, buffer)),
                              text_of(page, module_of(side->profile, frame)),
                              text_of(page, frame->source_file)};
    uint32_t key[] = {made.name, made.module};
    if (made.name == UINT32_MAX || made.module == UINT32_MAX || made.file == UINT32_MAX)
        return 0;
    uint64_t id = intern_bytes(&page->frame_ids, key, sizeof(key), &added);
    if (id == 0 || id >= UINT32_MAX)
        return 0;
    if (added) {
        if (ARRAY_RESERVE(&page->frames, &page->frame_capacity, id - 1, 1) < 0)
            return 0;
        page->frames[id - 1] = made;
    }
    return side->frames[index] = (uint32_t)id;
}

/* --- the tree --- */

static struct side *side_of(struct flame_page *page, const struct profile *profile)
{
    for (size_t i = 0; i < page->side_count; i++)
        if (page->sides[i].profile == profile)
            return &page->sides[i];
    if (page->side_count == SIDES)
        return NULL;
    struct side *side = &page->sides[page->side_count++];
    side->profile = profile;
    side->frames = calloc(profile->frame_count + 1, sizeof(*side->frames));
    side->nodes = calloc(profile->callsite_count + 1, sizeof(*side->nodes));
    return side->frames != NULL && side->nodes != NULL ? side : NULL;
}

/* Return the node of a frame that is called from `parent` (from 1; 0: no caller). 0: no memory. */
static uint32_t node_below(struct flame_page *page, uint32_t parent, uint32_t frame)
{
    bool added = false;
    uint32_t key[] = {parent, frame};
    uint64_t id = intern_bytes(&page->node_ids, key, sizeof(key), &added);
    if (id == 0 || id >= UINT32_MAX)
        return 0;
    if (added) {
        if (ARRAY_RESERVE(&page->nodes, &page->node_capacity, id - 1, 1) < 0)
            return 0;
        page->nodes[id - 1] = (struct node){parent == 0 ? 0 : (uint32_t)id - parent, frame, 0};
    }
    return (uint32_t)id;
}

/* Return the node of a stack: make nodes below its first caller that has one. 0: no memory. */
static uint32_t node_of(struct flame_page *page, struct side *side, uint32_t callsite)
{
    const struct profile_callsite *callsites = side->profile->callsites;
    size_t depth = 0;
    uint32_t at = callsite, node;
    for (; at != PROFILE_NONE && side->nodes[at] <= page->node_base; at = callsites[at].parent) {
        if (ARRAY_ADD(&page->stack, &depth, &page->stack_capacity, at) < 0)
            return 0;
    }
    node = at == PROFILE_NONE ? 0 : side->nodes[at] - page->node_base;
    while (depth-- > 0) {
        at = page->stack[depth];
        uint32_t frame = frame_of(page, side, callsites[at].frame);
        node = frame == 0 ? 0 : node_below(page, node, frame);
        if (node == 0)
            return 0;
        side->nodes[at] = page->node_base + node;
    }
    return node;
}

static int add_site(struct flame_page *page, const struct flame_graph *graph,
                    const struct flame_site *more)
{
    struct side *side = side_of(page, more->profile);
    uint32_t at = side == NULL ? 0 : node_of(page, side, more->callsite);
    if (at == 0)
        return -ENOMEM;
    struct node *node = &page->nodes[at - 1];
    if (node->site == 0) {
        if (ARRAY_RESERVE(&page->sites, &page->site_capacity, page->site_count, 1) < 0)
            return -ENOMEM;
        page->sites[page->site_count++] = (struct site){.node = at - 1};
        node->site = (uint32_t)page->site_count;
    }
    struct site *site = &page->sites[node->site - 1];
    for (size_t i = 0; i < graph->figure_count; i++) {
        profile_estimate_add(&site->figures[i].gained, &more->figures[i].gained);
        profile_estimate_add(&site->figures[i].lost, &more->figures[i].lost);
    }
    return 0;
}

/* --- as data --- */

static double sum_of(const struct site *site, size_t figure, bool lost, int which)
{
    const struct flame_figure *both = &site->figures[figure];
    const struct profile_estimate *estimate = lost ? &both->lost : &both->gained;
    const double sums[SUMS] = {estimate->bytes, estimate->count, estimate->bytes_variance,
                               estimate->count_variance, estimate->samples};
    return sums[which];
}

/* Write whole numbers as such, and others with more digits than the page shows. */
static void write_number(FILE *out, double value)
{
    if (value == floor(value) && fabs(value) < 0x1p53)
        fprintf(out, "%.0f", value);
    else if (isfinite(value))
        fprintf(out, "%.10g", value);
    else
        fputc('0', out);
}

static void write_sums(const struct flame_page *page, size_t figure, bool lost, int which)
{
    bool any = false;
    for (size_t i = 0; i < page->site_count && !any; i++)
        any = sum_of(&page->sites[i], figure, lost, which) != 0;
    if (!any) {
        fputc('0', page->out);
        return;
    }
    for (size_t i = 0; i < page->site_count; i++) {
        fputc(i == 0 ? '[' : ',', page->out);
        write_number(page->out, sum_of(&page->sites[i], figure, lost, which));
    }
    fputc(']', page->out);
}

static void write_figures(const struct flame_page *page, const struct flame_graph *graph)
{
    fputs(",\n\"figures\":[", page->out);
    for (size_t i = 0; i < graph->figure_count; i++) {
        fputs(i == 0 ? "{\"gained\":[" : ",\n{\"gained\":[", page->out);
        for (int which = 0; which < SUMS; which++) {
            fputs(which > 0 ? "," : "", page->out);
            write_sums(page, i, false, which);
        }
        fputs(graph->difference ? "],\"lost\":[" : "],\"lost\":null}", page->out);
        for (int which = 0; which < SUMS && graph->difference; which++) {
            fputs(which > 0 ? "," : "", page->out);
            write_sums(page, i, true, which);
        }
        fputs(graph->difference ? "]}" : "", page->out);
    }
    fputc(']', page->out);
}

static void write_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\":", key);
    json_print_string_in_html(out, text);
    fputc(',', out);
}

static void write_head(FILE *out, const struct flame_graph *graph)
{
    fputc('{', out);
    write_text(out, "process", graph->process);
    write_text(out, "labels", graph->labels);
    write_text(out, "heap", graph->heap);
    fprintf(out,
            "\"pid\":%" PRId32
            ",\"difference\":%s,\"exact\":%s,\"partial\":%s,\"intervals\":[%" PRIu64 ",%" PRIu64
            "],\"views\":[",
            graph->pid, graph->difference ? "true" : "false", graph->exact ? "true" : "false",
            graph->partial ? "true" : "false", graph->gained_interval_bytes,
            graph->lost_interval_bytes);
    for (size_t i = 0; i < graph->view_count; i++) {
        const struct flame_view *view = &graph->views[i];
        fputs(i > 0 ? ",{" : "{", out);
        write_text(out, "name", view->name);
        write_text(out, "title", view->title);
        fprintf(out, "\"bytes\":%s,\"figure\":%u}", view->counts_bytes ? "true" : "false",
                view->figure);
    }
    fputc(']', out);
}

static void write_graph(const struct flame_page *page, const struct flame_graph *graph)
{
    FILE *out = page->out;
    fputs(page->graph_count > 0 ? ",\n" : "\n", out);
    write_head(out, graph);
    fputs(",\n\"up\":[", out);
    for (uint64_t i = 0; i < page->node_ids.count; i++)
        fprintf(out, "%s%" PRIu32, i > 0 ? "," : "", page->nodes[i].up);
    fputs("],\n\"frames\":[", out);
    for (uint64_t i = 0; i < page->node_ids.count; i++)
        fprintf(out, "%s%" PRIu32, i > 0 ? "," : "", page->nodes[i].frame - 1);
    fputs("],\n\"sites\":[", out);
    for (size_t i = 0; i < page->site_count; i++)
        fprintf(out, "%s%" PRIu32, i > 0 ? "," : "", page->sites[i].node);
    fputc(']', out);
    write_figures(page, graph);
    fputc('}', out);
}

/* --- the page --- */

struct flame_page *flame_page_new(FILE *out, const char *title)
{
    struct flame_page *page = calloc(1, sizeof(*page));
    if (page == NULL)
        return NULL;
    page->out = out;
    fwrite(flame_page_head, 1, sizeof(flame_page_head), out);
    fputs("{\"title\":", out);
    json_print_string_in_html(out, title);
    fputs(",\"graphs\":[", out);
    return page;
}

/* Forget the nodes of the previous graph by raising node_base. Clearing the arrays would cost the
 * time of all callsites for each graph. */
static void begin_graph(struct flame_page *page)
{
    page->node_base += page->node_ids.count;
    if (page->node_base > UINT32_MAX / 2) {
        for (size_t i = 0; i < page->side_count; i++)
            memset(page->sides[i].nodes, 0,
                   page->sides[i].profile->callsite_count * sizeof(*page->sides[i].nodes));
        page->node_base = 0;
    }
    intern_free(&page->node_ids);
    page->node_ids = (struct intern_table){0};
    page->site_count = 0;
}

int flame_page_add(struct flame_page *page, const struct flame_graph *graph)
{
    struct flame_site site;
    int code = 0;
    begin_graph(page);
    for (size_t i = 0; i < graph->site_count && code == 0; i++) {
        graph->read_site(graph->context, i, &site);
        code = add_site(page, graph, &site);
    }
    if (code == 0) {
        write_graph(page, graph);
        page->graph_count++;
    }
    return code;
}

int flame_page_end(struct flame_page *page, int result)
{
    FILE *out = page->out;
    fputs("],\n\"frames\":[", out);
    for (uint64_t i = 0; i < page->frame_ids.count && result == 0; i++)
        fprintf(out, "%s%" PRIu32 ",%" PRIu32 ",%" PRIu32, i > 0 ? "," : "", page->frames[i].name,
                page->frames[i].module, page->frames[i].file);
    fputs("],\n\"texts\":[", out);
    for (uint64_t i = 0; i < page->text_ids.count && result == 0; i++) {
        fputs(i > 0 ? ",\n" : "\n", out);
        json_print_string_in_html(out, page->texts[i]);
    }
    fputs("]}", out);
    fwrite(flame_page_tail, 1, sizeof(flame_page_tail), out);
    for (uint64_t i = 0; i < page->text_ids.count && i < page->text_capacity; i++)
        free(page->texts[i]);
    for (size_t i = 0; i < page->side_count; i++) {
        free(page->sides[i].frames);
        free(page->sides[i].nodes);
    }
    intern_free(&page->text_ids);
    intern_free(&page->frame_ids);
    intern_free(&page->node_ids);
    free(page->texts);
    free(page->frames);
    free(page->nodes);
    free(page->sites);
    free(page->stack);
    free(page);
    return result;
}
