/* SPDX-License-Identifier: Apache-2.0 */
/* Open, change and drive sinks and metrics. */
#include "production/continuous/outputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "production/continuous/period.h"
#include "recorder/sockets/run_directory.h"
#include "util/json_writer.h"

/* Writes periods as lines of JSON, for people who try a configuration, and for tests. */

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

static int outputs_compare(const void *left, const void *right)
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
    qsort(samples, count, sizeof(*samples), outputs_compare);
    json_array(json, "callsites");
    for (size_t i = 0; i < count && i < CALLSITES; i++)
        write_callsite(json, period->profile, samples[i]);
    json_end_array(json);
    free(samples);
}

/* Write the periods, each with its sums and its largest callsites. Errors of the stream are the
 * caller's to check. */
static void print_periods(FILE *out, const struct period *periods, size_t count)
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

#ifdef HEAPPROFD_METRICS
#include "production/metrics/metrics.h"
#endif
#include "production/sinks/sink.h"
#include "util/event_loop.h"

#define IDLE_MS 60000u
/* Sinks have this time to send what waits before they are opened again. */
#define CHANGE_PATIENCE_MS 2000u

static int open_sinks(struct outputs *outputs, struct collector_config *config, struct error *error)
{
    if (outputs->prints)
        return 0;
    /* An image for containers may have no /var/lib. Failures show when the spool is opened. */
    if (strcmp(config->spool, COLLECTOR_SPOOL_DIRECTORY) == 0) {
        mkdir("/var", 0755);
        mkdir("/var/lib", 0755);
    }
    outputs->sinks = sinks_open(&config->settings, config->spool, error);
    if (outputs->sinks == NULL)
        return error->code < 0 ? error->code : -EINVAL;
    int fd = sinks_descriptor(outputs->sinks);
    return fd < 0 ? 0 : event_loop_watch(outputs->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
}

static int change_sinks(struct outputs *outputs, struct collector_config *old,
                        struct collector_config *next, struct error *error)
{
    struct error ignored;
    if (outputs->prints)
        return 0;
    sinks_close(outputs->sinks, CHANGE_PATIENCE_MS);
    outputs->sinks = NULL;
    int code = open_sinks(outputs, next, error);
    if (code < 0 && open_sinks(outputs, old, &ignored) < 0)
        return error_set(error, -EPIPE, "the old sinks cannot be opened again: %s",
                         ignored.message);
    return code;
}

/* --- metrics --- */

#ifdef HEAPPROFD_METRICS

static int watch_metrics(struct outputs *outputs)
{
    int fd = metrics_descriptor(outputs->metrics);
    return fd < 0 ? 0 : event_loop_watch(outputs->epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
}

static int open_metrics(struct outputs *outputs, struct collector_config *config,
                        struct error *error)
{
    char directory[RUN_DIRECTORY_PATH_MAX];
    const struct metrics_source source = {.status = outputs->status};
    if (run_directory_choose(directory, error) < 0)
        return error->code;
    outputs->metrics = metrics_open(&config->settings, directory, &source, error);
    if (outputs->metrics == NULL)
        return error->code < 0 ? error->code : -EINVAL;
    return watch_metrics(outputs);
}

static int change_metrics(struct outputs *outputs, struct collector_config *old,
                          struct collector_config *next, struct error *error)
{
    int code = metrics_reload(outputs->metrics, &next->settings, &old->settings, error);
    watch_metrics(outputs);
    return code;
}

#else

static int open_metrics(struct outputs *outputs, struct collector_config *config,
                        struct error *error)
{
    (void)outputs, (void)config, (void)error;
    return 0;
}

static int change_metrics(struct outputs *outputs, struct collector_config *old,
                          struct collector_config *next, struct error *error)
{
    (void)old;
    return open_metrics(outputs, next, error);
}

#endif

/* --- both --- */

int outputs_open(struct outputs *outputs, struct collector_config *config, struct error *error)
{
    int code = open_sinks(outputs, config, error);
    return code < 0 ? code : open_metrics(outputs, config, error);
}

int outputs_change(struct outputs *outputs, struct collector_config *old,
                   struct collector_config *next, const struct reload_changes *changes,
                   struct error *error)
{
    int code = changes->sinks ? change_sinks(outputs, old, next, error) : 0;
    if (code < 0 || !changes->metrics)
        return code;
    code = change_metrics(outputs, old, next, error);
    if (code < 0 && changes->sinks) {
        struct error again = *error;
        if (change_sinks(outputs, next, old, &again) < 0) {
            *error = again;
            return -EPIPE;
        }
    }
    return code;
}

void outputs_close(struct outputs *outputs, unsigned patience_ms)
{
#ifdef HEAPPROFD_METRICS
    if (outputs->metrics != NULL)
        metrics_close(outputs->metrics);
#endif
    if (outputs->sinks != NULL)
        sinks_close(outputs->sinks, patience_ms);
    outputs->metrics = NULL;
    outputs->sinks = NULL;
}

void outputs_put(struct outputs *outputs, const struct period *periods, size_t count)
{
    if (outputs->sinks != NULL)
        sinks_put(outputs->sinks, periods, count);
    else if (outputs->prints)
        print_periods(stdout, periods, count);
}

void outputs_note(struct outputs *outputs)
{
#ifdef HEAPPROFD_METRICS
    metrics_note(outputs->metrics);
#else
    (void)outputs;
#endif
}

unsigned outputs_work(struct outputs *outputs)
{
    unsigned timeout_ms = IDLE_MS;
    if (outputs->sinks != NULL)
        sinks_work(outputs->sinks, &timeout_ms);
#ifdef HEAPPROFD_METRICS
    unsigned metrics_ms = timeout_ms;
    metrics_work(outputs->metrics, &metrics_ms);
    timeout_ms = metrics_ms < timeout_ms ? metrics_ms : timeout_ms;
#endif
    return timeout_ms;
}

void outputs_fill_status(struct outputs *outputs, struct collector_status *status)
{
    if (outputs->sinks != NULL)
        status->sinks = sinks_figures(outputs->sinks, &status->sink_count);
}
