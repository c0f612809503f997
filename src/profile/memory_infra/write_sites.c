/* SPDX-License-Identifier: Apache-2.0 */
/* Turn the samples of dumps into sites: a node for each stack, figures rounded, small sites pruned
 * (write_sites.h). */
#include "profile/memory_infra/write_sites.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile/rollup.h"
#include "util/array.h"
#include "util/keyed_hash.h"
#include "util/sorted_search.h"

/* Names that are not from the profile. */
#define OTHER_FRAME "<other>"
#define NO_NAME_FRAME "<unknown>"
#define UNKNOWN_TYPE "[unknown]"
#define NO_CONTEXT_FRAME "[no context]"

/* A stack that is cut shares few frames with others. These bounds are for hostile files. */
#define CUT_NODES_MAX ((size_t)1 << 21)
#define PUSHED_FRAMES_MAX ((size_t)1 << 28)

/* --- strings and types --- */

/* Equal texts are one string. */
static int put_string(struct sites *sites, const char *text, uint32_t frame, uint32_t *string)
{
    char buffer[PROFILE_LABEL_BYTES];
    bool added;
    const struct site_string new = {.text = text, .frame = frame};
    if (ARRAY_RESERVE(&sites->strings, &sites->string_capacity, sites->string_count, 1) < 0)
        return -ENOMEM;
    sites->strings[sites->string_count] = new;
    const char *reads = sites_text(sites, (uint32_t)sites->string_count, buffer);
    uint64_t id = intern_bytes(&sites->string_ids, reads, strlen(reads), &added);
    if (id == 0 || id > UINT32_MAX)
        return -ENOMEM;
    sites->string_count += added;
    *string = (uint32_t)id - 1;
    return 0;
}

static int put_text(struct sites *sites, const char *text, uint32_t *string)
{
    return put_string(sites, text, PROFILE_NONE, string);
}

/* A part of a text, which is copied if it is new. */
static int put_part(struct sites *sites, const char *text, size_t length, uint32_t *string)
{
    char *copy = strndup(text, length);
    size_t before = sites->string_count;
    int code = copy == NULL ? -ENOMEM : put_text(sites, copy, string);
    if (code == 0 && sites->string_count > before)
        sites->strings[*string].owned = copy;
    else
        free(copy);
    return code;
}

/* Types are identified by name: a program can have its own type "[unknown]". */
static int put_type(struct sites *sites, const char *name, uint32_t *type)
{
    uint32_t string;
    bool added;
    if (put_text(sites, *name == '\0' ? UNKNOWN_TYPE : name, &string) < 0)
        return -ENOMEM;
    uint64_t id = intern_bytes(&sites->type_ids, &string, sizeof(string), &added);
    if (id == 0 || ARRAY_RESERVE(&sites->types, &sites->type_capacity, sites->type_count, 1) < 0 ||
        ARRAY_RESERVE(&sites->type_kept, &sites->type_kept_capacity, sites->type_count, 1) < 0)
        return -ENOMEM;
    *type = (uint32_t)id - 1;
    if (added) {
        sites->type_kept[sites->type_count] = false;
        sites->types[sites->type_count++] = string;
    }
    return 0;
}

/* Return the return address on the stack. Ours is within the call, one less. */
static bool absolute_pc(const struct sites *sites, const struct profile_frame *frame, uint64_t *pc)
{
    *pc = frame->rel_pc + 1;
    if (frame->mapping == PROFILE_NONE)
        return frame->rel_pc != 0;
    const struct written_mapping *written = &sites->mappings[frame->mapping];
    const struct profile_mapping *mapping = &written->at;
    uint64_t address = frame->rel_pc - mapping->exact_offset - mapping->load_bias + mapping->start;
    *pc = address + 1;
    return written->placed && address >= mapping->start && address < mapping->end;
}

