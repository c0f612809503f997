/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes Speedscope's format (speedscope.h). Frames with equal texts are one (two addresses of one
 * line): Speedscope identifies a frame by its position in the table, and would not merge them.
 */
#include "tools/export/speedscope.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/intern.h"
#include "trace/proto_buffer.h"
#include "util/json.h"
#include "util/xmalloc.h"

struct document {
    const struct profile *profile;
    FILE *out;
    uint64_t *entries; /* by frame: its position in the table, from 1; 0: not in it */
    uint32_t *room;    /* for the frames of a stack */
    size_t profiles;
};

/* --- the table of frames --- */

static void write_frame(FILE *out, const struct profile_frame *frame, const char *label)
{
    fputs("{\"name\":", out);
    json_print_string(out, label);
    if (*frame->source_file != '\0') {
        fputs(",\"file\":", out);
        json_print_string(out, frame->source_file);
        if (frame->line != 0)
            fprintf(out, ",\"line\":%" PRIu32, frame->line);
    }
    fputc('}', out);
}

static void write_frames(struct document *document)
{
    const struct profile *profile = document->profile;
    struct intern_table table = {0};
    struct proto_buffer key = {0};
    char label_bytes[PROFILE_LABEL_BYTES];
    bool *are_used = xmalloc_made(profile_frames_on_stacks(profile));
    for (size_t i = 0; i < profile->frame_count; i++) {
        if (!are_used[i])
            continue;
        const struct profile_frame *frame = &profile->frames[i];
        const char *label = profile_frame_label(profile, frame, label_bytes);
        bool added;
        key.length = 0;
        proto_put_raw(&key, label, strlen(label) + 1);
        proto_put_raw(&key, frame->source_file, strlen(frame->source_file) + 1);
        proto_put_raw(&key, &frame->line, sizeof(frame->line));
        if (key.failed)
            xmalloc_fail(0);
        document->entries[i] = xmalloc_id(intern_bytes(&table, key.bytes, key.length, &added));
        if (added) {
            fputs(document->entries[i] == 1 ? "\n" : ",\n", document->out);
            write_frame(document->out, frame, label);
        }
    }
    intern_free(&table);
    proto_buffer_free(&key);
    free(are_used);
}

/* --- a profile --- */

static uint64_t sum_of(const struct profile_dump *dump, enum export_view view)
{
    struct export_rounding rounding = {0};
    for (size_t i = 0; i < dump->sample_count; i++)
        export_round(&rounding, export_view_value(dump->samples[i], view));
    return rounding.written;
}

static void write_stack(struct document *document, uint32_t callsite)
{
    size_t depth = export_take_stack(document->profile, callsite, document->room);
    fputc('[', document->out);
    while (depth-- > 0)
        fprintf(document->out, "%" PRIu64 "%s", document->entries[document->room[depth]] - 1,
                depth > 0 ? "," : "");
    fputc(']', document->out);
}

static void write_samples(struct document *document, const struct profile_dump *dump,
                          enum export_view view, bool weights)
{
    struct export_rounding rounding = {0};
    const char *separator = "";
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint64_t value = export_round(&rounding, export_view_value(dump->samples[i], view));
        if (value == 0)
            continue;
        fputs(separator, document->out);
        if (weights)
            fprintf(document->out, "%" PRIu64, value);
        else
            write_stack(document, dump->samples[i]->callsite);
        separator = weights ? "," : ",\n";
    }
}

static void write_profile(struct document *document, const struct export_dump *chosen,
                          enum export_view view, uint64_t sum)
{
    const struct profile_process *process = &document->profile->processes[chosen->heap->process];
    char name[PROFILE_LABEL_BYTES], pid[24] = "";
    if (process->pid != 0)
        snprintf(pid, sizeof(pid), " (%d)", process->pid);
    snprintf(name, sizeof(name), "%.80s%s, %.80s: %s (%s)",
             *process->name == '\0' ? "?" : process->name, pid, chosen->heap->name,
             export_view_info[view].title, export_view_info[view].name);
    fprintf(document->out,
            "%s\n{\"type\":\"sampled\",\"name\":", document->profiles == 0 ? "" : ",");
    json_print_string(document->out, name);
    fprintf(document->out,
            ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\"samples\":[\n",
            export_view_info[view].counts_bytes ? "bytes" : "none", sum);
    write_samples(document, chosen->dump, view, false);
    fputs("],\n\"weights\":[", document->out);
    write_samples(document, chosen->dump, view, true);
    fputs("]}", document->out);
    document->profiles++;
}

static void write_views(struct document *document, const struct export_dump *chosen)
{
    size_t before = document->profiles;
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
        uint64_t sum = sum_of(chosen->dump, view);
        if (sum > 0)
            write_profile(document, chosen, view, sum);
    }
    if (document->profiles == before)
        write_profile(document, chosen, EXPORT_SPACE, 0);
}

/* --- the file --- */

size_t speedscope_write(const struct profile *profile, const struct export_dump *dumps,
                        size_t dump_count, const char *name, FILE *out)
{
    struct document document = {.profile = profile, .out = out};
    document.entries = xcalloc(profile->frame_count + 1, sizeof(*document.entries));
    document.room = xreallocarray(NULL, export_deepest_stack(profile), sizeof(*document.room));
    fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
          "\"exporter\":\"heapprofd@" HEAPPROFD_VERSION "\",\n\"name\":",
          out);
    json_print_string(out, name);
    fputs(",\n\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[", out);
    write_frames(&document);
    fputs("]},\n\"profiles\":[", out);
    for (size_t i = 0; i < dump_count; i++)
        write_views(&document, &dumps[i]);
    fputs("\n]}\n", out);
    free(document.entries);
    free(document.room);
    return document.profiles;
}
