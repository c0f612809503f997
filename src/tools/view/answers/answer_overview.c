/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with all that the page's frame needs: profiles, processes, heaps, dumps, and what to open
 * first. */
#include <inttypes.h>
#include <string.h>

#include "profile/compare/estimates.h"
#include "profile/compare/first_view.h"
#include "profile/partial.h"
#include "profile/process_memory.h"
#include "tools/print/report_end.h"
#include "tools/view/answers/answers.h"
#include "tools/view/answers/readings.h"
#include "tools/view/model/apart.h"
#include "tools/view/model/limits.h"
#include "util/base_name.h"
#include "util/json_writer.h"

static void write_views(struct json_writer *json)
{
    json_array(json, "views");
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++) {
        json_object(json, NULL);
        json_string(json, "name", export_view_info[view].name);
        json_string(json, "title", export_view_info[view].title);
        json_bool(json, "bytes", export_view_info[view].counts_bytes);
        json_end_object(json);
    }
    json_end_array(json);
}

/* --- dumps --- */

static void write_figure(struct json_writer *json, const struct profile_heap *heap,
                         const struct profile_dump *dump, enum export_view view)
{
    const char *key = export_view_info[view].name;
    if (export_view_is_unknown(heap, view)) {
        json_null(json, key);
        return;
    }
    bool counts = export_view_counts_calls(view);
    const struct estimate_shown total = view_total(&(struct export_dump){heap, dump}, view, counts);
    json_object(json, key);
    json_number(json, "value", total.value);
    json_number(json, "low", total.interval.low);
    json_number(json, "high", total.interval.high);
    json_end_object(json);
}

/* Write the losses since the previous dump. Their words are among the heap's. */
static void write_new_losses(struct json_writer *json, const struct profile_dump *dump)
{
    if (dump->interval_bytes == 0) {
        json_null(json, "losses");
        return;
    }
    json_array(json, "losses");
    for (size_t i = 0; i < dump->new_loss_count; i++) {
        const struct profile_new_loss *loss = &dump->new_losses[i];
        if (trace_losses[loss->id].label == NULL)
            continue;
        json_object(json, NULL);
        json_string(json, "name", trace_losses[loss->id].name);
        json_unsigned(json, "amount", trace_loss_is_flag(loss->id) ? 0 : loss->amount);
        json_end_object(json);
    }
    json_end_array(json);
}

/* Return why a dump is incomplete; "": it is not. */
static const char *why_incomplete(const struct profile_dump *dump)
{
    return !dump->incomplete ? ""
           : dump->cut_off   ? "the trace ends inside this dump"
                             : "packets of this dump are missing from the trace";
}

static void write_dump(struct json_writer *json, const struct profile *profile,
                       const struct profile_heap *heap, const struct profile_dump *dump,
                       const struct view_kept_heap *kept)
{
    uint64_t rss_bytes = process_memory_at(profile, heap->process, dump);
    char cause[DUMP_CAUSE_WORDS];
    dump_cause_words(dump->cause, dump->cause_used_bytes, dump->cause_limit_bytes, cause);
    json_object(json, NULL);
    if (kept != NULL)
        json_bool(json, "kept", kept->dumps != NULL && kept->dumps[dump - heap->dumps]);
    json_unsigned(json, "time", dump->boottime_ns);
    json_unsigned(json, "start", dump->start_boottime_ns);
    json_bool(json, "final", dump->final);
    json_bool(json, "incomplete", dump->incomplete);
    json_string(json, "why_incomplete", why_incomplete(dump));
    if (dump->interval_bytes == 0)
        json_null(json, "interval_bytes");
    else
        json_unsigned(json, "interval_bytes", dump->interval_bytes);
    write_new_losses(json, dump);
    if (*cause != '\0')
        json_string(json, "cause", cause);
    for (enum export_view view = 0; view < EXPORT_VIEWS; view++)
        write_figure(json, heap, dump, view);
    if (!profile_has_totals(heap, dump)) {
        json_null(json, "exact_bytes");
        json_null(json, "exact_calls");
    } else {
        json_unsigned(json, "exact_bytes", dump->exact_bytes);
        json_unsigned(json, "exact_calls", dump->exact_calls);
    }
    if (rss_bytes == 0)
        json_null(json, "rss_bytes");
    else
        json_unsigned(json, "rss_bytes", rss_bytes);
    json_end_object(json);
}

/* --- heaps --- */

static bool has_ended_well(const struct profile_process *process)
{
    return process->end.how == PROCESS_END_EXITED && process->end.code == 0;
}

