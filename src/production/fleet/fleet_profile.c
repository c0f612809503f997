/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for totals and sums by stack, and builds the profile of fleet_profile.h. */
#include "production/fleet/fleet_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "production/fleet/answer.h"
#include "production/fleet/stacks.h"
#include "profile/filter.h"
#include "profile/import/heap_figures.h"
#include "util/array.h"

#define OTHER_STACKS "[other stacks]"
#define UNKNOWN_STACK "[unknown stack]"
/* Times between these are possible. */
#define TIME_MIN_S 1e-6
#define TIME_MAX_S 1e10 /* 300 years */

/* A row of an answer: the sums of a stack. */
struct stack_sums {
    uint64_t stack;
    struct fleet_sums sums;
};

struct reading {
    struct clickhouse *server;
    const struct fleet_selection *selection;
    const struct fleet_profile_options *options;
    struct fleet_facts *facts;
    struct error *error;
    struct stack_sums *totals, *rows; /* of heaps; of stacks, the highest first */
    size_t total_count, row_count, total_capacity, row_capacity;
    struct fleet_stacks stacks;
};

/* --- queries --- */

/* Run "SELECT WHAT FROM figures WHERE the selection REST". */
static int fleet_profile_ask(struct reading *reading, const char *what, bool totals,
                             const char *rest, struct clickhouse_answer *answer)
{
    char *query = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&query, &size);
    if (out == NULL)
        return error_set(reading->error, -ENOMEM, "no memory");
    fprintf(out, "SELECT %s FROM figures WHERE ", what);
    fleet_selection_where(reading->selection, totals, out);
    fprintf(out, " %s FORMAT RowBinary", rest);
    int code = fclose(out) != 0
                   ? error_set(reading->error, -ENOMEM, "no memory")
                   : clickhouse_run(reading->server, query, NULL, 0, answer, reading->error);
    free(query);
    return code;
}

#define SUM_OF(name) ", sum(" #name ")"
#define TAKE(name) row.sums.name = answer_figure(&answer);

static int fleet_profile_refuse(struct reading *reading, const struct clickhouse_answer *answer)
{
    return error_set(reading->error, -EBADMSG, "query %s: the server's answer is damaged",
                     answer->query_id);
}

static int ask_totals(struct reading *reading)
{
    struct clickhouse_answer text = {0};
    int code =
        fleet_profile_ask(reading, "stack" FLEET_SUMS(SUM_OF) FLEET_TOTAL_SUMS(SUM_OF), true,
                          "GROUP BY stack ORDER BY sum(live_byte_seconds) DESC, stack", &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        struct stack_sums row = {.stack = answer_u64(&answer)};
        FLEET_SUMS(TAKE)
        FLEET_TOTAL_SUMS(TAKE)
        if (answer.is_bad)
            break;
        fleet_sums_add(&reading->facts->sums, &row.sums);
        if (ARRAY_ADD(&reading->totals, &reading->total_count, &reading->total_capacity, row) < 0)
            code = error_set(reading->error, -ENOMEM, "no memory");
    }
    if (code == 0 && answer.is_bad)
        code = fleet_profile_refuse(reading, &text);
    clickhouse_answer_clear(&text);
    return code;
}

static const char *rank_of(enum export_view view)
{
    static const char *const sums[EXPORT_VIEWS] = {
        [EXPORT_SPACE] = "live_byte_seconds", [EXPORT_OBJECTS] = "live_count_seconds",
        [EXPORT_ALLOC_SPACE] = "alloc_bytes", [EXPORT_ALLOC_OBJECTS] = "alloc_count",
        [EXPORT_MAX] = "live_byte_seconds",
    };
    return sums[view];
}

