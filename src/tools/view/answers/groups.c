/* SPDX-License-Identifier: Apache-2.0 */
/* Groups stacks: adds the tree of each group below its node. */
#include "tools/view/answers/groups.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/answers/table.h"
#include "tools/view/model/apart.h"
#include "tools/view/model/kept.h"
#include "util/xmalloc.h"

struct maker {
    struct view_groups *groups;
    struct view_leaves *leaves;
    struct view_profiles *profiles;
    const struct view_selection *selection;
    size_t group_capacity, leaf_capacity;
    size_t known_heaps;
};

/* --- groups and their stacks --- */

/* Add a group, which takes over both texts. Return its node. */
static uint32_t add_group(struct maker *maker, char *name, char *part)
{
    struct view_groups *groups = maker->groups;
    const struct view_group group = {.name = name, .part = part, .note = xstrdup("")};
    const struct stack_node node = {STACK_NONE,
                                    (uint32_t)(maker->profiles->functions.count + groups->count)};
    XARRAY_ADD(&groups->items, &groups->count, &maker->group_capacity, group);
    XARRAY_ADD(&groups->tree.nodes, &groups->tree.count, &groups->tree.capacity, node);
    return (uint32_t)groups->tree.count - 1;
}

static void add_leaf(struct maker *maker, uint32_t node, const struct flame_sum *own)
{
    struct view_leaves *leaves = maker->leaves;
    const struct flame_leaf leaf = {.node = node, .own = *own};
    XARRAY_ADD(&leaves->items, &leaves->count, &maker->leaf_capacity, leaf);
}

/* Mark the nodes on the stacks of leaves: copies[i] = 1. */
static void mark_stacks(const struct stack_tree *tree, const struct view_leaves *leaves,
                        uint32_t *copies)
{
    for (size_t i = 0; i < leaves->count; i++)
        for (uint32_t at = leaves->items[i].node; at != STACK_NONE && copies[at] == 0;
             at = tree->nodes[at].parent)
            copies[at] = 1;
}

/* Copy the marked nodes below `group`, and the leaves at them. */
static void copy_stacks(struct maker *maker, uint32_t group, const struct view_leaves *leaves)
{
    const struct stack_tree *from = view_profiles_tree(maker->profiles);
    struct stack_tree *tree = &maker->groups->tree;
    uint32_t *copies = xcalloc(from->count + 1, sizeof(*copies)); /* by node: its copy */
    mark_stacks(from, leaves, copies);
    for (size_t i = 0; i < from->count; i++) {
        if (copies[i] == 0)
            continue;
        struct stack_node node = from->nodes[i];
        node.parent = node.parent == STACK_NONE ? group : copies[node.parent];
        copies[i] = (uint32_t)tree->count;
        if (tree->count >= STACK_NONE)
            xmalloc_fail(0);
        XARRAY_ADD(&tree->nodes, &tree->count, &tree->capacity, node);
    }
    for (size_t i = 0; i < leaves->count; i++)
        add_leaf(maker, copies[leaves->items[i].node], &leaves->items[i].own);
    free(copies);
}

/* --- groups of one dimension --- */

static char *groups_name_of(enum view_dimension dimension, const struct table_row *row)
{
    const char *kind = view_dimension_names[dimension];
    if (dimension != VIEW_THREAD)
        return *row->label == '\0' ? xasprintf("no %s", kind)
                                   : xasprintf("%s %s", kind, row->label);
    if (row->number == 0)
        return xasprintf("%s %s", kind, *row->label == '\0' ? "unknown" : row->label);
    return xasprintf("%s %s (%" PRId64 ")", kind, row->label, row->number);
}

static char *groups_part_of(enum view_dimension dimension, const struct table_row *row)
{
    return dimension == VIEW_THREAD ? xasprintf("%" PRId64, row->number) : xstrdup(row->label);
}

static int add_part(struct maker *maker, enum view_dimension dimension, const struct table_row *row,
                    struct error *error)
{
    char *part = groups_part_of(dimension, row);
    struct view_only_item item = {.dimension = dimension, .text = part, .number = row->number};
    struct view_selection some;
    struct view_leaves leaves = {0};
    uint32_t group = add_group(maker, groups_name_of(dimension, row), part);
    int code = view_selection_restrict(&some, maker->profiles, maker->selection, &item, error);
    if (code == 0) {
        view_leaves_make(&leaves, maker->profiles, &some);
        copy_stacks(maker, group, &leaves);
    }
    view_leaves_free(&leaves);
    view_selection_unrestrict(&some);
    return code;
}