const char *sites_text(const struct sites *sites, uint32_t string, char buffer[PROFILE_LABEL_BYTES])
{
    const struct site_string *item = &sites->strings[string];
    uint64_t pc;
    if (item->text != NULL)
        return item->text;
    const struct profile_frame *frame = &sites->profile->frames[item->frame];
    if (absolute_pc(sites, frame, &pc))
        snprintf(buffer, PROFILE_LABEL_BYTES, "pc:%" PRIx64, pc);
    else if (frame->mapping == PROFILE_NONE)
        return NO_NAME_FRAME;
    else
        return profile_frame_label(sites->profile, frame, buffer);
    return buffer;
}

static int put_frame(struct sites *sites, uint32_t index, struct site_frame *frame)
{
    const struct profile_frame *from = &sites->profile->frames[index];
    struct site_frame *known = &sites->frames[index];
    if (sites->frame_made[index] != sites->generation) {
        uint32_t name, file;
        if (put_string(sites, *from->name == '\0' ? NULL : from->name, index, &name) < 0 ||
            put_text(sites, from->source_file, &file) < 0)
            return -ENOMEM;
        *known = (struct site_frame){name, file, from->line};
        sites->frame_made[index] = sites->generation;
    }
    *frame = *known;
    return 0;
}

/* --- nodes --- */

static uint64_t node_hash(const struct site_frame *frame, uint32_t parent)
{
    return keyed_hash_pair((uint64_t)frame->name << 32 | parent,
                           (uint64_t)frame->line << 32 | frame->file);
}

static uint64_t hash_of_node(const void *nodes, uint32_t number)
{
    const struct site_node *node = (const struct site_node *)nodes + number;
    return node_hash(&node->frame, node->parent);
}

static int put_node(struct sites *sites, const struct site_frame *frame, uint32_t parent,
                    uint32_t *node)
{
    if (hash_index_reserve(&sites->node_index, sites->node_count, hash_of_node, sites->nodes) < 0)
        return -ENOMEM;
    const struct site_node *known = sites->nodes;
    uint32_t *slot = HASH_INDEX_SLOT(
        &sites->node_index, node_hash(frame, parent), i,
        known[i].parent == parent && known[i].frame.name == frame->name &&
            known[i].frame.file == frame->file && known[i].frame.line == frame->line);
    if (*slot == 0) {
        if (ARRAY_RESERVE(&sites->nodes, &sites->node_capacity, sites->node_count, 1) < 0)
            return -ENOMEM;
        sites->nodes[sites->node_count++] = (struct site_node){.frame = *frame, .parent = parent};
        *slot = (uint32_t)sites->node_count;
    }
    *node = *slot - 1;
    return 0;
}

static int put_named_node(struct sites *sites, const char *name, uint32_t parent, uint32_t *node)
{
    struct site_frame frame = {0};
    return put_text(sites, name, &frame.name) < 0 ? -ENOMEM : put_node(sites, &frame, parent, node);
}

/* --- stacks --- */

/* Find the node of a stack that is written unchanged, by the nodes of its callsites. */
static int native_node(struct sites *sites, uint32_t callsite, uint32_t *node)
{
    const struct profile_callsite *callsites = sites->profile->callsites;
    size_t depth = 0;
    uint32_t base = sites->callsite_base;
    while (callsite != PROFILE_NONE && sites->callsites[callsite] <= base) {
        sites->path[depth++] = callsite;
        callsite = callsites[callsite].parent;
    }
    *node = callsite == PROFILE_NONE ? SITES_NONE : sites->callsites[callsite] - base - 1;
    while (depth-- > 0) {
        struct site_frame frame;
        if (put_frame(sites, callsites[sites->path[depth]].frame, &frame) < 0 ||
            put_node(sites, &frame, *node, node) < 0)
            return -ENOMEM;
        sites->callsites[sites->path[depth]] = base + *node + 1;
    }
    return 0;
}