static int ask_stacks(struct reading *reading)
{
    struct clickhouse_answer text = {0};
    char rest[200];
    snprintf(rest, sizeof(rest), "GROUP BY stack ORDER BY sum(%s) DESC, stack LIMIT %u",
             rank_of(reading->options->view), FLEET_STACKS_MAX);
    int code = fleet_profile_ask(reading, "stack" FLEET_SUMS(SUM_OF), false, rest, &text);
    struct answer answer = answer_begin(text.bytes, text.length);
    while (code == 0 && answer_has_more(&answer)) {
        struct stack_sums row = {.stack = answer_u64(&answer)};
        FLEET_SUMS(TAKE)
        if (answer.is_bad)
            break;
        if (ARRAY_ADD(&reading->rows, &reading->row_count, &reading->row_capacity, row) < 0)
            code = error_set(reading->error, -ENOMEM, "no memory");
    }
    if (code == 0 && answer.is_bad)
        code = fleet_profile_refuse(reading, &text);
    clickhouse_answer_clear(&text);
    return code;
}

/* Ask for the time in which at least one process was profiled: hour by hour or day by day that of
 * the series with most of it, which is less than the bucket, since several processes of one series
 * add up. And for the number of series and hosts. */
static int ask_times(struct reading *reading)
{
    static const char what[] = "level = 'day_total' AS is_day, "
                               "intDiv(toUInt32(time), 3600) AS bucket, series, "
                               "sum(seconds) AS profiled";
    struct clickhouse_answer text = {0};
    char *query = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&query, &size);
    if (out == NULL)
        return error_set(reading->error, -ENOMEM, "no memory");
    fprintf(out,
            "SELECT sum(least(longest, if(is_day, 86400, 3600))) FROM "
            "(SELECT is_day, bucket, max(profiled) AS longest "
            "FROM (SELECT %s FROM figures WHERE ",
            what);
    fleet_selection_where(reading->selection, true, out);
    fputs(" GROUP BY is_day, bucket, series) GROUP BY is_day, bucket) FORMAT RowBinary", out);
    int code = fclose(out) != 0
                   ? error_set(reading->error, -ENOMEM, "no memory")
                   : clickhouse_run(reading->server, query, NULL, 0, &text, reading->error);
    free(query);
    if (code < 0)
        return code;
    struct answer answer = answer_begin(text.bytes, text.length);
    reading->facts->time_s = answer_figure(&answer);
    if (answer.is_bad || reading->facts->time_s > TIME_MAX_S)
        code = fleet_profile_refuse(reading, &text);
    clickhouse_answer_clear(&text);
    return code;
}

static int ask_hosts(struct reading *reading)
{
    struct clickhouse_answer text = {0};
    char *query = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&query, &size);
    if (out == NULL)
        return error_set(reading->error, -ENOMEM, "no memory");
    fputs("SELECT uniqExact(series), uniqExact(host) FROM series WHERE series GLOBAL IN "
          "(SELECT series FROM figures WHERE ",
          out);
    fleet_selection_where(reading->selection, true, out);
    fputs(") FORMAT RowBinary", out);
    int code = fclose(out) != 0
                   ? error_set(reading->error, -ENOMEM, "no memory")
                   : clickhouse_run(reading->server, query, NULL, 0, &text, reading->error);
    free(query);
    if (code < 0)
        return code;
    struct answer answer = answer_begin(text.bytes, text.length);
    reading->facts->series = answer_u64(&answer);
    reading->facts->hosts = answer_u64(&answer);
    if (answer.is_bad)
        code = fleet_profile_refuse(reading, &text);
    clickhouse_answer_clear(&text);
    return code;
}

/* --- figures --- */

/* Return a number of an answer as a whole one, at most 2^53. */
static uint64_t whole(double value)
{
    return !(value > 0) ? 0 : value > 0x1p53 ? UINT64_C(1) << 53 : (uint64_t)(value + 0.5);
}

/* What the sums are multiplied with. */
struct scale {
    double live, live_variance; /* of integrals over time */
    double alloc;               /* of sums */
};

