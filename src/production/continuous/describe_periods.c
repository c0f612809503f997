/* SPDX-License-Identifier: Apache-2.0 */
/* Bring together the processes of a profile and those that the collector knows. */
#include "production/continuous/describe_periods.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/main_program.h"

/* Beside a process's own labels: heap, cut_by. */
#define MORE_LABELS 2
#define LABELS_OF_A_PERIOD (LABELS_MAX + MORE_LABELS)

/* --- processes --- */

/* Set the build id of the process's own program, from the mappings in the trace. */
static void find_build_id(struct known_process *process, const struct profile *profile)
{
    struct main_program program;
    if (process->has_build_id)
        return;
    main_program_find(&program, process->pid);
    for (size_t i = 0; i < profile->mapping_count && !process->has_build_id; i++) {
        const struct profile_mapping *mapping = &profile->mappings[i];
        if (mapping->build_id[0] != '\0' && strcmp(mapping->path, program.file) == 0) {
            labels_set(&process->labels, "build_id", mapping->build_id);
            process->has_build_id = true;
        }
    }
}

void describe_processes(struct programs *programs, const struct profile *profile)
{
    int64_t offset_ns = profile->boottime_to_realtime_ns;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_process *of = &profile->processes[profile->heaps[i].process];
        struct known_process *process = programs_find_or_add(programs, of->pid, of->name, "");
        if (process == NULL)
            continue;
        find_build_id(process, profile);
        programs_take_heap(process, profile, &profile->heaps[i], offset_ns);
    }
}

/* --- periods --- */

/* Return whether the period ended because its process was lent to another session. */
static bool was_cut(const struct known_process *process, const struct period *period)
{
    return process != NULL && process->is_cut && period->is_final && period->end_reason[0] == '\0';
}

static struct known_process *process_of(struct programs *programs, const struct period *period)
{
    return programs_find(programs, period->profile->processes[period->heap->process].pid);
}

struct period_label *describe_periods(struct programs *programs, struct period *periods,
                                      size_t count)
{
    struct period_label *all = calloc(count * LABELS_OF_A_PERIOD + 1, sizeof(*all));
    for (size_t i = 0; i < count && all != NULL; i++) {
        static const struct labels none;
        struct period *period = &periods[i];
        const struct known_process *process = process_of(programs, period);
        struct period_label more[MORE_LABELS] = {{"heap", period->heap->name}};
        size_t more_count = 1;
        if (was_cut(process, period)) {
            more[1] = more[0];
            more[0] = (struct period_label){"cut_by", "session"};
            more_count = 2;
            period->end_reason = "lent to a session";
        }
        period->labels = all + i * LABELS_OF_A_PERIOD;
        period->label_count = labels_with(process != NULL ? &process->labels : &none, more,
                                          more_count, all + i * LABELS_OF_A_PERIOD);
    }
    for (size_t i = 0; i < count; i++) {
        struct known_process *process = process_of(programs, &periods[i]);
        if (process != NULL && periods[i].is_final)
            process->is_cut = false;
    }
    return all;
}
