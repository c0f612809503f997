/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resolves rows, which have ids, to sites, which have callsites and types (state.h). A part waits
 * until everything that it refers to is known: maps can be in a later event of the same dump or of
 * an earlier one, and so can the regions of its addresses. The wait ends when one of its ids is
 * redefined.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/import/heap_figures.h"
#include "profile/import/memory_infra/state.h"

#define BROKEN_STACK "[broken stack]"
#define UNKNOWN_TYPE "[unknown]"

/* Number of dumps before and after one that are searched for an address. A hostile file has any
 * number of them, each with other regions. */
#define DUMPS_AROUND_MAX 256u

/* Search a dump, and those before or after it. Set *has_memory if one has memory there. */
static uint32_t search(struct importing *importing, uint32_t at, bool forwards, uint64_t address,
                       uint64_t *rel_pc, bool *has_memory)
{
    uint32_t mapping = PROFILE_NONE;
    for (unsigned i = 0; i <= DUMPS_AROUND_MAX && at != IMPORT_NONE && mapping == PROFILE_NONE;
         i++) {
        struct import_process_dump *dump = &importing->process_dumps[at];
        mapping = region_set_find(&dump->regions, importing->builder, address, rel_pc, has_memory);
        at = forwards ? dump->after : dump->before;
    }
    return mapping;
}

/* Count an address once for its process. */
static void note_stray(struct importing *importing, uint64_t address, enum import_stray stray)
{
    const uint64_t key[] = {importing->resolving_process, address};
    bool added;
    if (importing->naming == NULL)
        return;
    if (intern_bytes(&importing->stray_ids, key, sizeof(key), &added) == 0)
        builder_fail(importing->builder);
    else
        importing->naming->strays[stray] += added;
}

/* Find an address in the regions of its dump, else in earlier ones of the process, else in later
 * ones, which may still come. */
static uint32_t find_address(void *context, uint64_t address, uint64_t *rel_pc)
{
    struct importing *importing = context;
    uint32_t own = importing->resolving_dump;
    bool has_memory = false;
    if (!importing->process_dumps[own].has_regions)
        own = importing->processes[importing->resolving_process].last_dump;
    uint32_t mapping = search(importing, own, false, address, rel_pc, &has_memory);
    if (mapping == PROFILE_NONE && own != IMPORT_NONE)
        mapping = search(importing, importing->process_dumps[own].after, true, address, rel_pc,
                         &has_memory);
    if (mapping == PROFILE_NONE && !has_memory && !importing->resolves_last)
        importing->resolver.awaits_address = true;
    else if (mapping == PROFILE_NONE)
        note_stray(importing, address,
                   has_memory           ? IMPORT_NO_FILE
                   : own == IMPORT_NONE ? IMPORT_NO_MAPS
                                        : IMPORT_NO_REGION);
    else if (!import_is_file(importing->builder->profile->mappings[mapping].path))
        note_stray(importing, address, IMPORT_NO_FILE);
    return mapping;
}

/* Forget the callsites of nodes unless addresses still lead to the same places. */
static void enter_dump(struct importing *importing, uint32_t process_dump)
{
    uint32_t index = importing->process_dumps[process_dump].process;
    struct import_process *process = &importing->processes[index];
    uint32_t with_regions =
        importing->process_dumps[process_dump].has_regions ? process_dump : process->last_dump;
    uint64_t code =
        with_regions == IMPORT_NONE ? 0 : importing->process_dumps[with_regions].regions.code;
    importing->resolver.find_address = find_address;
    importing->resolver.context = importing;
    importing->resolving_dump = process_dump;
    if (importing->resolving_process == index && process->regions_code == code)
        return;
    importing->resolving_process = index;
    if (process->regions_code != code)
        stack_maps_forget_callsites(&process->maps);
    process->regions_code = code;
}

static void complain(struct importing *importing, const struct import_part *part, const char *text)
{
    struct error problem;
    error_set(&problem, -EBADMSG, "at byte %" PRIu64 ", in event %" PRIu64 ", heap %.60s: %s",
              part->offset, part->event, importing->builder->strings[part->name], text);
    importing_problem(importing, &problem);
}

/* Return false if the type is in no map; *type is then 0. */
static bool find_type(const struct importing *importing, struct stack_maps *maps, uint64_t id,
                      uint32_t *type)
{
    bool found = stack_type(maps, id, type);
    if (!found || strcmp(importing->builder->strings[*type], UNKNOWN_TYPE) == 0)
        *type = 0;
    return found;
}

/* Make a row's site. `last`: replace missing parts. Return false if something is not known yet. */
static bool resolve_row(struct importing *importing, const struct import_part *part,
                        const struct import_row *row, bool last, struct import_site *site)
{
    struct stack_maps *maps =
        &importing->processes[importing->process_dumps[part->process_dump].process].maps;
    uint64_t missing = 0;
    char text[200];
    *site = (struct import_site){PROFILE_NONE, 0, row->bytes, row->count};
    if (!find_type(importing, maps, row->type, &site->type)) {
        if (!last)
            return false;
        snprintf(text, sizeof(text), "type %" PRIu64 " is in no map", row->type);
        complain(importing, part, text);
    }
    enum stack_status status =
        stack_resolve(&importing->resolver, maps, row->node, &site->callsite, &missing);
    if (status == STACK_FOUND)
        return true;
    if (!last &&
        (status == STACK_NO_NODE || status == STACK_NO_STRING || status == STACK_NO_ADDRESS))
        return false;
    if (status == STACK_NO_MEMORY) {
        builder_fail(importing->builder);
        return true;
    }
    stack_status_describe(status, row->node, missing, text, sizeof(text));
    complain(importing, part, text);
    site->callsite = heap_figures_marker(importing->builder, BROKEN_STACK);
    return true;
}

int import_resolve_part(struct importing *importing, struct import_part *part, bool last)
{
    struct builder *builder = importing->builder;
    if (part->resolved || (!last && !importing->process_dumps[part->process_dump].has_regions))
        return 0;
    enter_dump(importing, part->process_dump);
    importing->resolves_last = last;
    struct import_site *sites = reallocarray(NULL, part->count + 1, sizeof(*sites));
    if (sites == NULL)
        return builder_fail(builder);
    for (size_t i = 0; i < part->count && builder->error == 0; i++) {
        if (!resolve_row(importing, part, &part->rows[i], last, &sites[i])) {
            free(sites);
            return 0;
        }
    }
    free(part->rows);
    part->rows = NULL;
    part->sites = sites;
    part->resolved = true;
    return builder->error;
}

int import_resolve_rest(struct importing *importing, uint32_t process)
{
    struct import_process *of = &importing->processes[process];
    int code = 0;
    if (process == IMPORT_NONE) {
        for (size_t i = 0; i < importing->part_count && code == 0; i++)
            code = import_resolve_part(importing, &importing->parts[i], true);
        return code;
    }
    for (uint32_t i = of->first_waiting; i != IMPORT_NONE && code == 0;
         i = importing->parts[i].next_waiting)
        code = import_resolve_part(importing, &importing->parts[i], true);
    of->first_waiting = IMPORT_NONE;
    return code;
}