/* Write how the process ended, unless it ended well. */
static void write_end_note(struct json_writer *json, const struct profile_process *process)
{
    char words[PROCESS_END_WORDS], note[PROCESS_END_WORDS + 32];
    if (!process->has_end || has_ended_well(process))
        return;
    snprintf(note, sizeof(note), "the process ended: %s", process_end_words(&process->end, words));
    json_string(json, NULL, note);
}

/* Write what a reader of the last dump's figures must know. */
static void write_notes(struct json_writer *json, const struct profile *profile,
                        const struct profile_heap *heap)
{
    struct profile_partial_reason reasons[PROFILE_PARTIAL_REASONS_MAX];
    const struct profile_dump *last =
        heap->dump_count == 0 ? NULL : &heap->dumps[heap->dump_count - 1];
    size_t count = last == NULL ? 0 : profile_partial_reasons(heap, last, reasons);
    const char *totals = last == NULL ? NULL : profile_totals_why_partial(heap, last);
    json_array(json, "notes");
    write_end_note(json, &profile->processes[heap->process]);
    for (size_t i = 0; i < count; i++)
        if (reasons[i].of_dump)
            json_string(json, NULL, reasons[i].words);
    if (totals != NULL)
        json_string(json, NULL, "all figures leave out what was lost, the totals too");
    if (profile_lacks_frees(heap))
        json_string(json, NULL, "frees were lost: live memory may be less");
    if (heap->unfinished)
        json_string(json, NULL,
                    "the profiler was killed, or still runs: what came after the last dump is "
                    "unknown");
    if (heap->status.remark != NULL && *heap->status.remark != '\0')
        json_string(json, NULL, heap->status.remark);
    json_end_array(json);
}

/* Write when the peak was, if the last dump of the list is the heap's last, which knows it. */
static void write_peak_time(struct json_writer *json, const struct profile_heap *heap,
                            const struct view_kept_heap *kept)
{
    bool is_last = kept == NULL || kept->dumps == NULL || kept->last + 1 == heap->dump_count;
    uint64_t peak_ns = is_last ? profile_peak_boottime_ns(heap) : 0;
    if (peak_ns == 0)
        json_null(json, "peak_time");
    else
        json_unsigned(json, "peak_time", peak_ns);
}

/* Return the dump that a heap opens on: the last that the page has, or NULL. */
static const struct profile_dump *opening_dump(const struct profile_heap *heap,
                                               const struct view_kept_heap *kept)
{
    if (heap->dump_count == 0 || (kept != NULL && kept->dumps == NULL))
        return NULL;
    return &heap->dumps[kept != NULL ? kept->last : heap->dump_count - 1];
}

/* Return the view that answers first, as in reports: the peak if the program had freed nearly all
 * at its end. */
static enum export_view opening_view(const struct view_profile *of, const struct profile_heap *heap,
                                     const struct profile_dump *dump)
{
    return dump == NULL ? EXPORT_SPACE : first_view(of->profile, &of->folding, heap, dump);
}

static void write_heap(struct json_writer *json, size_t profile, const struct view_profile *of,
                       size_t index, const struct view_kept_heap *kept)
{
    const struct profile_heap *heap = &of->profile->heaps[index];
    char id[48];
    snprintf(id, sizeof(id), "%zu.%zu", profile, index);
    json_line(json);
    json_object(json, NULL);
    json_string(json, "id", id);
    json_unsigned(json, "process", heap->process);
    json_string(json, "name", heap->name);
    json_unsigned(json, "interval_bytes", heap->interval_bytes);
    json_unsigned(json, "first_interval_bytes", heap->first_interval_bytes);
    json_number(json, "floor_bytes", profile_floor_bytes(heap->interval_bytes));
    bool has_dumps = heap->dump_count > 0;
    const struct profile_dump *last = has_dumps ? &heap->dumps[heap->dump_count - 1] : NULL;
    json_bool(json, "exact", has_dumps && profile_dump_is_exact(heap, last));
    json_bool(json, "partial",
              has_dumps && (profile_dump_is_partial(heap, last) || profile_lacks_frees(heap)));
    json_string(json, "unseen", heap->unseen ? profile_heap_why_unseen(heap) : "");
    json_bool(json, "unfinished", heap->unfinished);
    json_string(json, "allocator", heap->status.allocator != NULL ? heap->status.allocator : "");
    json_unsigned(json, "start", heap->start_boottime_ns);
    write_peak_time(json, heap, kept);
    json_string(json, "first_view",
                export_view_info[opening_view(of, heap, opening_dump(heap, kept))].name);
    trace_losses_write_json(&heap->status, json);
    write_notes(json, of->profile, heap);
    json_array(json, "dumps");
    /* The last dump of the list is what the page opens a heap on. */
    size_t count = kept != NULL && kept->dumps != NULL ? kept->last + 1 : heap->dump_count;
    for (size_t i = 0; i < count; i++)
        write_dump(json, of->profile, heap, &heap->dumps[i], kept);
    json_end_array(json);
    json_end_object(json);
}

