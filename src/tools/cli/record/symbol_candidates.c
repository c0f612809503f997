/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the modules for which a file may add names, and drops the others with a reason. Of a
 * module whose file has no more symbols than the recorder has read, only addresses without a name
 * are kept: the file tells where their functions start. */
#include "tools/cli/record/symbol_candidates.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "profile/symbols/mapped_guard.h"
#include "tools/cli/files/symbol_options.h"
#include "trace/intern.h"
#include "util/clock.h"
#include "util/xmalloc.h"

/* --- modules --- */

/* Return the number of a mapping's module. Processes that map the same file share it. */
static uint32_t find_module(struct symbol_candidates *addresses, struct intern_table *ids,
                            const struct profile_mapping *mapping)
{
    const void *key[] = {mapping->path, mapping->build_id, (void *)(uintptr_t)mapping->load_bias};
    struct trace_addresses *found = &addresses->found;
    bool added;
    uint64_t id = xmalloc_id(intern_bytes(ids, key, sizeof(key), &added));
    if (!added)
        return (uint32_t)(id - 1);
    struct trace_module module = {.load_bias = mapping->load_bias, .path = xstrdup(mapping->path)};
    trace_module_set_build_id(&module, mapping->build_id);
    XARRAY_ADD(&found->modules, &found->count, &found->capacity, module);
    return (uint32_t)(id - 1);
}

static void take_modules(struct symbol_candidates *addresses, const struct profile *profile)
{
    struct intern_table ids = {0};
    for (size_t i = 0; i < profile->mapping_count; i++)
        addresses->module_of[i] = profile->mappings[i].path[0] == '\0'
                                      ? PROFILE_NONE
                                      : find_module(addresses, &ids, &profile->mappings[i]);
    intern_free(&ids);
}

/* --- choosing modules --- */

struct search {
    struct symbol_finder *finder;
    const struct trace_module *module;
    struct symbol_found found;
};

static int search(void *context)
{
    struct search *at = context;
    return symbol_finder_find(at->finder, at->module->path, at->module->build_id,
                              at->module->build_id_length, &at->found);
}

/* Return 1 + the reason why nothing can be added for a module; 0: a file may add names. */
static uint8_t reason_of(struct symbol_finder *finder, const struct trace_module *module)
{
    struct search at = {.finder = finder, .module = module};
    if (mapped_guard_run(search, &at) < 0)
        return 1 + SYMBOL_SHRANK;
    uint8_t reason = 0;
    if (at.found.path == NULL)
        reason = 1 + (at.found.other_build != NULL   ? SYMBOL_OTHER_BUILD
                      : module->build_id_length == 0 ? SYMBOL_NO_BUILD_ID
                                                     : SYMBOL_NO_FILE);
    else if (at.found.quality < SYMBOLS_DWARF && strcmp(at.found.path, module->path) == 0)
        reason = 1 + SYMBOL_NO_INFORMATION;
    symbol_found_clear(&at.found);
    return reason;
}

/* Drop the modules that have a reason, and renumber the others. One whose file was read stays. */
static void drop_modules(struct symbol_candidates *addresses, struct symbol_finder *finder,
                         uint8_t *reasons)
{
    struct trace_addresses *found = &addresses->found;
    uint8_t *reason = xcalloc(found->count + 1, sizeof(*reason));
    uint32_t *now = xcalloc(found->count + 1, sizeof(*now));
    addresses->wants_nameless = xcalloc(found->count + 1, sizeof(*addresses->wants_nameless));
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++) {
        reason[i] = reason_of(finder, &found->modules[i]);
        bool is_kept = reason[i] == 0 || reason[i] == 1 + SYMBOL_NO_INFORMATION;
        now[i] = is_kept ? (uint32_t)kept : PROFILE_NONE;
        if (!is_kept) {
            free(found->modules[i].path);
            continue;
        }
        addresses->wants_nameless[kept] = reason[i] != 0;
        found->modules[kept++] = found->modules[i];
    }
    for (size_t i = 0; i < addresses->mapping_count; i++) {
        uint32_t module = addresses->module_of[i];
        if (module == PROFILE_NONE)
            continue;
        reasons[i] = reason[module];
        addresses->module_of[i] = now[module];
    }
    found->count = kept;
    free(reason);
    free(now);
}

