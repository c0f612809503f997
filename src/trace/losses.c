/* SPDX-License-Identifier: Apache-2.0 */
/* The table of losses. The amounts are read from the head of a dump. */
#include "trace/losses.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/heap_dump.h"
#include "util/json_writer.h"

#define LOST(id) (offsetof(struct trace_heap_dump, lost) + (id) * sizeof(uint64_t))
#define MEMBER(name) offsetof(struct trace_heap_dump, name)
#define ALL (TRACE_LOSES_SAMPLES | TRACE_LOSES_TOTALS)

#define MORE_ROOM "use a larger --shmem-size or --interval"

const struct trace_loss trace_losses[TRACE_LOSS_IDS] = {
    [TRACE_LOST_OVERRUN] = {"overrun", "hp_lost_overrun", "lost",
                            "samples after the process allocated faster than the profiler could "
                            "read",
                            NULL, TRACE_LOSS_COUNT, TRACE_LOSES_SAMPLES, LOST(TRACE_LOST_OVERRUN)},
    [TRACE_LOST_REENTRANT] = {"reentrant", "hp_lost_reentrant", "lost",
                              "samples in signal handlers, which do not wait for the profiler",
                              NULL, TRACE_LOSS_COUNT, TRACE_LOSES_SAMPLES,
                              LOST(TRACE_LOST_REENTRANT)},
    [TRACE_LOST_NO_SCRATCH] = {"no_scratch", "hp_lost_no_scratch", "lost",
                               "stacks: more threads sampled at once than there are buffers", NULL,
                               TRACE_LOSS_COUNT, 0, LOST(TRACE_LOST_NO_SCRATCH)},
    [TRACE_LOST_NO_THREAD_SLOT] = {"no_thread_slot", "hp_lost_no_thread_slot", "lost",
                                   "calls of threads beyond the 16,384th", NULL, TRACE_LOSS_COUNT,
                                   ALL, LOST(TRACE_LOST_NO_THREAD_SLOT)},
    [TRACE_LOST_LIVE_SET] = {"live_set", "hp_lost_live_set", "lost",
                             "frees: there was no memory to remember their allocations", NULL,
                             TRACE_LOSS_COUNT, TRACE_LOSES_FREES, LOST(TRACE_LOST_LIVE_SET)},
    [TRACE_LOST_UNWIND] = {"unwind", "hp_lost_unwind", "incomplete",
                           "stacks that end before the outermost frame; their figures count", NULL,
                           TRACE_LOSS_COUNT, 0, LOST(TRACE_LOST_UNWIND)},
    [TRACE_LOST_ABANDONED] = {"abandoned", "hp_lost_abandoned", "lost",
                              "samples that a signal handler left by longjmp, or that came too "
                              "late",
                              NULL, TRACE_LOSS_COUNT, TRACE_LOSES_FREES,
                              LOST(TRACE_LOST_ABANDONED)},
    [TRACE_LOST_FREE] =
        {"free", "hp_lost_free", "lost",
         "frees in signal handlers, which do not wait for the profiler, or of threads "
         "beyond the 16,384th",
         NULL, TRACE_LOSS_COUNT, TRACE_LOSES_FREES, LOST(TRACE_LOST_FREE)},
    [TRACE_LOST_ALLOCATIONS] = {"allocations", "hp_lost_allocations", "lost",
                                "allocations whose samples never arrived", NULL, TRACE_LOSS_COUNT,
                                TRACE_LOSES_SAMPLES, LOST(TRACE_LOST_ALLOCATIONS)},
    [TRACE_LOST_ALLOCATED_BYTES] = {"allocated_bytes", "hp_lost_allocated_bytes", "lost",
                                    "in allocations whose samples never arrived", NULL,
                                    TRACE_LOSS_BYTES, TRACE_LOSES_SAMPLES,
                                    LOST(TRACE_LOST_ALLOCATED_BYTES)},
    [TRACE_LOST_SCOPES] = {"scopes", "hp_lost_scopes", "lost",
                           "begins or ends of contexts: some slices end too late, or are missing",
                           NULL, TRACE_LOSS_COUNT, 0, LOST(TRACE_LOST_SCOPES)},
    [TRACE_LOST_INTERPRETER_STATE] =
        {"interpreter_state", "hp_lost_interpreter_state", "incomplete",
         "stacks without an interpreter's functions: the state of the thread "
         "was in doubt; the interpreter's own frames stand",
         NULL, TRACE_LOSS_COUNT, 0, LOST(TRACE_LOST_INTERPRETER_STATE)},
    [TRACE_LOST_INTERPRETER_UNKNOWN] =
        {"interpreter_unknown", "hp_lost_interpreter_unknown", "incomplete",
         "stacks without an interpreter's functions: they are read of "
         "CPython 3.9 to 3.15, built for release with a GIL, and "
         "of Ruby 3.1 to 3.4 on x86-64",
         NULL, TRACE_LOSS_COUNT, 0, LOST(TRACE_LOST_INTERPRETER_UNKNOWN)},
    [TRACE_LOST_MODULES] =
        {"modules", "hp_lost_modules", "incomplete",
         "frames of stacks without a name: more than 4,096 libraries were loaded "
         "at once",
         NULL, TRACE_LOSS_COUNT, 0, LOST(TRACE_LOST_MODULES)},
    [TRACE_LOST_RING_BYTES] = {"unsent_ring_bytes", "hp_lost_ring_bytes", "lost",
                               "of records unfinished at the process's death", NULL,
                               TRACE_LOSS_BYTES, TRACE_LOSES_SAMPLES, MEMBER(unsent_bytes_of_ring)},
    [TRACE_LOSS_BLOCKED_US] = {"blocked_us", "heapprofd_client_spinlock_blocked", "slowed down",
                               "that threads waited for the profiler, added up over all of them",
                               "use a larger --shmem-size or -i", TRACE_LOSS_MICROSECONDS, 0,
                               MEMBER(blocked_us)},
    [TRACE_LOSS_OTHER_TYPES] = {"other_types", "hp_other_types", "other types",
                                "samples, of types beyond the 65,536th", NULL, TRACE_LOSS_COUNT, 0,
                                MEMBER(other_types)},
    [TRACE_LOSS_OTHER_CONTEXTS] = {"other_contexts", "hp_other_contexts", "other contexts",
                                   "samples, of contexts beyond the 65,536th", NULL,
                                   TRACE_LOSS_COUNT, 0, MEMBER(other_contexts)},
    [TRACE_LOSS_BUFFER_OVERRAN] = {"buffer_overran", "heapprofd_buffer_overran", "ended early",
                                   "the process allocated faster than the profiler could read",
                                   "use --block-client, a larger --shmem-size or a larger "
                                   "--interval",
                                   TRACE_LOSS_FLAG, ALL, MEMBER(buffer_overran)},
    [TRACE_LOSS_BUFFER_CORRUPTED] = {"buffer_corrupted", "heapprofd_buffer_corrupted",
                                     "ended early",
                                     "the process overwrote the memory that it shares with the "
                                     "profiler",
                                     NULL, TRACE_LOSS_FLAG, ALL, MEMBER(buffer_corrupted)},
    [TRACE_LOSS_DISCONNECTED] = {"disconnected", "heapprofd_client_disconnected", NULL,
                                 "the process ended", NULL, TRACE_LOSS_FLAG, 0,
                                 MEMBER(disconnected)},
    [TRACE_LOSS_REJECTED_CONCURRENT] = {"rejected_concurrent", "heapprofd_rejected_concurrent",
                                        "no profile", "another session was profiling this process",
                                        NULL, TRACE_LOSS_FLAG, ALL, MEMBER(rejected_concurrent)},
    [TRACE_LOSS_HIT_GUARDRAIL] = {"hit_guardrail", "heapprofd_hit_guardrail", "ended early",
                                  "the profiler reached its limit of memory or CPU time", NULL,
                                  TRACE_LOSS_FLAG, ALL, MEMBER(hit_guardrail)},
    [TRACE_LOSS_CLIENT_TIMED_OUT] = {"client_timed_out", "heapprofd_client_error", "ended early",
                                     "a thread waited for the profiler longer than "
                                     "--block-client-timeout",
                                     MORE_ROOM, TRACE_LOSS_CLIENT_ERROR, ALL, MEMBER(client_error)},
    [TRACE_LOSS_CLIENT_STACK_BOUNDS] = {"client_stack_bounds", "heapprofd_client_error",
                                        "ended early",
                                        "the process did not know the bounds of a stack", NULL,
                                        TRACE_LOSS_CLIENT_ERROR, ALL, MEMBER(client_error)},
    [TRACE_LOSS_CLIENT_PROFILER_SILENT] = {"profiler_silent", "heapprofd_client_error",
                                           "ended early",
                                           "the profiler gave no sign of life for 5 s while the "
                                           "process waited for it",
                                           "do not stop the profiler; on an overloaded machine use "
                                           "a larger --interval",
                                           TRACE_LOSS_CLIENT_ERROR, ALL, MEMBER(client_error)},
    [TRACE_LOSS_CLIENT_OTHER] = {"client_error", "heapprofd_client_error", "ended early",
                                 "the profiler's part inside the process had an error", NULL,
                                 TRACE_LOSS_CLIENT_ERROR, ALL, MEMBER(client_error)},
};

