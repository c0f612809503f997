/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the texts of rows, and adds up the stacks of each. */
#include "profile/compare/growth_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/compare/stack_pattern.h"
#include "profile/interpreter_frames.h"
#include "util/array.h"
#include "util/base_name.h"
#include "util/utf8.h"

/* --- texts --- */

struct row_text {
    char bytes[GROWTH_ROW_BYTES];
    size_t length;
};

/* Append a text, as far as there is room. What is not UTF-8 becomes '?': files keep the text. */
static void growth_rows_append(struct row_text *text, const char *more, size_t length)
{
    const unsigned char *at = (const unsigned char *)more, *end = at + length;
    while (at < end) {
        size_t width = utf8_length(at);
        size_t taken = width > 0 && width <= (size_t)(end - at) ? width : 1;
        if (text->length + taken >= sizeof(text->bytes))
            return;
        if (width == taken)
            memcpy(text->bytes + text->length, at, taken);
        else
            text->bytes[text->length] = '?';
        text->length += taken;
        at += taken;
    }
}

static void append_text(struct row_text *text, const char *more)
{
    growth_rows_append(text, more, strlen(more));
}

/* The addresses of functions without a name differ from build to build, so the row has only how
 * many there are. */
static void append_step(struct row_text *text, const struct profile *profile,
                        const struct folding_step *step, bool first)
{
    const struct profile_frame *frame = &profile->frames[profile->callsites[step->callsite].frame];
    bool is_named = step->nameless == 0 && *frame->name != '\0';
    if (!first)
        append_text(text, " < ");
    if (is_named)
        growth_rows_append(text, frame->name, stack_pattern_name_length(frame->name));
    else
        append_text(text, "(no name)");
    if ((!first && is_named) || frame->mapping == PROFILE_NONE)
        return;
    const char *file = profile->mappings[frame->mapping].path;
    if (*frame->source_file != '\0' && interpreter_frames_has(profile, frame))
        file = frame->source_file; /* all functions of an interpreter are in one module */
    file = base_name(file);
    append_text(text, *file == '[' ? " " : " [");
    append_text(text, file);
    append_text(text, *file == '[' ? "" : "]");
}

static void make_text(const struct growth_side *side, uint32_t callsite, struct row_text *text)
{
    const struct profile *profile = side->subject->profile;
    struct folding_row row;
    folding_row_of(side->subject->folding, profile, callsite, &row);
    text->length = 0;
    for (uint32_t i = 0; i < row.count; i++)
        append_step(text, profile, &row.steps[i], i == 0);
    if (row.next != PROFILE_NONE)
        append_text(text, " < ...");
    text->bytes[text->length] = '\0';
}

/* --- rows --- */

static struct growth_row *growth_rows_row_of(struct growth_rows *rows, const struct row_text *text)
{
    bool added = false;
    uint64_t id = intern_bytes(&rows->ids, text->bytes, text->length, &added);
    if (id == 0)
        return NULL;
    if (!added)
        return id <= rows->count ? &rows->rows[id - 1] : NULL;
    if (ARRAY_RESERVE(&rows->rows, &rows->capacity, rows->count, 1) < 0)
        return NULL;
    struct growth_row *row = &rows->rows[rows->count];
    *row = (struct growth_row){.text = strdup(text->bytes), .callsite = PROFILE_NONE};
    rows->count += row->text != NULL;
    return row->text != NULL ? row : NULL;
}

static int add_sample(struct growth_rows *rows, const struct growth_side *side,
                      const struct profile_sample *sample, enum growth_figure figure)
{
    struct row_text text;
    double amounts[GROWTH_FIGURES], sum = 0;
    for (int i = 0; i < GROWTH_FIGURES; i++)
        sum += amounts[i] = growth_side_of_sample(side, sample, (enum growth_figure)i);
    if (sample->callsite == PROFILE_NONE || !(sum > 0))
        return 0;
    make_text(side, sample->callsite, &text);
    struct growth_row *row = growth_rows_row_of(rows, &text);
    if (row == NULL)
        return -ENOMEM;
    for (int i = 0; i < GROWTH_FIGURES; i++)
        row->amounts[i] += amounts[i];
    if (row->callsite == PROFILE_NONE || amounts[figure] > row->heaviest) {
        row->heaviest = amounts[figure];
        row->callsite = sample->callsite;
    }
    return 0;
}

int growth_rows_make(const struct growth_side *side, enum growth_figure figure,
                     struct growth_rows *rows)
{
    const struct budget_subject *subject = side->subject;
    *rows = (struct growth_rows){0};
    for (size_t i = 0; i < subject->dump_count; i++) {
        const struct profile_dump *dump = subject->dumps[i].dump;
        if (!growth_side_has_heap(side, subject->dumps[i].heap))
            continue;
        for (size_t j = 0; j < dump->sample_count; j++) {
            if (add_sample(rows, side, dump->samples[j], figure) < 0) {
                growth_rows_clear(rows);
                return -ENOMEM;
            }
        }
    }
    return 0;
}

void growth_rows_clear(struct growth_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free(rows->rows[i].text);
    free(rows->rows);
    intern_free(&rows->ids);
    *rows = (struct growth_rows){0};
}

const struct growth_row *growth_rows_find(const struct growth_rows *rows, const char *text)
{
    uint64_t id = intern_find(&rows->ids, text, strlen(text));
    return id > 0 && id <= rows->count ? &rows->rows[id - 1] : NULL;
}