static int push_frame(struct sites *sites, size_t *depth, const struct site_frame *frame)
{
    if (ARRAY_RESERVE(&sites->stack, &sites->stack_capacity, *depth, 1) < 0)
        return -ENOMEM;
    sites->stack[(*depth)++] = *frame;
    return 0;
}

static int push_name(struct sites *sites, size_t *depth, const char *name, size_t length)
{
    struct site_frame frame = {0};
    int code = length == 0 ? put_text(sites, NO_NAME_FRAME, &frame.name)
                           : put_part(sites, name, length, &frame.name);
    return code < 0 ? code : push_frame(sites, depth, &frame);
}

static int push_native(struct sites *sites, size_t *depth, uint32_t callsite)
{
    size_t count = export_take_stack(sites->profile, callsite, sites->path);
    int code = 0;
    while (count-- > 0 && code == 0) {
        struct site_frame frame;
        code = put_frame(sites, sites->path[count], &frame);
        if (code == 0)
            code = push_frame(sites, depth, &frame);
    }
    return code;
}

/* Scopes are joined by ';', the outermost first. */
static int push_context(struct sites *sites, size_t *depth, const char *context)
{
    int code = 0;
    while (*context != '\0' && code == 0) {
        size_t length = strcspn(context, ";");
        code = push_name(sites, depth, context, length);
        context += length + (context[length] == ';');
    }
    return code;
}

static int compare_pids(const void *left_pointer, const void *right_pointer)
{
    const struct profile_thread *left = *(const struct profile_thread *const *)left_pointer;
    const struct profile_thread *right = *(const struct profile_thread *const *)right_pointer;
    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    if (left->tid != right->tid)
        return left->tid < right->tid ? -1 : 1;
    return left < right ? -1 : left > right;
}

static int compare_tids(const void *left_pointer, const void *right_pointer)
{
    const struct profile_thread *left = *(const struct profile_thread *const *)left_pointer;
    const struct profile_thread *right = *(const struct profile_thread *const *)right_pointer;
    return left->tid < right->tid ? -1 : left->tid > right->tid;
}

static const char *thread_name(const struct sites *sites, int32_t tid)
{
    const struct profile_thread wanted = {.tid = tid}, *key = &wanted;
    const struct profile_thread **found = NULL;
    if (sites->thread_count > 0)
        found = bsearch(&key, sites->threads, sites->thread_count, sizeof(key), compare_tids);
    return found != NULL ? (*found)->name : "";
}

/* Push all frames but the allocator's, the outermost first. */
static int push_all(struct sites *sites, size_t *depth, uint32_t callsite,
                    const struct profile_part *part)
{
    const char *context = part == NULL ? "" : part->context;
    const char *thread = part == NULL ? "" : thread_name(sites, part->tid);
    int code = 0;
    if (sites->stack_mode == HEAP_STACK_THREAD_NAMES)
        code = push_name(sites, depth, thread, strlen(thread));
    else if (sites->stack_mode != HEAP_STACK_NATIVE)
        code = push_context(sites, depth, context);
    if (code == 0 && sites->stack_mode == HEAP_STACK_PSEUDO && *depth == 0)
        code = push_name(sites, depth, NO_CONTEXT_FRAME, strlen(NO_CONTEXT_FRAME));
    if (code == 0 && sites->stack_mode != HEAP_STACK_PSEUDO)
        code = push_native(sites, depth, callsite);
    return code;
}

/* Leave the middle out if the stack would be too deep with `more` inner frames. */
static int cut_stack(struct sites *sites, size_t *depth, size_t more)
{
    size_t outer = MEMORY_INFRA_FRAMES_MAX / 2, inner = MEMORY_INFRA_FRAMES_MAX - outer - 1 - more;
    struct site_frame cut = {0};
    sites->pushed_frames += *depth;
    if (sites->pushed_frames > PUSHED_FRAMES_MAX)
        return -E2BIG;
    if (sites->node_count > sites->profile->callsite_count + CUT_NODES_MAX)
        return -E2BIG;
    if (*depth + more <= MEMORY_INFRA_FRAMES_MAX)
        return 0;
    if (put_text(sites, MEMORY_INFRA_CUT_FRAME, &cut.name) < 0)
        return -ENOMEM;
    memmove(sites->stack + outer + 1, sites->stack + *depth - inner, inner * sizeof(cut));
    sites->stack[outer] = cut;
    *depth = outer + 1 + inner;
    return 0;
}