/* The values of client_error, and the losses that they mean. The last one holds for all others. */
static const struct {
    uint32_t error;
    enum trace_loss_id id;
} client_errors[] = {
    {TRACE_CLIENT_TIMED_OUT, TRACE_LOSS_CLIENT_TIMED_OUT},
    {TRACE_CLIENT_STACK_BOUNDS, TRACE_LOSS_CLIENT_STACK_BOUNDS},
    {TRACE_CLIENT_PROFILER_SILENT, TRACE_LOSS_CLIENT_PROFILER_SILENT},
    {TRACE_CLIENT_OTHER, TRACE_LOSS_CLIENT_OTHER},
};
#define CLIENT_ERRORS (sizeof(client_errors) / sizeof(client_errors[0]))

/* Return the loss that a value of client_error other than 0 means. */
static enum trace_loss_id loss_of_client_error(uint32_t error)
{
    size_t i = 0;
    while (i < CLIENT_ERRORS - 1 && client_errors[i].error != error)
        i++;
    return client_errors[i].id;
}

/* Return a value of client_error that means this loss. */
static uint32_t client_error_of_loss(enum trace_loss_id id)
{
    size_t i = 0;
    while (i < CLIENT_ERRORS - 1 && client_errors[i].id != id)
        i++;
    return client_errors[i].error;
}