static struct scale scale_of(const struct fleet_sums *heap, double time_s, bool per_process)
{
    double seconds = heap->seconds;
    if (!per_process)
        return (struct scale){1 / time_s, 1 / time_s, 1};
    /* A mean process: the sum over processes, divided by their number N = seconds / time, and its
     * variance by N^2. */
    return (struct scale){1 / seconds, time_s / (seconds * seconds),
                          (double)FLEET_HOUR_S / seconds};
}

static struct trace_figures figures_of(const struct fleet_sums *sums, const struct scale *scale,
                                       bool per_process)
{
    const struct heap_estimate allocated = {
        .bytes = sums->alloc_bytes * scale->alloc,
        .count = sums->alloc_count * scale->alloc,
        .bytes_variance = sums->alloc_byte_variance * scale->alloc * scale->alloc,
        .count_variance = sums->alloc_count_variance * scale->alloc * scale->alloc,
        .samples = per_process ? 0 : whole(sums->samples),
    };
    const struct heap_estimate live = {
        .bytes = sums->live_byte_seconds * scale->live,
        .count = sums->live_count_seconds * scale->live,
        .bytes_variance = sums->live_byte_variance * scale->live_variance,
        .count_variance = sums->live_count_variance * scale->live_variance,
    };
    return heap_figures_of_period(&allocated, &live);
}

/* --- the profile --- */

/* Return the callsite below which a service's stacks are: a frame with its name, if there are
 * several. */
static uint32_t service_callsite(struct reading *reading, uint32_t service, bool several)
{
    struct builder *builder = reading->stacks.builder;
    if (!several)
        return PROFILE_NONE;
    uint32_t frame = builder_frame(builder, PROFILE_NONE, 0, service, 0, 0);
    return frame == PROFILE_NONE ? PROFILE_NONE : builder_callsite(builder, PROFILE_NONE, frame);
}

static uint32_t marker(struct builder *builder, const char *name, uint32_t parent)
{
    uint32_t frame =
        builder_frame(builder, PROFILE_NONE, 0, builder_string(builder, name, strlen(name)), 0, 0);
    return frame == PROFILE_NONE ? PROFILE_NONE : builder_callsite(builder, parent, frame);
}

struct heap_of_name {
    uint32_t name;
    struct fleet_sums sums, rest; /* rest: of no stack that was taken */
    bool several_services;
    uint32_t service;
    double interval_bytes; /* the longest of a service's mean intervals */
};

/* Return the heaps of the totals, by name, malloc'd; NULL: no memory. */
static struct heap_of_name *list_heaps(struct reading *reading, size_t *count)
{
    struct heap_of_name *heaps = calloc(reading->total_count + 1, sizeof(*heaps));
    *count = 0;
    for (size_t i = 0; heaps != NULL && i < reading->total_count; i++) {
        const struct stack_sums *total = &reading->totals[i];
        const struct fleet_stack *stack = fleet_stacks_find(&reading->stacks, total->stack);
        uint32_t name = stack == NULL ? 0 : stack->heap,
                 service = stack == NULL ? 0 : stack->service;
        size_t at = 0;
        while (at < *count && heaps[at].name != name)
            at++;
        if (at == *count)
            heaps[(*count)++] = (struct heap_of_name){.name = name, .service = service};
        heaps[at].several_services |= heaps[at].service != service;
        fleet_sums_add(&heaps[at].sums, &total->sums);
        heaps[at].rest = heaps[at].sums;
        if (total->sums.seconds > TIME_MIN_S)
            heaps[at].interval_bytes =
                fmax(heaps[at].interval_bytes, total->sums.interval_seconds / total->sums.seconds);
    }
    return heaps;
}

static void subtract(struct fleet_sums *from, const struct fleet_sums *less)
{
#define SUBTRACT(name) from->name -= less->name;
    FLEET_SUMS(SUBTRACT)
#undef SUBTRACT
}

static int fleet_profile_add_row(struct heap_figures *figures, uint32_t callsite,
                                 const struct fleet_sums *sums, const struct scale *scale,
                                 bool per_process)
{
    struct profile_sample *sample = heap_figures_sample(figures, callsite);
    if (sample == NULL)
        return -ENOMEM;
    if (sample->type == NULL)
        sample->type = sample->context = figures->builder->strings[0];
    const struct trace_figures more = figures_of(sums, scale, per_process);
    trace_figures_add(&sample->figures, &more);
    return 0;
}