/* Find the node of a part's stack; part NULL: of the whole sample. */
static int stack_node(struct sites *sites, uint32_t callsite, const struct profile_part *part,
                      const char *allocator_frame, uint32_t *node)
{
    size_t depth = 0, more = allocator_frame != NULL;
    int code = 0;
    *node = SITES_NONE;
    if (sites->stack_mode == HEAP_STACK_NATIVE &&
        sites->profile->callsites[callsite].depth + 1 + more <= MEMORY_INFRA_FRAMES_MAX) {
        code = native_node(sites, callsite, node);
    } else {
        code = push_all(sites, &depth, callsite, part);
        if (code == 0)
            code = cut_stack(sites, &depth, more);
        for (size_t i = 0; i < depth && code == 0; i++)
            code = put_node(sites, &sites->stack[i], *node, node);
    }
    if (code == 0 && allocator_frame != NULL)
        code = put_named_node(sites, allocator_frame, *node, node);
    return code;
}

/* --- innermost functions --- */

static bool is_allocator(const char *name)
{
    static const char *const names[] = {
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "aligned_alloc",
        "memalign",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "mmap",
        "mmap64",
        "mremap",
        "brk",
        "sbrk",
        "operator new",
        "operator new[]",
        "AHeapProfile_reportAllocation",
        "AHeapProfile_reportSample",
        "HeapProfile_reportAllocationOfType",
    };
    size_t length = strcspn(name, "(");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == length && memcmp(name, names[i], length) == 0)
            return true;
    return false;
}

bool sites_end_in_allocators(const struct profile *profile, const struct profile_dump *dump)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t frame = profile->callsites[dump->samples[i]->callsite].frame;
        if (!is_allocator(profile->frames[frame].name))
            return false;
    }
    return true;
}

/* --- sites --- */

static int put_site(struct sites *sites, uint32_t node, const char *type, double bytes,
                    double count)
{
    struct site site = {.node = node, .bytes = bytes, .count = count};
    if (put_type(sites, type, &site.type) < 0 ||
        ARRAY_ADD(&sites->items, &sites->count, &sites->capacity, site) < 0)
        return -ENOMEM;
    return 0;
}

/* Return the figures of a sample, or of a part: at the dump, or at the heap's peak. Parts have
 * peaks if the sample is tagged; otherwise its peak is divided by their allocated memory. */
static void values_of(const struct profile_sample *sample, const struct profile_part *part,
                      bool at_peak, double *bytes, double *count)
{
    const struct trace_figures *figures = part == NULL ? &sample->figures : &part->figures;
    const struct trace_figures *whole = &sample->figures;
    *bytes = at_peak ? sample->peak.bytes : fmax(rollup_live_bytes(figures), 0);
    *count = at_peak ? sample->peak.count : fmax(rollup_live_count(figures), 0);
    if (!at_peak || part == NULL)
        return;
    if (sample->tagged) {
        *bytes = part->peak.bytes;
        *count = part->peak.count;
        return;
    }
    *bytes *= whole->allocated_bytes > 0 ? figures->allocated_bytes / whole->allocated_bytes : 0;
    *count *= whole->allocated_count > 0 ? figures->allocated_count / whole->allocated_count : 0;
}