/* --- processes --- */

/* Limits of readings: of all processes of a profile together, unless they are many. */
#define READINGS_MAX 20000u
#define READINGS_MAX_EACH 100u

static size_t most_readings(const struct profile *profile)
{
    size_t each = READINGS_MAX / (profile->process_count + 1);
    return each < READINGS_MAX_EACH ? READINGS_MAX_EACH : each;
}

/* Write how a process ended, unless it ended well: what `heap_profile oom` says of it. */
static void write_end(struct json_writer *json, const struct profile_process *process)
{
    if (!process->has_end || has_ended_well(process))
        return;
    report_end_print_json(process, json);
    json_unsigned(json, "end_time", process->end.boottime_ns);
}

static void write_processes(struct json_writer *json, const struct profile *profile)
{
    struct view_snapshots snapshots;
    char **apart = view_apart_make(profile);
    view_snapshots_gather(&snapshots, profile);
    json_array(json, "processes");
    for (size_t i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        json_line(json);
        json_object(json, NULL);
        json_signed(json, "pid", profile_shown_pid(process));
        json_signed(json, "parent_pid", process->parent_pid);
        json_string(json, "name", process->name);
        json_string(json, "command", process->command);
        if (*apart[i] != '\0')
            json_string(json, "apart", apart[i]);
        write_end(json, process);
        view_readings_write(json, profile, i, &snapshots, most_readings(profile));
        json_end_object(json);
    }
    json_end_array(json);
    view_snapshots_free(&snapshots);
    view_apart_free(apart, profile);
}