static int add_rows(struct reading *reading, struct heap_of_name *heap, bool is_first,
                    struct heap_figures *figures, const struct scale *scale)
{
    struct fleet_stacks *stacks = &reading->stacks;
    struct builder *builder = stacks->builder;
    bool per_process = reading->options->per_process;
    int code = 0;
    for (size_t i = 0; i < reading->row_count && code == 0; i++) {
        const struct stack_sums *row = &reading->rows[i];
        const struct fleet_stack *stack = fleet_stacks_find(stacks, row->stack);
        uint32_t callsite;
        /* A stack that the store does not have is in the first heap. */
        if (stack == NULL ? !is_first : stack->heap != heap->name)
            continue;
        if (stack == NULL)
            callsite = marker(builder, UNKNOWN_STACK, PROFILE_NONE);
        else
            callsite = fleet_stacks_callsite(
                stacks, stack, service_callsite(reading, stack->service, heap->several_services));
        if (callsite == PROFILE_NONE && builder->error == 0)
            callsite = marker(builder, HEAP_FIGURES_NO_STACK, PROFILE_NONE);
        subtract(&heap->rest, &row->sums);
        code = fleet_profile_add_row(figures, callsite, &row->sums, scale, per_process);
    }
    /* Only beyond the limit: Float32 sums differ in their last digits. */
    if (code == 0 && reading->row_count == FLEET_STACKS_MAX)
        code = fleet_profile_add_row(figures, marker(builder, OTHER_STACKS, PROFILE_NONE),
                                     &heap->rest, scale, per_process);
    return code;
}

static char *fleet_profile_describe(struct reading *reading, const struct heap_of_name *heap)
{
    const struct fleet_facts *facts = reading->facts;
    char *text = NULL;
    double partial = heap->sums.partial_periods;
    double processes = heap->sums.seconds / facts->time_s;
    int written = asprintf(
        &text, "%s%s%llu host%s, %.0f process%s on average. %s%s", reading->options->title,
        *reading->options->title != '\0' ? ": " : "", (unsigned long long)facts->hosts,
        facts->hosts == 1 ? "" : "s", processes, processes < 1.5 ? "" : "es",
        reading->options->per_process
            ? "Figures are of a mean process: live at a mean moment, allocated in an hour."
            : "Live is what all held together at a mean moment, allocated what they did in the "
              "whole time.",
        partial > 0 ? " Some periods lost samples." : "");
    return written < 0 ? NULL : text;
}

static int add_heap(struct reading *reading, struct heap_of_name *heap, bool is_first)
{
    if (!(heap->sums.seconds > TIME_MIN_S))
        return 0; /* a stack's heap without a time: nothing is known about it */
    const struct scale scale =
        scale_of(&heap->sums, reading->facts->time_s, reading->options->per_process);
    struct builder *builder = reading->stacks.builder;
    struct heap_figures figures = {.builder = builder};
    char *remark = fleet_profile_describe(reading, heap);
    int code = remark == NULL ? builder_fail(builder)
                              : add_rows(reading, heap, is_first, &figures, &scale);
    double processes = heap->sums.seconds / reading->facts->time_s;
    double interval = heap->interval_bytes;
    if (reading->options->per_process && processes > 1)
        interval /= processes; /* what may go unseen, too, is of a mean process */
    const char *name = heap->several_services ? "all services" : builder->strings[heap->service];
    struct heap_figures_head head = {
        .pid = reading->options->first_pid + (int32_t)builder->profile->heap_count,
        .name = builder_text(builder, name, strlen(name)),
        .command = builder_text(builder, name, strlen(name)),
        .heap = builder->strings[heap->name],
        /* 1 would mean that nothing was left to chance. */
        .interval_bytes = interval <= 1 && heap->sums.live_byte_variance > 0 ? 2 : whole(interval),
        .boottime_ns = (uint64_t)(reading->facts->time_s * 1e9),
        .earlier = {.unknown = true},
        .mean_processes = processes,
        .incomplete = heap->sums.partial_periods > 0,
        .unknown = PROFILE_UNKNOWN_PEAK | PROFILE_UNKNOWN_TEMPORARY,
    };
    /* Totals that were counted have no variance. Nor have large samples, and if a period lost some,
     * its total may not be counted. */
    if (heap->sums.partial_periods == 0 && heap->sums.alloc_byte_variance == 0 &&
        heap->sums.alloc_count_variance == 0) {
        head.exact_bytes = whole(heap->sums.alloc_bytes * scale.alloc);
        head.exact_calls = whole(heap->sums.alloc_count * scale.alloc);
    }
    if (code == 0) {
        head.remark = builder_text(builder, remark, strlen(remark));
        code = heap_figures_finish(&figures, &head);
    }
    heap_figures_free(&figures);
    free(remark);
    return code;
}

