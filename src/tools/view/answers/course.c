/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a table of each dump, and finds the same rows in them. */
#include "tools/view/answers/course.h"

#include <stdlib.h>
#include <string.h>

#include "tools/view/model/kept.h"
#include "util/xmalloc.h"

/* Limit of stacks and of nodes of the tree that are read in all: other questions wait meanwhile. */
#define COURSE_WORK_MAX 3000000.0

/* --- the dumps --- */

static double work_of(const struct view_profiles *profiles, const struct profile_dump *dump)
{
    return (double)dump->sample_count + (double)view_profiles_tree(profiles)->count;
}

/* List the dumps of the heap: every n-th that is here, counted from the last. */
static void choose_dumps(struct course *course, const struct view_profiles *profiles,
                         const struct profile_heap *heap, size_t most)
{
    double work = 0;
    size_t *kept = xcalloc(heap->dump_count + 1, sizeof(*kept));
    for (size_t i = 0; i < heap->dump_count; i++) {
        const struct export_dump dump = {heap, &heap->dumps[i]};
        if (!view_kept_has(profiles, &dump))
            continue;
        kept[course->kept++] = i;
        work += work_of(profiles, dump.dump);
    }
    size_t step = (size_t)(work / COURSE_WORK_MAX) + 1;
    if (step < (course->kept + most - 1) / most)
        step = (course->kept + most - 1) / most;
    course->dumps = xcalloc(course->kept / step + 2, sizeof(*course->dumps));
    for (size_t i = course->kept > 0 ? (course->kept - 1) % step : 0; i < course->kept; i += step)
        course->dumps[course->dump_count++] = kept[i];
    free(kept);
}

/* --- the rows --- */

struct key {
    const void *bytes;
    size_t length;
};

/* Return what tells a row apart from others; it points into the row. */
static struct key key_of(const struct table_row *row, enum view_dimension by)
{
    if (row->function != STACK_NONE)
        return (struct key){&row->function, sizeof(row->function)};
    if (row->label == NULL || by == VIEW_THREAD)
        return (struct key){&row->number, sizeof(row->number)};
    return (struct key){row->label, strlen(row->label)};
}

/* Return the course's row for a row of a table. The first table that has it makes it. */
static struct course_row *row_for(struct course *course, const struct table_row *of_table,
                                  enum view_dimension by)
{
    bool added;
    const struct key key = key_of(of_table, by);
    uint64_t id = xmalloc_id(intern_bytes(&course->ids, key.bytes, key.length, &added));
    if (added) {
        const struct course_row fresh = {
            .row = *of_table,
            .self = xcalloc(course->dump_count, sizeof(struct flame_sum)),
            .total = xcalloc(course->dump_count, sizeof(struct flame_sum)),
        };
        XARRAY_ADD(&course->rows, &course->row_count, &course->row_capacity, fresh);
    }
    return &course->rows[id - 1];
}

const struct course_row *course_find(const struct course *course, const struct table_row *row,
                                     enum view_dimension by)
{
    const struct key key = key_of(row, by);
    uint64_t id = intern_find(&course->ids, key.bytes, key.length);
    return id == 0 ? NULL : &course->rows[id - 1];
}

void course_free(struct course *course)
{
    for (size_t i = 0; i < course->row_count; i++) {
        free(course->rows[i].self);
        free(course->rows[i].total);
    }
    free(course->rows);
    free(course->dumps);
    intern_free(&course->ids);
    *course = (struct course){0};
}

static int add_dump(struct course *course, struct view_profiles *profiles,
                    const struct view_selection *of_heap, enum view_dimension by, size_t place,
                    struct error *error)
{
    struct view_selection some = *of_heap;
    struct view_leaves leaves = {0};
    struct table table = {0};
    some.at.dump.dump = &some.at.dump.heap->dumps[course->dumps[place]];
    some.at.part = (struct view_part){0};
    int code = some.only.count > 0 ? view_selection_remake(&some, profiles, error) : 0;
    if (code == 0) {
        view_leaves_make(&leaves, profiles, &some);
        course->unknown = leaves.unknown;
        code = table_make(&table, profiles, &some, &leaves, by, error);
    }
    for (size_t i = 0; i < table.count; i++) {
        struct course_row *row = row_for(course, &table.rows[i], by);
        row->self[place] = table.rows[i].self;
        row->total[place] = table.rows[i].total;
    }
    table_free(&table);
    view_leaves_free(&leaves);
    view_selection_unrestrict(&some);
    return code;
}

int course_make(struct course *course, struct view_profiles *profiles,
                const struct view_selection *selection, enum view_dimension by, size_t most,
                struct error *error)
{
    struct view_selection of_heap = *selection;
    of_heap.base = of_heap.least = (struct view_dump){0};
    *course = (struct course){0};
    choose_dumps(course, profiles, selection->at.dump.heap, most);
    int code = 0;
    for (size_t i = 0; i < course->dump_count && code == 0; i++)
        code = add_dump(course, profiles, &of_heap, by, i, error);
    return code;
}