static int put_sample(struct sites *sites, const struct profile_sample *sample, bool at_peak,
                      const char *allocator_frame)
{
    uint32_t parts = sample->part_count;
    int code = 0;
    if (sites->stack_mode == HEAP_STACK_NATIVE && !sample->tagged)
        parts = 0;
    for (uint32_t i = 0; i < (parts == 0 ? 1 : parts) && code == 0; i++) {
        const struct profile_part *part = parts == 0 ? NULL : &sample->parts[i];
        double bytes, count;
        uint32_t node;
        values_of(sample, part, at_peak, &bytes, &count);
        if (!(bytes > 0) && !(count > 0))
            continue;
        code = stack_node(sites, sample->callsite, part, allocator_frame, &node);
        if (code == 0)
            code = put_site(sites, node, part == NULL ? "" : part->type, bytes, count);
    }
    return code;
}

static int compare_sites(const void *left_pointer, const void *right_pointer)
{
    const struct site *left = left_pointer, *right = right_pointer;
    if (left->node != right->node)
        return left->node < right->node ? -1 : 1;
    return left->type < right->type ? -1 : left->type > right->type;
}

/* Sort, and sum up sites with the same node and type. */
static void merge_sites(struct sites *sites, size_t first)
{
    size_t merged = first;
    if (sites->count - first > 1)
        qsort(sites->items + first, sites->count - first, sizeof(*sites->items), compare_sites);
    for (size_t i = first; i < sites->count; i++) {
        struct site *last = merged > first ? &sites->items[merged - 1] : NULL;
        if (last == NULL || compare_sites(last, &sites->items[i]) != 0) {
            sites->items[merged++] = sites->items[i];
            continue;
        }
        last->bytes += sites->items[i].bytes;
        last->count += sites->items[i].count;
        last->whole_bytes += sites->items[i].whole_bytes;
        last->whole_count += sites->items[i].whole_count;
    }
    sites->count = merged;
}

static void round_sites(struct sites *sites, size_t first)
{
    struct export_rounding bytes = {0}, counts = {0};
    size_t kept = first;
    for (size_t i = first; i < sites->count; i++) {
        struct site *site = &sites->items[i];
        site->whole_bytes = export_round(&bytes, site->bytes);
        site->whole_count = export_round(&counts, site->count);
        if (site->whole_bytes > 0 || site->whole_count > 0)
            sites->items[kept++] = *site;
    }
    sites->count = kept;
}

/* Other profilers' files have no peak: use the live memory. */
static bool has_peak(const struct profile_dump *dump)
{
    bool has = false;
    for (size_t i = 0; i < dump->sample_count && !has; i++)
        has = dump->samples[i]->peak.bytes > 0;
    return has;
}

int sites_add(struct sites *sites, const struct export_dump *dump, const char *allocator_frame)
{
    size_t first = sites->count;
    bool at_peak = (sites->at_peak || dump->heap->status.dump_at_max) && has_peak(dump->dump);
    int code = 0;
    for (size_t i = 0; i < dump->dump->sample_count && code == 0; i++)
        code = put_sample(sites, dump->dump->samples[i], at_peak, allocator_frame);
    if (code < 0)
        return code;
    merge_sites(sites, first);
    round_sites(sites, first);
    return 0;
}

int sites_prune(struct sites *sites, size_t first, uint64_t bytes, uint64_t count)
{
    int code = 0;
    for (size_t i = 0; i < sites->node_count; i++)
        sites->nodes[i].has_kept = false;
    for (size_t i = first; i < sites->count; i++) {
        uint32_t node = sites->items[i].node;
        if (sites->items[i].whole_bytes < bytes && sites->items[i].whole_count < count)
            continue;
        for (; node != SITES_NONE && !sites->nodes[node].has_kept; node = sites->nodes[node].parent)
            sites->nodes[node].has_kept = true;
    }
    for (size_t i = first; i < sites->count && code == 0; i++) {
        struct site *site = &sites->items[i];
        if (site->whole_bytes >= bytes || site->whole_count >= count)
            continue;
        uint32_t above = sites->nodes[site->node].parent;
        while (above != SITES_NONE && !sites->nodes[above].has_kept)
            above = sites->nodes[above].parent;
        code = put_named_node(sites, OTHER_FRAME, above, &site->node);
    }
    if (code == 0)
        merge_sites(sites, first);
    return code;
}

