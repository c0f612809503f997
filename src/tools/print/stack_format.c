/* SPDX-License-Identifier: Apache-2.0 */
/* Prints frames, rows and stacks, and shortens names to fit the width. */
#include "tools/print/stack_format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "profile/symbols/demangle.h"
#include "tools/print/format.h"
#include "util/base_name.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

#define CALLER_COLUMNS 40u /* most columns of one caller, if the width is limited */
#define NAME_BYTES 4200u   /* the longest that the demangler returns */
#define ROOM_LEAST 24u

#define BEFORE_CALLER " < "
#define MORE " < ..."

size_t stack_format_room(size_t columns, size_t figures)
{
    if (columns == 0)
        return 0;
    return columns > figures + ROOM_LEAST ? columns - figures : ROOM_LEAST;
}

/* --- names --- */

/* Return the length of an operator's name that contains brackets (operator<); 0 if there is
 * none. */
static size_t operator_length(const char *name, size_t at)
{
    static const char *const signs[] = {"()", "<=>", "<<=", ">>=", "->*", "<<",
                                        ">>", "<=",  ">=",  "->",  "<",   ">"};
    static const char word[] = "operator";
    size_t length = strlen(word);
    if (strncmp(name + at, word, length) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (strncmp(name + at + length, signs[i], strlen(signs[i])) == 0)
            return length + strlen(signs[i]);
    return 0;
}

static bool is_arrow(const char *name, size_t at)
{
    return at > 0 && name[at] == '>' && name[at - 1] == '-';
}

/* Return the length from an opening bracket to its closing one; 0 if it is not closed. */
static size_t bracket_length(const char *name, size_t at)
{
    size_t depth = 0;
    for (size_t i = at; name[i] != '\0'; i++) {
        if (strchr("<([{", name[i]) != NULL)
            depth++;
        else if (strchr(">)]}", name[i]) != NULL && !is_arrow(name, i) && --depth == 0)
            return i + 1 - at;
    }
    return 0;
}

/* Replace the contents of a name's widest outer brackets by "...". Return false if there are
 * none. */
static bool elide_arguments(char *name)
{
    size_t widest = 0, where = 0;
    for (size_t i = 0; name[i] != '\0';) {
        size_t skipped = operator_length(name, i);
        size_t length = skipped == 0 && strchr("<(", name[i]) != NULL ? bracket_length(name, i) : 0;
        /* Brackets at the beginning are not arguments: "<T as Trait>::f". */
        if (i > 0 && length > widest && length > strlen("<...>")) {
            widest = length;
            where = i;
        }
        i += skipped > 0 ? skipped : length > 0 ? length : 1;
    }
    if (widest == 0)
        return false;
    char *inside = name + where + 1, *closing = name + where + widest - 1;
    memcpy(inside, "...", 3);
    memmove(inside + 3, closing, strlen(closing) + 1);
    return true;
}

/* Return the longest tail of the name that starts at a qualifier and fits after "..."; at least the
 * function's own name. */
static const char *find_tail(const char *name, size_t columns)
{
    const char *tail = name;
    for (size_t i = 0; name[i] != '\0';) {
        size_t skipped = operator_length(name, i);
        size_t length =
            skipped == 0 && strchr("<({", name[i]) != NULL ? bracket_length(name, i) : 0;
        bool separates = strncmp(name + i, "::", 2) == 0 && i > 0;
        if (separates && (tail == name || utf8_count(tail) + strlen("...") > columns))
            tail = name + i;
        i += skipped > 0 ? skipped : length > 0 ? length : separates ? 2 : 1;
    }
    return tail;
}

/* Print a function's name in at most `columns` (0: any). First template arguments and parameters
 * become "...", then qualifiers are cut. The function's own name is never shortened. */
static void print_name(FILE *out, const char *name, size_t columns)
{
    char text[NAME_BYTES];
    size_t length = strnlen(name, NAME_BYTES);
    if (columns == 0 || length == NAME_BYTES || utf8_count(name) <= columns) {
        format_print_name(out, name);
        return;
    }
    memcpy(text, name, length + 1);
    while (utf8_count(text) > columns && elide_arguments(text))
        ;
    const char *tail = utf8_count(text) > columns ? find_tail(text, columns) : text;
    if (tail != text)
        fputs("...", out);
    format_print_name(out, tail);
}

/* --- frames --- */

/* Return whether the frame is a function of an interpreted language whose file is known. The file
 * is then what a module is for native code. */
static bool is_in_script(const struct profile *profile, const struct profile_frame *frame)
{
    return frame->source_file[0] != '\0' && interpreter_frames_has(profile, frame);
}

static void print_module(FILE *out, const struct profile *profile,
                         const struct profile_frame *frame)
{
    if (frame->mapping == PROFILE_NONE || frame->name[0] == '\0')
        return;
    const char *kind = profile_frame_kind(frame), *path = profile->mappings[frame->mapping].path;
    char buffer[SOURCE_NAME_BYTES];
    if (is_in_script(profile, frame))
        path = source_base_name(frame->source_file, buffer);
    else if (*kind != '\0' && !interpreter_frames_has(profile, frame))
        path = kind;
    const char *name = base_name(path);
    if (strcmp(name, frame->name) == 0) /* Ruby's "<internal:gem_prelude>" */
        return;
    bool has_brackets = *name == '[';
    fputs(has_brackets ? " " : " [", out);
    format_print(out, name, FORMAT_WORD_WIDTH);
    fputs(has_brackets ? "" : "]", out);
}

static void print_function(const struct stack_format *format, const struct profile_frame *frame,
                           size_t columns, FILE *out)
{
    bool renamed = *frame->obfuscated_name != '\0' || *frame->linkage_name == '\0';
    char *simple =
        format->simple && !renamed ? demangle_name_as(frame->linkage_name, DEMANGLE_SIMPLE) : NULL;
    print_name(out, simple != NULL ? simple : frame->name, columns);
    free(simple);
}

/* `lines`: number of the function's source lines, of which the frame's is printed; 0: print none.
 */
static void print_frame(const struct stack_format *format, uint32_t index, size_t columns,
                        uint32_t lines, bool module, FILE *out)
{
    const struct profile *profile = format->profile;
    const struct profile_frame *frame = &profile->frames[index];
    if (frame->name[0] == '\0') {
        const char *path =
            frame->mapping != PROFILE_NONE ? profile->mappings[frame->mapping].path : "";
        fprintf(out, "0x%" PRIx64 " @ ", frame->function_start);
        format_print(out, *path != '\0' ? base_name(path) : "unknown code", FORMAT_WORD_WIDTH);
        return;
    }
    print_function(format, frame, columns, out);
    if (lines > 0 && frame->source_file[0] != '\0') {
        fputc(' ', out);
        char file[SOURCE_NAME_BYTES];
        format_print(out, source_base_name(frame->source_file, file), FORMAT_WORD_WIDTH);
        if (frame->line != 0)
            fprintf(out, ":%u", frame->line);
        if (frame->line != 0 && lines > 1)
            fprintf(out, " and %" PRIu32 " more line%s", lines - 1, lines == 2 ? "" : "s");
        module = module && !is_in_script(profile, frame);
    }
    if (module)
        print_module(out, profile, frame);
}

void stack_format_print_frame(const struct stack_format *format, uint32_t index, size_t columns,
                              bool lines, bool module, FILE *out)
{
    print_frame(format, index, columns, lines ? 1 : 0, module, out);
}

/* --- rows --- */

/* A part of a row, formatted to learn its width. The parts of a row follow each other in one
 * stream: to open one takes longer than to format. */
struct piece {
    FILE *stream;
    char *text;
    size_t length, columns;
};

/* End the text of a piece. The previous one may have been longer. */
static void end_piece(struct piece *piece)
{
    fputc('\0', piece->stream);
    if (fflush(piece->stream) != 0)
        xmalloc_fail(0);
    piece->columns = utf8_count(piece->text);
}

static void make_piece(struct piece *piece, const struct stack_format *format, uint32_t callsite,
                       size_t columns, uint32_t lines, bool module)
{
    uint32_t frame = format->profile->callsites[callsite].frame;
    if (format->lines ||
        (format->python_lines && is_in_script(format->profile, &format->profile->frames[frame])))
        lines = 1;
    rewind(piece->stream);
    print_frame(format, frame, columns, lines, module, piece->stream);
    const struct profile_frame *frames = format->profile->frames, *of_run_time = NULL;
    if (module && format->run_time_frame != 0)
        of_run_time = &frames[format->run_time_frame - 1];
    if (of_run_time != NULL && strcmp(of_run_time->name, frames[frame].name) != 0) {
        fputs(" (in ", piece->stream);
        print_function(format, of_run_time, format->columns > 0 ? CALLER_COLUMNS : 0,
                       piece->stream);
        fputc(')', piece->stream);
    }
    end_piece(piece);
}

/* Print a caller if it fits into the columns. */
static bool put_caller(const struct piece *piece, size_t columns, size_t *used, FILE *out)
{
    bool fits = piece->columns <= columns;
    if (fits) {
        fputs(BEFORE_CALLER, out);
        fputs(piece->text, out);
        *used += strlen(BEFORE_CALLER) + piece->columns;
    }
    return fits;
}

/* Make the piece for a step of a row: "f", or "(3 frames of libsqlite3)". */
static void make_step(struct piece *piece, const struct stack_format *format,
                      const struct folding_step *step, size_t columns, uint32_t lines)
{
    const struct profile *profile = format->profile;
    if (step->nameless == 0) {
        make_piece(piece, format, step->callsite, columns, lines, false);
        return;
    }
    const struct profile_frame *frame = &profile->frames[profile->callsites[step->callsite].frame];
    const char *module =
        frame->mapping == PROFILE_NONE ? "" : base_name(profile->mappings[frame->mapping].path);
    char library[FORMAT_WORD_WIDTH + 1];
    const char *end = strstr(module, ".so");
    snprintf(library, sizeof(library), "%.*s",
             (int)(end != NULL ? end - module : FORMAT_WORD_WIDTH),
             *module != '\0' ? module : "unknown code");
    rewind(piece->stream);
    fprintf(piece->stream, "(%" PRIu32 " frame%s of ", step->nameless,
            step->nameless == 1 ? "" : "s");
    format_print(piece->stream, library, FORMAT_WORD_WIDTH);
    fputs(")", piece->stream);
    end_piece(piece);
}

void stack_format_print_row(const struct stack_format *format, uint32_t callsite, FILE *out)
{
    struct stack_format brief = *format;
    brief.python_lines = false;
    size_t used = 0, width = format->columns;
    struct folding_row row;
    struct piece piece = {0};
    piece.stream = xopen_memstream(&piece.text, &piece.length);
    folding_row_of(format->folding, format->profile, callsite, &row);
    make_piece(&piece, format, row.steps[0].callsite, 0, row.own == 0 ? format->own_lines : 0,
               true);
    if (width > 0 && piece.columns > width) /* omit the module before shortening the name */
        make_piece(&piece, &brief, row.steps[0].callsite, width, 0, false);
    fputs(piece.text, out);
    used += piece.columns;
    uint32_t i = 1;
    for (; i < row.count; i++) {
        bool is_last = i + 1 == row.count && row.next == PROFILE_NONE;
        size_t reserved = strlen(BEFORE_CALLER) + (is_last ? 0 : strlen(MORE));
        size_t room = width > used + reserved ? width - used - reserved : 1;
        room = room < CALLER_COLUMNS ? room : CALLER_COLUMNS;
        make_step(&piece, format, &row.steps[i], width > 0 ? room : 0,
                  row.own == i ? format->own_lines : 0);
        if (width > 0 && piece.columns > room)
            make_step(&piece, &brief, &row.steps[i], room, 0);
        if (!put_caller(&piece, width > 0 ? room : SIZE_MAX, &used, out))
            break;
    }
    if ((i < row.count || row.next != PROFILE_NONE) && (width == 0 || used + strlen(MORE) <= width))
        fputs(MORE, out);
    fclose(piece.stream);
    free(piece.text);
}

/* --- whole stacks --- */

#define FOLDED_MAX 8u /* names in a line of folded frames */

struct folded {
    const char *names[FOLDED_MAX];
    size_t count, frames;
};

static void add_folded(struct folded *folded, const struct known_frames *known)
{
    folded->frames++;
    for (size_t i = 0; i < folded->count; i++)
        if (strcmp(folded->names[i], known->what) == 0)
            return;
    if (folded->count < FOLDED_MAX)
        folded->names[folded->count++] = known->what;
}

/* Print a line for folded frames, such as "... 4 frames of libstdc++ and the allocator". */
static void print_folded(const struct folded *folded, FILE *out)
{
    fprintf(out, "... %zu frame%s of ", folded->frames, folded->frames == 1 ? "" : "s");
    for (size_t i = 0; i < folded->count; i++)
        fprintf(out, "%s%s",
                i == 0                   ? ""
                : i + 1 == folded->count ? " and "
                                         : ", ",
                folded->names[i]);
}

/* Print the line of a stack that begins at a callsite, unless `out` is NULL. Return the callsite at
 * which the next line begins. */
static uint32_t put_line(const struct stack_format *format, uint32_t at, uint32_t charged,
                         size_t columns, FILE *out)
{
    const struct profile *profile = format->profile;
    struct folded folded = {0};
    const struct known_frames *known;
    uint32_t first = at;
    while (at != PROFILE_NONE && at != charged &&
           (known = folding_of(format->folding, profile->callsites[at].frame)) != NULL) {
        add_folded(&folded, known);
        at = profile->callsites[at].parent;
    }
    if (folded.frames > 0) {
        uint32_t run_time = out != NULL && at == charged
                                ? folding_run_time(format->folding, profile, first)
                                : PROFILE_NONE;
        if (out != NULL)
            print_folded(&folded, out);
        if (run_time != PROFILE_NONE) {
            fputs(": ", out);
            print_function(format, &profile->frames[profile->callsites[run_time].frame],
                           format->line_columns > 0 ? CALLER_COLUMNS : 0, out);
        }
        return at;
    }
    if (out != NULL)
        stack_format_print_frame(format, profile->callsites[at].frame, columns, true, true, out);
    return profile->callsites[at].parent;
}

#define OUTERMOST_LINES 4u /* kept of a stack that is too long */

void stack_format_print_stack(const struct stack_format *format, uint32_t callsite, size_t most,
                              const char *indent, FILE *out)
{
    uint32_t charged = folding_charge(format->folding, format->profile, callsite), at, next;
    size_t columns = stack_format_room(format->line_columns, strlen(indent)), lines = 0, line = 0;
    for (at = callsite; at != PROFILE_NONE; at = put_line(format, at, charged, 0, NULL))
        lines++;
    size_t left_out = most == 0 || lines <= most ? 0 : lines - most + 1;
    size_t first = most - OUTERMOST_LINES - 1;
    for (at = callsite; at != PROFILE_NONE; at = next, line++) {
        bool is_left_out = left_out > 0 && line >= first && line < first + left_out;
        if (is_left_out && line == first)
            fprintf(out, "%s... %zu lines more; --stacks shows them\n", indent, left_out);
        if (!is_left_out)
            fputs(indent, out);
        next = put_line(format, at, charged, columns, is_left_out ? NULL : out);
        if (!is_left_out)
            fputc('\n', out);
    }
}