static void write_unprofiled(struct json_writer *json, const struct profile *profile)
{
    json_array(json, "unprofiled");
    for (size_t i = 0; i < profile->unprofiled_count; i++) {
        const struct profile_unprofiled *one = &profile->unprofiled[i];
        json_object(json, NULL);
        json_string(json, "name", one->name);
        json_signed(json, "pid", one->pid);
        json_unsigned(json, "count", one->count);
        json_string(json, "reason", one->reason);
        json_bool(json, "by_choice", one->by_choice);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_profile(struct json_writer *json, size_t index, const struct view_profile *of,
                          const struct view_kept *kept)
{
    const struct profile *profile = of->profile;
    char offset[24];
    snprintf(offset, sizeof(offset), "%" PRId64, profile->boottime_to_realtime_ns);
    json_object(json, NULL);
    json_string(json, "name", base_name(of->path));
    json_string(json, "path", of->path);
    json_string(json, "warning", profile->warning);
    json_string(json, "filter", profile->filter);
    json_string(json, "realtime_ns", profile->boottime_to_realtime_ns != 0 ? offset : NULL);
    write_processes(json, profile);
    json_array(json, "heaps");
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct view_kept_heap *heap = kept == NULL ? NULL : &kept->profiles[index].items[i];
        if (heap == NULL || heap->is_listed)
            write_heap(json, index, of, i, heap);
    }
    json_end_array(json);
    write_unprofiled(json, profile);
    json_end_object(json);
}

/* --- what to open first --- */

/* A dump of a heap. */
struct opening_place {
    size_t profile, heap;
    const struct profile_heap *found; /* NULL: none */
    const struct profile_dump *dump;
};

struct opening {
    struct opening_place at, base;
    enum export_view view;
    const char *tab; /* NULL: none */
};

/* Return the heap that holds most of the profiles from `first` on; like another one, unless that is
 * NULL: of its name, and of a program of the same name if there is one. */
static struct opening_place largest_heap(const struct view_profiles *profiles,
                                         const struct view_kept *kept, size_t first, size_t end,
                                         const struct opening_place *like)
{
    const struct profile *other = like == NULL ? NULL : profiles->items[like->profile].profile;
    struct opening_place best = {0};
    struct rollup_size most = {0};
    bool is_namesake = false;
    for (size_t i = first; i < end; i++) {
        const struct profile *profile = profiles->items[i].profile;
        for (size_t j = 0; j < profile->heap_count; j++) {
            const struct profile_heap *heap = &profile->heaps[j];
            const struct profile_dump *dump =
                opening_dump(heap, kept == NULL ? NULL : &kept->profiles[i].items[j]);
            if (dump == NULL || heap->unseen ||
                (like != NULL && strcmp(heap->name, like->found->name) != 0))
                continue;
            bool is_own = like != NULL && strcmp(profile->processes[heap->process].name,
                                                 other->processes[like->found->process].name) == 0;
            struct rollup_size size = rollup_size_of(dump);
            if (best.found != NULL &&
                (is_own != is_namesake ? is_namesake : rollup_size_compare(&size, &most) >= 0))
                continue;
            most = size;
            is_namesake = is_own;
            best = (struct opening_place){i, j, heap, dump};
        }
    }
    return best;
}

/* Open the largest heap, in the view that answers first. Two profiles are compared, the second one
 * with the first: at their peaks, if both had freed nearly all at their ends. */
static struct opening find_opening(const struct view_profiles *profiles,
                                   const struct view_kept *kept)
{
    size_t count = profiles->count;
    struct opening opening = {.at = largest_heap(profiles, kept, 0, count, NULL)};
    if (count == 2) {
        struct opening_place at = largest_heap(profiles, kept, 1, 2, NULL), base = {0};
        if (at.found != NULL)
            base = largest_heap(profiles, kept, 0, 1, &at);
        if (base.found != NULL)
            opening = (struct opening){.at = at, .base = base};
    }
    const struct opening_place *at = &opening.at, *base = &opening.base;
    if (at->found != NULL)
        opening.view = opening_view(&profiles->items[at->profile], at->found, at->dump);
    if (opening.view == EXPORT_MAX && base->found != NULL &&
        opening_view(&profiles->items[base->profile], base->found, base->dump) == EXPORT_SPACE)
        opening.view = EXPORT_SPACE;
    return opening;
}

/* Return where a dump is. */
static struct opening_place opening_place_of(const struct view_profiles *profiles,
                                             const struct export_dump *at)
{
    for (size_t i = 0; i < profiles->count; i++) {
        const struct profile *profile = profiles->items[i].profile;
        if (at->heap >= profile->heaps && at->heap < profile->heaps + profile->heap_count)
            return (struct opening_place){i, (size_t)(at->heap - profile->heaps), at->heap,
                                          at->dump};
    }
    return (struct opening_place){0};
}

static void write_opening(struct json_writer *json, const struct opening *opening)
{
    const struct opening_place *at = &opening->at, *base = &opening->base;
    char id[80];
    if (at->found == NULL) {
        json_null(json, "opening");
        return;
    }
    snprintf(id, sizeof(id), "%zu.%zu", at->profile, at->heap);
    json_object(json, "opening");
    json_string(json, "heap", id);
    json_unsigned(json, "dump", (size_t)(at->dump - at->found->dumps));
    json_string(json, "view", export_view_info[opening->view].name);
    if (opening->tab != NULL)
        json_string(json, "tab", opening->tab);
    if (base->found != NULL) {
        snprintf(id, sizeof(id), "%zu.%zu.%zu", base->profile, base->heap,
                 (size_t)(base->dump - base->found->dumps));
        json_string(json, "base", base->found == at->found ? strrchr(id, '.') + 1 : id);
    }
    json_end_object(json);
}

int answer_overview(struct view_profiles *profiles, const struct view_parameters *parameters,
                    FILE *out, struct error *error)
{
    (void)parameters, (void)error;
    const struct view_kept *kept = profiles->kept;
    const struct view_opening *given = profiles->opening;
    struct opening opening;
    if (given == NULL || given->at.dump == NULL)
        opening = find_opening(profiles, kept);
    else
        opening = (struct opening){.at = opening_place_of(profiles, &given->at),
                                   .base = opening_place_of(profiles, &given->base),
                                   .view = given->view};
    opening.tab = given == NULL ? NULL : given->tab;
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_string(&json, "version", HEAPPROFD_VERSION);
    write_views(&json);
    json_array(&json, "profiles");
    for (size_t i = 0; i < profiles->count; i++)
        write_profile(&json, i, &profiles->items[i], kept);
    json_end_array(&json);
    if (profiles->interprets)
        json_bool(&json, "native", profiles->native);
    else
        json_null(&json, "native");
    json_string(&json, "budgets", profiles->budgets);
    write_opening(&json, &opening);
    json_end_object(&json);
    return 0;
}