void sites_keep(struct sites *sites, size_t first)
{
    sites->strings[sites->types[0]].kept = true;
    for (size_t i = first; i < sites->count; i++) {
        uint32_t node = sites->items[i].node, type = sites->items[i].type;
        sites->type_kept[type] = true;
        sites->strings[sites->types[type]].kept = true;
        for (; node != SITES_NONE && !sites->nodes[node].kept; node = sites->nodes[node].parent) {
            struct site_node *at = &sites->nodes[node];
            at->kept = true;
            sites->strings[at->frame.name].kept = true;
            sites->strings[at->frame.name].of_frame = true;
            if (at->frame.file != 0)
                sites->strings[at->frame.file].kept = true;
        }
    }
}

/* --- open, reset, close --- */

static void clear(struct sites *sites)
{
    for (size_t i = 0; i < sites->string_count; i++)
        free(sites->strings[i].owned);
    intern_free(&sites->string_ids);
    intern_free(&sites->type_ids);
    sites->string_ids = sites->type_ids = (struct intern_table){0};
    if (sites->callsites != NULL && sites->callsite_base > UINT32_MAX / 2) {
        memset(sites->callsites, 0, sites->profile->callsite_count * sizeof(*sites->callsites));
        sites->callsite_base = 0;
    } else {
        sites->callsite_base += (uint32_t)sites->node_count;
    }
    sites->string_count = sites->type_count = sites->node_count = sites->count = 0;
    hash_index_free(&sites->node_index);
}

int sites_open(struct sites *sites, const struct profile *profile,
               const struct memory_infra_write_options *options)
{
    *sites = (struct sites){
        .profile = profile, .stack_mode = options->stack_mode, .at_peak = options->at_peak};
    sites->frames = calloc(profile->frame_count + 1, sizeof(*sites->frames));
    sites->frame_made = calloc(profile->frame_count + 1, sizeof(*sites->frame_made));
    sites->callsites = calloc(profile->callsite_count + 1, sizeof(*sites->callsites));
    sites->path = malloc(export_deepest_stack(profile) * sizeof(*sites->path));
    sites->all_threads = malloc((profile->thread_count + 1) * sizeof(*sites->all_threads));
    if (sites->frames == NULL || sites->frame_made == NULL || sites->callsites == NULL ||
        sites->path == NULL || sites->all_threads == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < profile->thread_count; i++)
        sites->all_threads[i] = &profile->threads[i];
    if (profile->thread_count > 1)
        qsort(sites->all_threads, profile->thread_count, sizeof(*sites->all_threads), compare_pids);
    return 0;
}

void sites_close(struct sites *sites)
{
    clear(sites);
    free(sites->strings);
    free(sites->types);
    free(sites->type_kept);
    free(sites->nodes);
    free(sites->items);
    free(sites->stack);
    free(sites->frames);
    free(sites->frame_made);
    free(sites->callsites);
    free(sites->path);
    free(sites->all_threads);
}

/* Threads are sorted by process. */
static void choose_threads(struct sites *sites, int32_t pid)
{
    size_t count = sites->profile->thread_count;
    size_t first = SORTED_SEARCH(count, i, sites->all_threads[i]->pid < pid);
    sites->threads = sites->all_threads + first;
    sites->thread_count = SORTED_SEARCH(count - first, i, sites->threads[i]->pid == pid);
}

int sites_reset(struct sites *sites, int32_t pid, const struct written_mapping *mappings)
{
    uint32_t empty, unknown;
    clear(sites);
    sites->generation++;
    sites->mappings = mappings;
    choose_threads(sites, pid);
    if (put_text(sites, "", &empty) < 0 || put_type(sites, "", &unknown) < 0)
        return -ENOMEM;
    return 0;
}
