/* SPDX-License-Identifier: Apache-2.0 */
/* Open, change and drive sinks and metrics. */
#include "production/continuous/outputs.h"

#include <stdio.h>
#include <sys/epoll.h>

#include "production/continuous/print_periods.h"
#include "recorder/sockets/run_directory.h"
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
