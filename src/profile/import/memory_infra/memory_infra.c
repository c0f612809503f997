/* SPDX-License-Identifier: Apache-2.0 */
/* The whole import: read all events, resolve the waiting parts, make the profile. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "profile/import/memory_infra/state.h"
#include "profile/import/readers.h"

/* Callsites beyond the number of nodes: regions may move, and ids may be defined again. */
#define CALLSITES_MORE 1000000u

void import_part_free(struct import_part *part)
{
    free(part->rows);
    free(part->sites);
}

static int read_all(struct importing *importing, struct trace_source *source, struct error *error)
{
    int code = memory_infra_read_source(source, &import_visitor, importing, error);
    import_clear_event(importing);
    return code;
}

/* A problem is an error if the file has no heap; otherwise it is a warning. */
static int check_result(struct importing *importing, int code, struct error *error)
{
    if (code == -ENOMEM || importing->part_count > 0)
        return code == -ENOMEM ? code : 0;
    if (code < 0)
        return code;
    if (importing->problems > 0)
        return error_set(error, importing->problem.code, "%s", importing->problem.message);
    if (importing->memory_dumps == 0)
        return error_set(error, -EINVAL,
                         "this JSON has %" PRIu64 " events, but no memory dump (MemoryInfra) among "
                         "them",
                         importing->events);
    return error_set(error, -EINVAL,
                     "the file's %" PRIu64 " memory dumps have no heap dump: Chrome makes them "
                     "where it runs with --memlog",
                     importing->memory_dumps);
}

/* Describe the problems of the file. NULL: none. */
static const char *describe_problems(const struct importing *importing, int code,
                                     const struct error *error, char *text, size_t size)
{
    size_t at = 0;
    if (code == 0 && importing->problems == 0)
        return NULL;
    if (code < 0)
        at = (size_t)snprintf(text, size, "%.240s", error->message);
    if (importing->problems > 0 && at < size)
        at += (size_t)snprintf(text + at, size - at, "%s%.240s", code < 0 ? "; " : "",
                               importing->problem.message);
    if (importing->problems > 1 && at < size)
        snprintf(text + at, size - at, ", and %" PRIu64 " more of the kind",
                 importing->problems - 1);
    return text;
}

static void importing_free(struct importing *importing)
{
    for (size_t i = 0; i < importing->process_count; i++)
        stack_maps_free(&importing->processes[i].maps);
    for (size_t i = 0; i < importing->process_dump_count; i++)
        region_set_free(&importing->process_dumps[i].regions);
    for (size_t i = 0; i < importing->part_count; i++)
        import_part_free(&importing->parts[i]);
    import_clear_event(importing);
    stack_maps_free(&importing->event_maps);
    free(importing->processes);
    free(importing->dumps);
    free(importing->process_dumps);
    free(importing->parts);
    free(importing->threads);
    free(importing->event_smaps);
    free(importing->event_reported);
    free(importing->event_parts);
    id_map_free(&importing->process_ids);
    id_map_free(&importing->dump_ids);
    id_map_free(&importing->process_dump_ids);
    id_map_free(&importing->part_ids);
    stack_resolver_free(&importing->resolver);
    intern_free(&importing->stray_ids);
    import_notes_free(importing->notes);
}

struct profile *import_memory_infra(struct trace_source *source,
                                    const struct profile_read_options *options, struct error *error)
{
    struct importing importing = {
        .builder = builder_new(options),
        .notes = import_notes_new(),
        .naming = options->naming,
        .resolving_process = IMPORT_NONE,
        .resolver.callsites_max = CALLSITES_MORE,
    };
    struct error problem = {0};
    char warning[600];
    int code = -ENOMEM, read_code = 0;
    importing.resolver.builder = importing.builder;
    if (importing.builder != NULL && importing.notes != NULL) {
        read_code = read_all(&importing, source, &problem);
        code = options->naming != NULL && read_code < 0
                   ? read_code
                   : check_result(&importing, read_code, &problem);
    }
    if (code == 0)
        code = import_resolve_rest(&importing, IMPORT_NONE);
    if (code == 0)
        code = import_make_heaps(&importing);
    if (code == 0 && options->naming != NULL)
        code = import_find_names(importing.builder, options->naming);
    const char *problems =
        code < 0 ? NULL
                 : describe_problems(&importing, read_code, &problem, warning, sizeof(warning));
    struct profile *profile = builder_end(importing.builder, &code, problems);
    if (code == -ENOMEM)
        error_set(error, code, "no memory to read the JSON");
    else if (code < 0 && error != NULL)
        *error = problem;
    importing_free(&importing);
    return profile;
}