/* --- addresses --- */

size_t symbol_candidates_processes(const struct profile *profile,
                                   pid_t processes[TRACE_PROCESSES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < profile->heap_count && count < TRACE_PROCESSES_MAX; i++) {
        pid_t pid = profile->processes[profile->heaps[i].process].pid;
        size_t known = 0;
        while (known < count && processes[known] != pid)
            known++;
        if (known == count)
            processes[count++] = pid;
    }
    return count;
}

/* Return when the first process with a profile began, in nanoseconds since 1970; 0: unknown. The
 * run has just ended, so the machine's clocks are those of the trace. */
static int64_t begin_of(const struct profile *profile)
{
    uint64_t earliest_us = UINT64_MAX;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_process *process = &profile->processes[profile->heaps[i].process];
        if (!process->has_start)
            return 0;
        if (process->start_boottime_ns / 1000 < earliest_us)
            earliest_us = process->start_boottime_ns / 1000;
    }
    if (earliest_us == UINT64_MAX)
        return 0;
    uint64_t age_us = clock_read_us(CLOCK_BOOTTIME) - earliest_us;
    return (int64_t)(clock_read_us(CLOCK_REALTIME) - age_us) * 1000;
}

static void take_addresses(struct symbol_candidates *addresses, const struct profile *profile)
{
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        uint32_t index =
            frame->mapping == PROFILE_NONE ? PROFILE_NONE : addresses->module_of[frame->mapping];
        if (index == PROFILE_NONE || (addresses->wants_nameless[index] && *frame->name != '\0'))
            continue;
        struct trace_module *module = &addresses->found.modules[index];
        const char *name = frame->linkage_name;
        xmalloc_code(trace_module_add_address(module, frame->rel_pc));
        if (*name != '\0' && module->build_id_length == 0)
            xmalloc_code(
                trace_module_add_name(module, frame->rel_pc, XXH3_64bits(name, strlen(name))));
    }
    trace_addresses_sort(&addresses->found);
}

void symbol_candidates_collect(struct symbol_candidates *addresses, const struct profile *profile,
                               struct symbol_finder *finder, uint8_t *reasons)
{
    addresses->mapping_count = profile->mapping_count;
    addresses->module_of = xcalloc(profile->mapping_count + 1, sizeof(*addresses->module_of));
    take_modules(addresses, profile);
    /* Those that still run may hold files that were deleted or replaced. */
    addresses->found.process_count =
        symbol_candidates_processes(profile, addresses->found.processes);
    symbol_finder_set_processes(finder, addresses->found.processes, addresses->found.process_count);
    addresses->found.begun_ns = begin_of(profile);
    symbol_finder_set_begin(finder, addresses->found.begun_ns);
    drop_modules(addresses, finder, reasons);
    take_addresses(addresses, profile);
}

void symbol_candidates_set_reasons(const struct symbol_candidates *addresses,
                                   const struct symbolize_report *report, uint8_t *reasons)
{
    for (size_t i = 0; i < addresses->mapping_count; i++) {
        uint32_t index = addresses->module_of == NULL ? PROFILE_NONE : addresses->module_of[i];
        if (index == PROFILE_NONE || index >= report->count)
            continue;
        uint8_t reason = symbol_options_main_reason(&report->modules[index]);
        if (reason != 0)
            reasons[i] = reason;
    }
}

void symbol_candidates_clear(struct symbol_candidates *addresses)
{
    trace_addresses_clear(&addresses->found);
    free(addresses->module_of);
    free(addresses->wants_nameless);
    *addresses = (struct symbol_candidates){0};
}
