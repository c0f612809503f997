/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes collapsed stacks (collapsed.h). The name of an interpreted function has its file. In a
 * frame's name a semicolon becomes a colon, as in all
 * collapsing scripts; a character that ends a line or moves the cursor becomes a space, and invalid
 * UTF-8 a question mark. Spaces stay: the number follows the last one. But flamegraph.pl takes two
 * numbers at the end for a comparison, so a space before a number at a name's end becomes an
 * underscore.
 */
#include "tools/export/collapsed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "trace/proto_buffer.h"
#include "util/terminal_text.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

/* Many frames can share one long name. Names beyond this limit are made again each time. */
#define KEPT_BYTES_MAX ((size_t)32 << 20)

struct names {
    const struct profile *profile;
    struct proto_buffer text; /* escaped, each with its length before it */
    size_t kept_bytes; /* stored names; text beyond them is the last name that is not stored */
    size_t *at;        /* by frame: position in text + 1; 0: not made yet */
};

static bool is_blank(char c)
{
    return (unsigned char)c <= ' ' || c == 0x7f;
}

/* Return where a number at the end of a name begins, after its space, or NULL. */
static char *find_number_at_end(char *name, size_t length)
{
    char *end = name + length, *at = end;
    while (at > name && ((at[-1] >= '0' && at[-1] <= '9') || at[-1] == '.'))
        at--;
    return at < end && at > name && at[-1] == ' ' ? at : NULL;
}

/* Append a name, escaped. An empty name becomes "?". */
static void put_name(struct proto_buffer *text, const char *name)
{
    size_t length = strlen(name);
    char *to = (char *)proto_buffer_reserve(text, length + 1), *number;
    if (to == NULL)
        return;
    for (size_t i = 0, bytes; i < length; i += bytes) {
        bytes = utf8_length((const unsigned char *)name + i);
        memcpy(to + i, name + i, bytes);
        if (bytes > 1 && terminal_text_commands((const unsigned char *)name + i, bytes))
            memset(to + i, ' ', bytes);
        if (bytes > 1)
            continue;
        to[i] = bytes == 0 ? '?' : name[i] == ';' ? ':' : is_blank(name[i]) ? ' ' : name[i];
        bytes = 1;
    }
    while (length > 0 && to[length - 1] == ' ')
        length--;
    if (length == 0)
        to[length++] = '?';
    if ((number = find_number_at_end(to, length)) != NULL)
        number[-1] = '_';
    text->length += length;
}

/* Return the position of a frame's name in the text, valid until the next one is made. */
static const uint8_t *make_name(struct names *names, uint32_t frame)
{
    char label[PROFILE_LABEL_BYTES];
    size_t begin = names->kept_bytes, length = 0;
    names->text.length = begin;
    proto_put_raw(&names->text, &length, sizeof(length));
    put_name(&names->text,
             interpreter_frames_label(names->profile, &names->profile->frames[frame], label));
    if (names->text.failed)
        xmalloc_fail(0);
    length = names->text.length - begin - sizeof(length);
    memcpy(names->text.bytes + begin, &length, sizeof(length));
    if (begin < KEPT_BYTES_MAX) {
        names->at[frame] = begin + 1;
        names->kept_bytes = names->text.length;
    }
    return names->text.bytes + begin;
}

/* --- a line --- */

/* Write a stack's line. `frames`: innermost first. */
static void write_line(struct names *names, const struct proto_buffer *prefix,
                       const uint32_t *frames, size_t depth, uint64_t value, FILE *out)
{
    if (prefix->length > 0)
        fwrite(prefix->bytes, 1, prefix->length, out);
    while (depth-- > 0) {
        uint32_t frame = frames[depth];
        const uint8_t *name = names->at[frame] != 0 ? names->text.bytes + names->at[frame] - 1
                                                    : make_name(names, frame);
        size_t length;
        memcpy(&length, name, sizeof(length));
        fwrite(name + sizeof(length), 1, length, out);
        fputc(depth > 0 ? ';' : ' ', out);
    }
    fprintf(out, "%" PRIu64 "\n", value);
}

/* --- a dump --- */

static void put_prefix(struct proto_buffer *prefix, const char *name)
{
    put_name(prefix, name);
    proto_put_raw(prefix, ";", 1);
}

/* Make the outermost frames, which name the process and heap if there are several. `heaps`: number
 * of written heaps, by process. */
static void make_prefix(const struct profile *profile, const struct export_dump *dumps,
                        size_t dump_count, size_t which, const uint32_t *heaps,
                        struct proto_buffer *prefix)
{
    uint32_t own = dumps[which].heap->process;
    bool has_other_heap = heaps[own] > 1;
    prefix->length = 0;
    if (heaps[own] < dump_count) {
        char name[PROFILE_LABEL_BYTES];
        const struct profile_process *process = &profile->processes[own];
        snprintf(name, sizeof(name), "%.200s (%d)", *process->name == '\0' ? "?" : process->name,
                 process->pid);
        put_prefix(prefix, name);
    }
    if (has_other_heap)
        put_prefix(prefix, dumps[which].heap->name);
    if (prefix->failed)
        xmalloc_fail(0);
}

static size_t write_dump(struct names *names, const struct profile_dump *dump,
                         const struct proto_buffer *prefix, enum export_view view, uint32_t *room,
                         FILE *out)
{
    struct export_rounding rounding = {0};
    size_t lines = 0;
    for (size_t i = 0; i < dump->sample_count; i++) {
        const struct profile_sample *sample = dump->samples[i];
        uint64_t value = export_round(&rounding, export_view_value(sample, view));
        if (value == 0)
            continue;
        size_t depth = export_take_stack(names->profile, sample->callsite, room);
        write_line(names, prefix, room, depth, value, out);
        lines++;
    }
    return lines;
}

size_t collapsed_write(const struct profile *profile, const struct export_dump *dumps,
                       size_t dump_count, enum export_view view, FILE *out)
{
    struct names names = {.profile = profile,
                          .at = xcalloc(profile->frame_count + 1, sizeof(*names.at))};
    struct proto_buffer prefix = {0};
    uint32_t *room = xreallocarray(NULL, export_deepest_stack(profile), sizeof(*room));
    uint32_t *heaps = xcalloc(profile->process_count + 1, sizeof(*heaps));
    size_t lines = 0;
    for (size_t i = 0; i < dump_count; i++)
        heaps[dumps[i].heap->process]++;
    for (size_t i = 0; i < dump_count; i++) {
        make_prefix(profile, dumps, dump_count, i, heaps, &prefix);
        lines += write_dump(&names, dumps[i].dump, &prefix, view, room, out);
    }
    free(heaps);
    free(room);
    free(names.at);
    proto_buffer_free(&names.text);
    proto_buffer_free(&prefix);
    return lines;
}
