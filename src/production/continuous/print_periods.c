/* SPDX-License-Identifier: Apache-2.0 */
/* Write the sums of each period, and its largest callsites with their stacks. */
#include "production/continuous/print_periods.h"

#include <stdlib.h>
#include <string.h>

#include "util/json_writer.h"

#define CALLSITES 5
#define FRAMES_MAX 64

static void write_figures(struct json_writer *json, const struct trace_figures *from)
{
    struct period_figures figures = period_figures(from);
    json_number(json, "alloc_bytes", figures.alloc_bytes);
    json_number(json, "alloc_count", figures.alloc_count);
    json_number(json, "alloc_bytes_variance", figures.alloc_bytes_variance);
    json_number(json, "live_bytes", figures.live_bytes);
    json_number(json, "live_count", figures.live_count);
    json_number(json, "live_bytes_variance", figures.live_bytes_variance);
    json_unsigned(json, "alloc_samples", figures.alloc_samples);
}

static double weight(const struct profile_sample *sample)
{
    struct period_figures figures = period_figures(&sample->figures);
    return figures.alloc_bytes > figures.live_bytes ? figures.alloc_bytes : figures.live_bytes;
}

static int compare(const void *left, const void *right)
{
    double a = weight(*(const struct profile_sample *const *)left);
    double b = weight(*(const struct profile_sample *const *)right);
    return (a < b) - (a > b);
}

static void write_callsite(struct json_writer *json, const struct profile *profile,
                           const struct profile_sample *sample)
{
    char label[PROFILE_LABEL_BYTES];
    json_object(json, NULL);
    write_figures(json, &sample->figures);
    json_array(json, "stack");
    uint32_t at = sample->callsite;
    for (int i = 0; i < FRAMES_MAX && at != PROFILE_NONE; i++) {
        const struct profile_callsite *callsite = &profile->callsites[at];
        json_string(json, NULL,
                    profile_frame_label(profile, &profile->frames[callsite->frame], label));
        at = callsite->parent;
    }
    json_end_array(json);
    json_end_object(json);
}

static void write_callsites(struct json_writer *json, const struct period *period)
{
    size_t count = period->dump->sample_count;
    const struct profile_sample **samples = malloc((count + 1) * sizeof(*samples));
    if (samples == NULL)
        return;
    memcpy(samples, period->dump->samples, count * sizeof(*samples));
    qsort(samples, count, sizeof(*samples), compare);
    json_array(json, "callsites");
    for (size_t i = 0; i < count && i < CALLSITES; i++)
        write_callsite(json, period->profile, samples[i]);
    json_end_array(json);
    free(samples);
}

void print_periods(FILE *out, const struct period *periods, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct period *period = &periods[i];
        struct json_writer json = json_begin(out);
        json_object(&json, NULL);
        json_signed(&json, "start_ns", period->start_ns);
        json_signed(&json, "end_ns", period->end_ns);
        json_object(&json, "labels");
        for (size_t j = 0; j < period->label_count; j++)
            json_string(&json, period->labels[j].name, period->labels[j].value);
        json_end_object(&json);
        json_unsigned(&json, "interval_bytes", period->interval_bytes);
        json_bool(&json, "is_final", period->is_final);
        json_string(&json, "end_reason", period->end_reason);
        json_unsigned(&json, "exact_bytes",
                      period->dump->earlier.exact_bytes + period->dump->exact_bytes);
        write_figures(&json, &period->dump->total);
        write_callsites(&json, period);
        json_end_object(&json);
        fputc('\n', out);
    }
    fflush(out);
}
