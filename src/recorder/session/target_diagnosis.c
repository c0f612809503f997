/* SPDX-License-Identifier: Apache-2.0 */
/* Collect the facts of a target for the remark of its last dump. */
#include "recorder/session/target.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "recorder/processes/diagnosis.h"
#include "recorder/session/heap_rules.h"
#include "util/clock.h"

static unsigned other_heaps_known(const struct ledger *ledger)
{
    size_t count;
    unsigned known = 0;
    const struct ledger_heap *heaps = ledger_heaps(ledger, &count);
    for (size_t i = 1; i < count; i++)
        known += heaps[i].known;
    return known;
}

static bool heap_was_reported(const struct ledger *ledger, const char *name)
{
    size_t count;
    const struct ledger_heap *heaps = ledger_heaps(ledger, &count);
    for (size_t i = 0; i < count; i++) {
        if (heaps[i].known && strcmp(heaps[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Return whether the session wants this heap and the process never announced it. */
static bool is_unreported(const struct target *target, const char *name)
{
    return heap_config_wants_heap(target->config, name) && !heap_was_reported(target->ledger, name);
}

/* List the unreported heaps that the session named, without those of the profiler itself. */
static void list_unreported(const struct target *target, char *list, size_t size)
{
    char **name = target->config->heaps;
    size_t used = 0;
    list[0] = 0;
    for (; name != NULL && *name != NULL; name++) {
        if (!is_unreported(target, *name) || strcmp(*name, HEAP_CONFIG_MMAP) == 0 ||
            strcmp(*name, HEAP_CONFIG_PYTHON) == 0)
            continue;
        if (size - used < RING_HEAP_NAME_BYTES + sizeof(", and others")) {
            strcpy(list + used, ", and others");
            return;
        }
        used += (size_t)snprintf(list + used, size - used, "%s%.63s", used > 0 ? ", " : "", *name);
    }
}

void target_diagnose(const struct target *target, const struct target_end *end, char *remark)
{
    struct ledger_counts counts = ledger_counts(target->ledger);
    char code_remark[NON_MODULE_REMARK_BYTES] = "";
    if (target->non_module_code != NULL)
        non_module_code_remark(target->non_module_code, code_remark);
    char attach_remark[sizeof(target->attach_remark) + 3 * ATTACH_LEFT_BYTES];
    target_remark_families(target, attach_remark, sizeof(attach_remark));
    char unreported[DIAGNOSIS_BYTES_MAX / 4];
    list_unreported(target, unreported, sizeof(unreported));
    struct diagnosis_facts facts = {
        .name = process_info_name(&target->info),
        .executable = process_info_program(&target->info),
        .said_hello = true,
        .allocator = target->allocator,
        .unseen_reason = target->unseen_reason,
        .interval_bytes = target->interval_bytes,
        .heaps_reported = other_heaps_known(target->ledger),
        .unreported = unreported,
        .mmap_wanted = heap_config_wants_heap(target->config, HEAP_CONFIG_MMAP),
        .mmap_unreported = target->config->heaps != NULL && is_unreported(target, HEAP_CONFIG_MMAP),
        .python_unreported =
            target->config->heaps != NULL && is_unreported(target, HEAP_CONFIG_PYTHON),
        .hides_python_objects =
            target->was_attached && is_unreported(target, HEAP_CONFIG_PYTHON) &&
            code_table_has(&ledger_callsites(target->ledger)->code, RECORD_LANGUAGE_PYTHON),
        .python = target->python,
        .samples = counts.allocs,
        .totals = target->totals,
        .corrupted = target->corrupted,
        .out_of_memory = target->out_of_memory,
        .hit_guardrail = target->hit_guardrail,
        .attached = target->was_attached,
        .attach_moment = target->moment,
        .is_complete = target->is_complete,
        .others_wanted = heap_rules_want_others(target->config),
        .attach_stopped_us = target->attach_stopped_us,
        .detach_stopped_us = target->detach_stopped_us,
        .calls_cut = target->calls_cut,
        .attach_missed_us = target->began_us > 0 ? target->attached_us - target->began_us : 0,
        .known_us = clock_read_us(CLOCK_MONOTONIC) - target->began_us,
        .start_was_reported = target->start_was_reported,
        .is_linked = target->is_linked && target->config->heaps == NULL,
        .may_join = target->may_join,
        .attach_remark = attach_remark,
        .forked = target->origin == HANDSHAKE_FORK,
        .running = end->running && target->exec != TARGET_EXEC_AWAY,
        .interrupted = end->interrupted,
        .became = target->exec != TARGET_EXEC_NONE ? target->became : NULL,
        .became_after_ms =
            target->became_ms > target->start_ms ? target->became_ms - target->start_ms : 0,
        .became_hint = target->became_hint,
        .became_target = target->exec == TARGET_EXEC_SUPERSEDED,
        .replaced = target->replaced[0] != 0 ? target->replaced : NULL,
        .replaced_kept = target->replaced_kept,
        .replaced_samples = target->replaced_samples,
        .busy_bytes = target->reader.busy_bytes,
        .unknown_stacks = counts.unknown_stacks,
        .lost_frees = counts.lost_frees,
        .code_remark = code_remark,
        .is_go = target->is_go,
    };
    diagnosis_write(&facts, remark, DIAGNOSIS_BYTES_MAX);
}