static void add_rest(struct maker *maker, enum view_dimension dimension,
                     const struct table_row *rows, size_t count)
{
    struct flame_sum sum = {.width = 0};
    char *name = xasprintf("%zu more %ss", count, view_dimension_names[dimension]);
    uint32_t group = add_group(maker, name, NULL);
    for (size_t i = 0; i < count; i++)
        flame_sum_add(&sum, &rows[i].total);
    add_leaf(maker, group, &sum);
}

/* Compare for qsort: the widest first. */
static int compare_rows(const void *left_pointer, const void *right_pointer)
{
    const struct table_row *left = left_pointer, *right = right_pointer;
    if (left->total.width != right->total.width)
        return left->total.width > right->total.width ? -1 : 1;
    return (left->number > right->number) - (left->number < right->number);
}

/* Return whether all rows are parts that only= can keep. Two processes have threads by name. */
static bool are_parts(enum view_dimension dimension, const struct table *table)
{
    for (size_t i = 0; i < table->count && dimension == VIEW_THREAD; i++)
        if (table->rows[i].number == 0 && *table->rows[i].label != '\0')
            return false;
    return true;
}

static int group_parts(struct maker *maker, enum view_dimension dimension, struct error *error)
{
    struct view_leaves *leaves = maker->leaves;
    struct table table = {0};
    view_leaves_make(leaves, maker->profiles, maker->selection);
    int code = table_make(&table, maker->profiles, maker->selection, leaves, dimension, error);
    if (code == 0 && !are_parts(dimension, &table))
        code = error_set(error, -EINVAL,
                         "threads of two processes have only names in common: group one dump, or "
                         "see the table by thread");
    /* The sums of the whole remain; the leaves will be at other nodes. */
    free(leaves->items);
    leaves->items = NULL;
    leaves->count = 0;
    if (table.count > 1)
        qsort(table.rows, table.count, sizeof(*table.rows), compare_rows);
    size_t shown = table.count <= VIEW_GROUPS_MAX ? table.count : VIEW_GROUPS_MAX - 1;
    for (size_t i = 0; i < shown && code == 0; i++)
        code = add_part(maker, dimension, &table.rows[i], error);
    if (code == 0 && shown < table.count)
        add_rest(maker, dimension, &table.rows[shown], table.count - shown);
    table_free(&table);
    return code;
}

/* --- heaps --- */

/* Return the dump of a heap that is nearest in time; its dump is NULL if the page has no dump of
 * the heap. */
static struct export_dump nearest_dump(const struct view_profiles *profiles,
                                       const struct profile_heap *heap, uint64_t time_ns)
{
    struct export_dump nearest = {heap, NULL};
    for (size_t i = 0; i < heap->dump_count; i++) {
        const struct export_dump one = {heap, &heap->dumps[i]};
        double distance = fabs((double)one.dump->boottime_ns - (double)time_ns);
        if (view_kept_has(profiles, &one) &&
            (nearest.dump == NULL ||
             distance <= fabs((double)nearest.dump->boottime_ns - (double)time_ns)))
            nearest = one;
    }
    return nearest;
}

/* Say which dump the group has, if it is of another time. */
static void note_dump(struct view_group *group, const struct export_dump *wanted,
                      const struct export_dump *chosen)
{
    double seconds = ((double)chosen->dump->boottime_ns - (double)wanted->dump->boottime_ns) / 1e9;
    if (seconds == 0)
        return;
    free(group->note);
    group->note = xasprintf("dump %zu, %.3g s %s", (size_t)(chosen->dump - chosen->heap->dumps) + 1,
                            fabs(seconds), seconds < 0 ? "earlier" : "later");
}

