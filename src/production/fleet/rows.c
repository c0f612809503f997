/* SPDX-License-Identifier: Apache-2.0 */
/* The encoder of rows.h: periods to rows of `inbox` and `series`; rows_stacks.c has the stacks. */
#include "production/fleet/rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#define XXH_STATIC_LINKING_ONLY /* for a state on the stack */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "production/fleet/rows_state.h"
#include "profile/partial.h"
#include "profile/rollup.h"

struct fleet_rows *fleet_rows_new(void)
{
    struct fleet_rows *rows = calloc(1, sizeof(*rows));
    if (rows != NULL && sent_make(&rows->sent) < 0) {
        free(rows);
        return NULL;
    }
    return rows;
}

void fleet_rows_free(struct fleet_rows *rows)
{
    if (rows == NULL)
        return;
    for (int i = 0; i < FLEET_TABLES; i++)
        proto_buffer_free(&rows->bodies[i].bytes);
    sent_free(&rows->sent);
    free(rows->frames);
    free(rows);
}

/* --- batches --- */

static int flush_table(struct fleet_rows *rows, enum fleet_table table)
{
    struct fleet_body *body = &rows->bodies[table];
    if (body->bytes.failed)
        return error_set(rows->error, -ENOMEM, "no memory for the rows");
    int code = 0;
    if (body->rows > 0)
        code = rows->put(rows->context, table, body->bytes.bytes, body->bytes.length, body->rows,
                         body->periods);
    body->bytes.length = 0;
    body->rows = body->periods = 0;
    return code;
}

/* Put all rows. Stacks and series come first: who reads figures finds them. */
static int rows_flush(struct fleet_rows *rows)
{
    int code = flush_table(rows, FLEET_STACKS);
    if (code == 0)
        code = flush_table(rows, FLEET_SERIES);
    if (code == 0)
        code = flush_table(rows, FLEET_SYMBOLS);
    if (code == 0)
        code = flush_table(rows, FLEET_INBOX);
    rows->batch = 0;
    return code;
}

/* Begin a batch if none has begun. Its id only has to differ from all others. */
static int begin_batch(struct fleet_rows *rows)
{
    while (rows->batch == 0)
        if (getrandom(&rows->batch, sizeof(rows->batch), 0) != sizeof(rows->batch))
            return error_set(rows->error, -EIO, "no random numbers for the batch");
    return 0;
}

/* --- a period --- */

static const char *label_of(const struct period *period, const char *name)
{
    for (size_t i = 0; i < period->label_count; i++)
        if (strcmp(period->labels[i].name, name) == 0)
            return period->labels[i].value;
    return "";
}

/* Labels that tell processes of one program on one host apart. */
static bool is_of_process(const struct period_label *label)
{
    return strcmp(label->name, "pid") == 0 || strcmp(label->name, "boot_id") == 0;
}

static void put_series(struct fleet_rows *rows, const struct period *period)
{
    struct proto_buffer *to = &rows->bodies[FLEET_SERIES].bytes;
    uint64_t count = 0;
    put_u64(to, rows->series);
    put_text(to, rows->service);
    put_text(to, rows->heap);
    put_text(to, label_of(period, "host"));
    put_text(to, label_of(period, "version"));
    for (size_t i = 0; i < period->label_count; i++)
        count += !is_of_process(&period->labels[i]);
    for (int values = 0; values < 2; values++) {
        proto_put_varint(to, count);
        for (size_t i = 0; i < period->label_count; i++)
            if (!is_of_process(&period->labels[i]))
                put_text(to, values ? period->labels[i].value : period->labels[i].name);
    }
    put_u16(to, (uint16_t)rows->sent.day);
    rows->bodies[FLEET_SERIES].rows++;
}

static uint64_t hash_series(const struct period *period)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (size_t i = 0; i < period->label_count; i++) {
        const struct period_label *label = &period->labels[i];
        if (is_of_process(label))
            continue;
        XXH3_64bits_update(&state, label->name, strlen(label->name) + 1);
        XXH3_64bits_update(&state, label->value, strlen(label->value) + 1);
    }
    return XXH3_64bits_digest(&state);
}

static struct fleet_sums sums_of(const struct trace_figures *figures, double seconds)
{
    struct period_figures period = period_figures(figures);
    return (struct fleet_sums){
        .live_byte_seconds = period.live_bytes * seconds,
        .live_byte_variance = fmax(0, period.live_bytes_variance) * seconds,
        .live_count_seconds = period.live_count * seconds,
        .live_count_variance = fmax(0, period.live_count_variance) * seconds,
        .alloc_bytes = period.alloc_bytes,
        .alloc_byte_variance = fmax(0, period.alloc_bytes_variance),
        .alloc_count = period.alloc_count,
        .alloc_count_variance = fmax(0, period.alloc_count_variance),
        .samples = (double)period.alloc_samples,
    };
}

