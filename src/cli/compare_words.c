/* See compare_words.h. */
#include "cli/compare_words.h"

#include <math.h>
#include <string.h>

#include "cli/report.h"
#include "export/view.h"

#define NAME_WIDTH 255
#define CALLERS 4 /* shown beside a callsite's function */

struct words compare_amount(double value, bool counts)
{
    return counts ? words_of_count(value) : words_of_bytes(value);
}

struct words compare_signed_amount(double value, bool counts)
{
    return words_of_signed(value, counts);
}

struct words compare_margin(const struct change *change, bool counts, bool exact)
{
    struct words text;
    if (exact)
        snprintf(text.bytes, sizeof(text.bytes), "exact");
    else if (change->uncertain)
        snprintf(text.bytes, sizeof(text.bytes), "± unknown");
    else
        return words_of_margin(change->value, change->interval.low, change->interval.high, counts);
    return text;
}

int compare_margin_width(const struct words *margin, int columns)
{
    return strncmp(margin->bytes, "±", strlen("±")) == 0 ? columns + 1 : columns;
}

void compare_print_frame(FILE *out, const struct profile *profile, uint32_t index, size_t width,
                         bool module, bool lines)
{
    char buffer[EXPORT_LABEL_BYTES];
    const struct profile_frame *frame = &profile->frames[index];
    words_print(out, export_frame_label(profile, frame, buffer), width);
    if (lines && *frame->source_file != '\0') {
        const char *slash = strrchr(frame->source_file, '/');
        fputc(' ', out);
        words_print(out, slash != NULL ? slash + 1 : frame->source_file, NAME_WIDTH);
        fprintf(out, ":%u", frame->line);
    }
    if (!module || frame->mapping == PROFILE_NONE || *frame->name == '\0')
        return;
    const char *path = profile->mappings[frame->mapping].path, *slash = strrchr(path, '/');
    fputs(" [", out);
    words_print(out, slash != NULL ? slash + 1 : path, NAME_WIDTH);
    fputc(']', out);
}

void compare_print_callsite(FILE *out, const struct profile *profile, uint32_t callsite, bool lines,
                            bool stacks)
{
    const struct profile_callsite *callsites = profile->callsites;
    uint32_t at = callsite;
    while (report_is_allocator_frame(profile->frames[callsites[at].frame].name) &&
           callsites[at].parent != PROFILE_NONE)
        at = callsites[at].parent;
    compare_print_frame(out, profile, callsites[at].frame, 60, true, lines);
    if (stacks) {
        for (at = callsite; at != PROFILE_NONE; at = callsites[at].parent) {
            fputs("\n              ", out);
            compare_print_frame(out, profile, callsites[at].frame, 200, true, lines);
        }
        return;
    }
    at = callsites[at].parent;
    for (int i = 0; i < CALLERS && at != PROFILE_NONE; i++) {
        fputs(" < ", out);
        compare_print_frame(out, profile, callsites[at].frame, 40, false, lines);
        at = callsites[at].parent;
    }
    if (at != PROFILE_NONE)
        fputs(" < ...", out);
}