/* Add the leaves of a heap to those of the others. */
static void join_leaves(struct view_leaves *all, const struct view_leaves *more, bool is_first)
{
    flame_sum_add(&all->total, &more->total);
    flame_sum_add(&all->left_out, &more->left_out);
    all->view = more->view;
    all->exact = (is_first || all->exact) && more->exact;
    all->partial |= more->partial;
    all->same_process = more->same_process;
    /* The larger interval gives the wider limits. */
    if (more->sampling.gained_interval_bytes > all->sampling.gained_interval_bytes)
        all->sampling.gained_interval_bytes = more->sampling.gained_interval_bytes;
    if (more->sampling.lost_interval_bytes > all->sampling.lost_interval_bytes)
        all->sampling.lost_interval_bytes = more->sampling.lost_interval_bytes;
    profile_calibration_add(&all->sampling.gained_calibration, &more->sampling.gained_calibration);
    profile_calibration_add(&all->sampling.lost_calibration, &more->sampling.lost_calibration);
}

/* Add the stacks of a heap whose figures are known. */
static int add_stacks(struct maker *maker, uint32_t group, const struct view_selection *chosen,
                      struct error *error)
{
    struct view_selection some = *chosen;
    struct view_leaves leaves = {0};
    int code = chosen->only.count == 0 ? 0 : view_selection_remake(&some, maker->profiles, error);
    if (code == 0) {
        view_leaves_make(&leaves, maker->profiles, &some);
        copy_stacks(maker, group, &leaves);
        join_leaves(maker->leaves, &leaves, maker->known_heaps++ == 0);
    }
    view_leaves_free(&leaves);
    if (chosen->only.count > 0)
        view_selection_unrestrict(&some);
    return code;
}

static int add_heap(struct maker *maker, const struct profile_heap *heap, struct error *error)
{
    const struct view_selection *selection = maker->selection;
    struct view_groups *groups = maker->groups;
    struct view_selection chosen = *selection;
    bool is_unknown = export_view_is_unknown(heap, selection->view);
    chosen.at.dump = nearest_dump(maker->profiles, heap, selection->at.dump.dump->boottime_ns);
    if (chosen.at.dump.dump == NULL)
        return 0;
    if (view_selection_is_difference(selection))
        chosen.base.dump =
            nearest_dump(maker->profiles, heap, selection->base.dump.dump->boottime_ns);
    char *name = xasprintf("heap %s%s", heap->name, is_unknown ? " (unknown)" : "");
    uint32_t group = add_group(maker, name, NULL);
    note_dump(&groups->items[groups->count - 1], &selection->at.dump, &chosen.at.dump);
    return is_unknown ? 0 : add_stacks(maker, group, &chosen, error);
}

/* --- processes --- */

/* The last dump of a process's heap. */
struct process_heap {
    struct export_dump last;
    double rank;
};

/* Compare for qsort: those that have most first. */
static int compare_processes(const void *left_pointer, const void *right_pointer)
{
    const struct process_heap *left = left_pointer, *right = right_pointer;
    if (left->rank != right->rank)
        return left->rank > right->rank ? -1 : 1;
    return (left->last.heap > right->last.heap) - (left->last.heap < right->last.heap);
}

/* List the heaps of the selected one's name whose figures are known. Return their number. */
static size_t list_processes(const struct maker *maker, struct process_heap *heaps)
{
    const struct view_selection *selection = maker->selection;
    const struct profile *profile = selection->at.of->profile;
    size_t count = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        size_t last = view_kept_last(maker->profiles, heap);
        if (heap->unseen || export_view_is_unknown(heap, selection->view) ||
            last >= heap->dump_count || strcmp(heap->name, selection->at.dump.heap->name) != 0)
            continue;
        const struct profile_estimate sum = estimate_of_dump(&heap->dumps[last], selection->view);
        heaps[count++] =
            (struct process_heap){{heap, &heap->dumps[last]}, estimate_rank(&sum, selection->view)};
    }
    if (count > 1)
        qsort(heaps, count, sizeof(*heaps), compare_processes);
    return count;
}

static int add_process(struct maker *maker, const struct process_heap *heap, const char *apart,
                       struct error *error)
{
    const struct profile *profile = maker->selection->at.of->profile;
    const struct profile_process *process = &profile->processes[heap->last.heap->process];
    struct view_selection chosen = *maker->selection;
    chosen.at.dump = heap->last;
    char *name = xasprintf("process %s (%" PRId32 ")%s%s", process->name,
                           profile_shown_pid(process), *apart != '\0' ? " " : "", apart);
    return add_stacks(maker, add_group(maker, name, NULL), &chosen, error);
}