uint64_t trace_loss_amount(const struct trace_heap_dump *status, enum trace_loss_id id)
{
    const void *member = (const char *)status + trace_losses[id].offset;
    uint32_t client_error;
    switch (trace_losses[id].unit) {
    case TRACE_LOSS_FLAG:
        return *(const bool *)member;
    case TRACE_LOSS_CLIENT_ERROR:
        client_error = *(const uint32_t *)member;
        return client_error != 0 && loss_of_client_error(client_error) == id;
    default:
        return *(const uint64_t *)member;
    }
}

const char *trace_loss_unit_name(enum trace_loss_unit unit)
{
    return unit == TRACE_LOSS_BYTES ? " bytes" : unit == TRACE_LOSS_MICROSECONDS ? " us" : "";
}

static void set_amount(struct trace_heap_dump *status, enum trace_loss_id id, uint64_t amount)
{
    void *member = (char *)status + trace_losses[id].offset;
    switch (trace_losses[id].unit) {
    case TRACE_LOSS_FLAG:
        *(bool *)member = amount != 0;
        break;
    case TRACE_LOSS_CLIENT_ERROR:
        *(uint32_t *)member = client_error_of_loss(id);
        break;
    default:
        *(uint64_t *)member = amount;
    }
}

enum trace_loss_id trace_loss_named(const char *name)
{
    enum trace_loss_id id = 0;
    while (id < TRACE_LOSS_IDS && strcmp(trace_losses[id].name, name) != 0)
        id++;
    return id;
}

bool trace_loss_take_name(struct trace_heap_dump *status, const char *name, uint64_t amount)
{
    enum trace_loss_id id = trace_loss_named(name);
    if (id < TRACE_LOSS_IDS)
        set_amount(status, id, amount);
    return id < TRACE_LOSS_IDS;
}

/* Return what follows `begin` in the text; NULL: it does not begin so. */
static const char *after(const char *text, const char *begin)
{
    size_t length = strlen(begin);
    return text != NULL && strncmp(text, begin, length) == 0 ? text + length : NULL;
}

bool trace_loss_take_text(struct trace_heap_dump *status, const char *text)
{
    for (enum trace_loss_id id = 0; id < TRACE_LOSS_IDS; id++) {
        const struct trace_loss *loss = &trace_losses[id];
        const char *rest = loss->label != NULL ? after(after(text, loss->label), ": ") : NULL;
        uint64_t amount = 1;
        int digits = 0;
        if (rest != NULL && !trace_loss_is_flag(id)) {
            bool read = sscanf(rest, "%" SCNu64 "%n", &amount, &digits) == 1;
            rest = read ? after(after(rest + digits, trace_loss_unit_name(loss->unit)), " ") : NULL;
        }
        if (rest == NULL || strcmp(rest, loss->words) != 0)
            continue;
        set_amount(status, id, amount);
        return true;
    }
    return false;
}

enum trace_loss_id trace_loss_find(const struct trace_heap_dump *status, enum trace_loss_id first,
                                   unsigned effects)
{
    enum trace_loss_id id = first;
    while (id < TRACE_LOSS_IDS &&
           ((trace_losses[id].effects & effects) != effects || trace_loss_amount(status, id) == 0))
        id++;
    return id;
}

void trace_losses_write_json(const struct trace_heap_dump *status, struct json_writer *json)
{
    json_array(json, "losses");
    for (enum trace_loss_id id = 0; id < TRACE_LOSS_IDS; id++) {
        const struct trace_loss *loss = &trace_losses[id];
        uint64_t amount = trace_loss_amount(status, id);
        if (amount == 0 || loss->label == NULL)
            continue;
        json_object(json, NULL);
        json_string(json, "name", loss->name);
        json_unsigned(json, "amount", trace_loss_is_flag(id) ? 0 : amount);
        const char *unit = trace_loss_unit_name(loss->unit);
        json_string(json, "unit", unit + (*unit == ' '));
        json_string(json, "words", loss->words);
        json_string(json, "remedy", loss->remedy != NULL ? loss->remedy : "");
        json_bool(json, "affects_figures", loss->effects != 0);
        json_end_object(json);
    }
    json_end_array(json);
}
