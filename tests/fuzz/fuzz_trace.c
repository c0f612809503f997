/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a trace: read, built into a profile, summed up and written as pprof. A resulting
 * profile must be consistent.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "profile/builder/profile_read.h"
#include "profile/stack_samples.h"
#include "profile_checks.h"
#include "tools/export/collapsed.h"
#include "tools/export/pprof.h"
#include "tools/export/speedscope.h"

static void check_dump(const struct profile *profile, const struct pprof_file_names *names,
                       const struct profile_heap *heap, const struct profile_dump *dump)
{
    char name[256];
    check_samples(profile, dump);
    pprof_file_name(names, heap, dump, name, sizeof(name));
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pprof_write(profile, heap, dump, &(struct pprof_options){.gzip = true, .annotated = true}, fd,
                NULL);
    close(fd);
}

/* Write collapsed stacks of the selected dumps: the last of each heap. */
static void check_stacks(const struct profile *profile)
{
    struct export_dump dumps[8];
    size_t count = 0;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    for (size_t i = 0; i < profile->heap_count && count < 8; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (heap->dump_count > 0)
            dumps[count++] = (struct export_dump){heap, &heap->dumps[heap->dump_count - 1]};
    }
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
        collapsed_write(profile, dumps, count, view, out);
    /* A line is a stack and its number, whatever the names are. */
    fflush(out);
    for (size_t i = 0; i < length; i++)
        check((unsigned char)text[i] >= ' ' || text[i] == '\n');
    speedscope_write(profile, dumps, count, "fuzz", out);
    fclose(out);
    free(text);
}

/* Rows are in the order of their numbers, and refer to numbers that are in use. */
static void check_stack_samples(const struct profile *profile)
{
    const struct profile_stack_samples *rows = profile->stack_samples;
    for (size_t i = 0; rows != NULL && i < rows->sample_count; i++) {
        const struct profile_stack_sample *sample = &rows->samples[i];
        check(sample->callsite < profile->callsite_count && sample->session < rows->session_ids &&
              sample->id < rows->sample_ids && (i == 0 || sample->id > sample[-1].id));
        check(sample->task == PROFILE_NONE || sample->task < rows->task_ids);
        check(sample->execution == PROFILE_NONE || sample->execution < rows->execution_ids);
    }
    for (size_t i = 0; rows != NULL && i < rows->counter_count; i++)
        check(rows->counters[i].counter < profile->counter_count &&
              rows->counters[i].sample < rows->sample_ids);
    for (size_t i = 0; rows != NULL && i < rows->track_count; i++)
        check(rows->tracks[i].row.id < profile->counter_track_count &&
              rows->tracks[i].session < rows->session_ids);
    for (size_t i = 0; rows != NULL && i < rows->task_count; i++)
        check(rows->tasks[i].async == PROFILE_NONE || rows->tasks[i].async < rows->async_ids);
    for (size_t i = 0; rows != NULL && i < rows->async_count; i++)
        check(rows->asyncs[i].parent == PROFILE_NONE ||
              rows->asyncs[i].parent < rows->asyncs[i].row.id);
    for (size_t i = 0; i < profile->counter_count; i++)
        check(profile->counters[i].track < profile->counter_track_count);
}

/* The same by SQL. */
static void check_in_trace(const uint8_t *bytes, size_t length)
{
    static const struct profile_read_options options = {.demangling = DEMANGLE_NONE,
                                                        .as_in_trace = true};
    struct error error = {0};
    struct profile *profile = profile_read_bytes(bytes, length, &options, &error);
    if (profile == NULL)
        return;
    for (size_t i = 0; i < profile->frame_count; i++)
        check(profile->frames[i].symbol_count == 0 ||
              (size_t)profile->frames[i].symbol_first + profile->frames[i].symbol_count <=
                  profile->symbol_line_count);
    for (size_t i = 0; i < profile->symbol_line_count; i++)
        check(profile->symbol_lines[i].set <= i && profile->symbol_lines[i].name != NULL);
    check_stack_samples(profile);
    profile_free(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct error error = {0};
    struct profile *profile = profile_read_bytes(bytes, length, NULL, &error);
    if (profile == NULL) {
        check(error.code < 0 && error.message[0] != '\0');
        return 0;
    }
    check_profile(profile);
    struct pprof_file_names names;
    pprof_file_names_make(&names, profile);
    for (size_t i = 0; i < profile->heap_count; i++) {
        check(profile->heaps[i].process < profile->process_count);
        /* All dumps of a hostile file would take long and show nothing new. */
        for (size_t j = 0; j < profile->heaps[i].dump_count && j < 4; j++)
            check_dump(profile, &names, &profile->heaps[i], &profile->heaps[i].dumps[j]);
    }
    pprof_file_names_clear(&names);
    check_stacks(profile);
    profile_free(profile);
    check_in_trace(bytes, length);
    return 0;
}