/* Add what further processes have as one group without stacks. */
static int add_processes(struct maker *maker, const struct process_heap *heaps, size_t count,
                         struct error *error)
{
    uint32_t group = add_group(maker, xasprintf("%zu more processes", count), NULL);
    struct flame_sum sum = {.width = 0};
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++) {
        struct view_selection some = *maker->selection;
        struct view_leaves leaves = {0};
        some.at.dump = heaps[i].last;
        code = some.only.count == 0 ? 0 : view_selection_remake(&some, maker->profiles, error);
        if (code == 0) {
            view_leaves_make(&leaves, maker->profiles, &some);
            flame_sum_add(&sum, &leaves.total);
            join_leaves(maker->leaves, &leaves, maker->known_heaps++ == 0);
        }
        view_leaves_free(&leaves);
        if (some.only.count > 0)
            view_selection_unrestrict(&some);
    }
    add_leaf(maker, group, &sum);
    return code;
}

static int group_processes(struct maker *maker, struct error *error)
{
    const struct view_selection *selection = maker->selection;
    const struct profile *profile = selection->at.of->profile;
    if (view_selection_is_retained(selection) || view_selection_is_difference(selection))
        return error_set(error, -EINVAL,
                         "processes are grouped at their last dumps: compare with nothing");
    struct process_heap *heaps = xcalloc(profile->heap_count + 1, sizeof(*heaps));
    char **apart = view_apart_make(profile);
    size_t count = list_processes(maker, heaps);
    size_t shown = count <= VIEW_GROUPS_MAX ? count : VIEW_GROUPS_MAX - 1;
    int code = 0;
    for (size_t i = 0; i < shown && code == 0; i++)
        code = add_process(maker, &heaps[i], apart[heaps[i].last.heap->process], error);
    if (code == 0 && shown < count)
        code = add_processes(maker, &heaps[shown], count - shown, error);
    maker->leaves->unknown = maker->known_heaps == 0;
    view_apart_free(apart, profile);
    free(heaps);
    return code;
}

/* --- heaps of one process --- */

static int group_heaps(struct maker *maker, struct error *error)
{
    const struct view_selection *selection = maker->selection;
    const struct profile *profile = selection->at.of->profile;
    uint32_t process = selection->at.dump.heap->process;
    int code = 0;
    if (view_selection_is_retained(selection))
        return error_set(error, -EINVAL,
                         "retained memory is that of one heap: choose another group");
    if (view_selection_is_difference(selection) &&
        selection->base.dump.heap != selection->at.dump.heap)
        return error_set(error, -EINVAL,
                         "heaps are grouped within one process: compare with a dump of the same "
                         "heap");
    for (size_t i = 0; i < profile->heap_count && code == 0; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (heap->process == process && !heap->unseen)
            code = add_heap(maker, heap, error);
    }
    maker->leaves->unknown = maker->known_heaps == 0;
    return code;
}

/* --- */

int view_groups_make(struct view_groups *groups, struct view_leaves *leaves,
                     struct view_profiles *profiles, const struct view_selection *selection,
                     const char *by, struct error *error)
{
    struct maker maker = {
        .groups = groups, .leaves = leaves, .profiles = profiles, .selection = selection};
    enum view_dimension dimension = view_dimension_of(by, strlen(by));
    *groups = (struct view_groups){.by = by};
    *leaves = (struct view_leaves){0};
    int code;
    if (strcmp(by, "heap") == 0)
        code = group_heaps(&maker, error);
    else if (strcmp(by, "process") == 0)
        code = group_processes(&maker, error);
    else if (dimension >= VIEW_THREAD && dimension <= VIEW_CONTEXT)
        code = group_parts(&maker, dimension, error);
    else
        return error_set(
            error, -EINVAL,
            "group=%.40s: a graph is grouped by thread, type, context, heap or process", by);
    if (code == 0)
        stack_tree_link(&groups->tree);
    return code;
}

void view_groups_free(struct view_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        free(groups->items[i].name);
        free(groups->items[i].part);
        free(groups->items[i].note);
    }
    free(groups->items);
    stack_tree_free(&groups->tree);
    *groups = (struct view_groups){0};
}