static int build(struct reading *reading)
{
    size_t count = 0;
    struct heap_of_name *heaps = list_heaps(reading, &count);
    int code = heaps == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = add_heap(reading, &heaps[i], i == 0);
    if (code == 0)
        reading->stacks.builder->profile->boottime_to_realtime_ns =
            reading->selection->since_s * 1000000000;
    reading->facts->heaps = count;
    reading->facts->stacks = reading->row_count;
    free(heaps);
    return code;
}

static int ask_all(struct reading *reading)
{
    int code = ask_totals(reading);
    if (code == 0 && reading->total_count == 0)
        return error_set(reading->error, -ENOENT,
                         "the store has nothing of this time with these labels; heap_profile fleet "
                         "hosts lists what it has");
    if (code == 0)
        code = ask_times(reading);
    if (code == 0 && !(reading->facts->time_s > TIME_MIN_S))
        code = error_set(reading->error, -EBADMSG, "the server's figures have no time");
    if (code == 0)
        code = ask_hosts(reading);
    return code < 0 ? code : ask_stacks(reading);
}

static int read_stacks(struct reading *reading)
{
    size_t count = reading->total_count + reading->row_count;
    uint64_t *ids = calloc(count, sizeof(*ids));
    if (ids == NULL)
        return error_set(reading->error, -ENOMEM, "no memory");
    for (size_t i = 0; i < count; i++)
        ids[i] = i < reading->total_count ? reading->totals[i].stack
                                          : reading->rows[i - reading->total_count].stack;
    int code = fleet_stacks_read(&reading->stacks, reading->server, ids, count, reading->error);
    free(ids);
    return code;
}

struct profile *fleet_profile_read(struct clickhouse *server,
                                   const struct fleet_selection *selection,
                                   const struct fleet_profile_options *options,
                                   struct fleet_facts *facts, struct error *error)
{
    struct reading reading = {.server = server,
                              .selection = selection,
                              .options = options,
                              .facts = facts,
                              .error = error,
                              .stacks = {.builder = builder_new(&options->reading)}};
    struct profile *profile = NULL;
    *facts = (struct fleet_facts){0};
    int code = reading.stacks.builder == NULL ? error_set(error, -ENOMEM, "no memory") : 0;
    if (code == 0)
        code = ask_all(&reading);
    if (code == 0)
        code = read_stacks(&reading);
    if (code == 0 && (code = build(&reading)) < 0)
        error_set(error, code, "no memory for the profile");
    if (reading.stacks.builder != NULL)
        profile = builder_end(reading.stacks.builder, &code, NULL);
    free(reading.totals);
    free(reading.rows);
    fleet_stacks_free(&reading.stacks);
    if (profile != NULL && options->reading.filter != NULL &&
        profile_filter_apply(options->reading.filter, profile, error) < 0) {
        profile_free(profile);
        profile = NULL;
    }
    return profile;
}