static bool is_finite(const struct fleet_sums *sums)
{
    bool good = true;
#define CHECK(name) good &= isfinite((float)sums->name) != 0;
    FLEET_SUMS(CHECK)
    FLEET_TOTAL_SUMS(CHECK)
#undef CHECK
    return good;
}

static bool is_empty(const struct fleet_sums *sums)
{
    bool empty = true;
#define CHECK(name) empty &= sums->name == 0;
    FLEET_SUMS(CHECK)
#undef CHECK
    return empty;
}

/* Append a row to `inbox`, and put the batch if it is full. */
static int put_sums(struct fleet_rows *rows, uint64_t stack, const struct fleet_sums *sums)
{
    struct fleet_body *body = &rows->bodies[FLEET_INBOX];
    if (!is_finite(sums))
        return error_set(rows->error, -ERANGE, "%s: a figure is not a finite number",
                         rows->service);
    int code = begin_batch(rows);
    if (code < 0)
        return code;
#define PUT(name) put_float(&body->bytes, (float)sums->name);
    FLEET_SUMS(PUT)
    FLEET_TOTAL_SUMS(PUT)
#undef PUT
    put_u64(&body->bytes, rows->batch);
    put_u8(&body->bytes, sums->periods > 0);
    put_text(&body->bytes, rows->service);
    put_u64(&body->bytes, stack);
    put_u64(&body->bytes, rows->series);
    put_u32(&body->bytes, (uint32_t)rows->time_s);
    return ++body->rows >= FLEET_BATCH_ROWS ? rows_flush(rows) : 0;
}

static int encode_period(struct fleet_rows *rows, const struct period *period)
{
    const struct profile_dump *dump = period->dump;
    double seconds = (double)(period->end_ns - period->start_ns) / 1e9;
    if (period->heap->unseen) /* nobody saw its memory: no row, which would say 0 */
        return 0;
    if (seconds <= 0 || period->start_ns < 0 || period->start_ns / 1000000000 > UINT32_MAX)
        return error_set(rows->error, -EINVAL, "a period that ends before it begins");
    rows->service = label_of(period, "service_name");
    rows->heap = period->heap->name;
    rows->series = hash_series(period);
    if (sent_add(&rows->sent, rows->series))
        put_series(rows, period);
    struct fleet_sums all = sums_of(&dump->total, seconds);
    if (rollup_totals_are_exact(period->heap, dump)) {
        all.alloc_bytes = (double)dump->exact_bytes;
        all.alloc_count = (double)dump->exact_calls;
        all.alloc_byte_variance = all.alloc_count_variance = 0;
    }
    all.seconds = seconds;
    all.interval_seconds = (double)period->interval_bytes * seconds;
    all.periods = 1;
    all.partial_periods = profile_dump_is_partial(period->heap, dump);
    int code = put_sums(rows, rows_total(rows), &all);
    rows->bodies[FLEET_INBOX].periods++;
    for (size_t i = 0; i < dump->sample_count && code == 0; i++) {
        const struct profile_sample *sample = dump->samples[i];
        const struct fleet_sums sums = sums_of(&sample->figures, seconds);
        uint64_t stack = 0;
        if (is_empty(&sums))
            continue;
        code = rows_stack(rows, period->profile, sample->callsite, &stack);
        if (code == 0)
            code = put_sums(rows, stack, &sums);
    }
    return code;
}

int fleet_rows_encode(struct fleet_rows *rows, const struct period *periods, size_t count,
                      fleet_rows_put *put, void *context, struct error *error)
{
    int code = 0;
    rows->put = put;
    rows->context = context;
    rows->error = error;
    for (size_t i = 0; i < count && code == 0; i++) {
        int64_t time_s = periods[i].start_ns / 1000000000;
        /* A batch has one day, because a part of the table has one. */
        if (rows->batch != 0 && time_s / FLEET_DAY_S != rows->time_s / FLEET_DAY_S)
            code = rows_flush(rows);
        rows->time_s = time_s;
        sent_begin_day(&rows->sent, time_s / FLEET_DAY_S);
        if (code == 0)
            code = encode_period(rows, &periods[i]);
    }
    int flushed = rows_flush(rows);
    return code < 0 ? code : flushed;
}
