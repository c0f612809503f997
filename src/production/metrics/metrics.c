/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the status, the sums over programs, the server and the status file. */
#include "production/metrics/metrics.h"

#include <stdlib.h>

#include "production/metrics/listen.h"
#include "production/metrics/render.h"
#include "production/metrics/server.h"
#include "production/metrics/status_file.h"
#include "recorder/sockets/run_directory.h"
#include "util/clock.h"

struct metrics {
    struct metrics_source source;
    struct program_totals totals;
    struct metrics_server *server; /* NULL: none */
    char address[METRICS_ADDRESS_BYTES];
    char run_directory[RUN_DIRECTORY_PATH_MAX];
    uint64_t file_due_ms; /* CLOCK_MONOTONIC */
};

static int take_status(struct metrics *metrics, struct collector_status *status)
{
    metrics->source.status(metrics->source.context, status);
    return program_totals_update(&metrics->totals, status, clock_read_ms(CLOCK_MONOTONIC));
}

static int write_text(void *context, FILE *out, bool is_open_metrics)
{
    struct metrics *metrics = context;
    struct exposition exposition = {.out = out, .is_open_metrics = is_open_metrics};
    struct collector_status status;
    int code = take_status(metrics, &status);
    if (code == 0)
        metrics_render(&exposition, &status, &metrics->totals);
    return code;
}

static int serve(struct metrics *metrics, struct settings *settings, struct error *error)
{
    const struct server_text text = {write_text, metrics};
    struct settings_section *section = settings_next(settings, "metrics", NULL);
    if (section == NULL)
        return 0;
    int listener = metrics_listen(section, metrics->address, error);
    if (listener < 0)
        return listener;
    metrics->server = metrics_server_open(listener, &text, error);
    return metrics->server != NULL ? 0 : error->code;
}

int metrics_check(struct settings *settings, struct error *error)
{
    struct settings_section *section = settings_next(settings, "metrics", NULL);
    return section == NULL ? 0 : metrics_listen_check(section, error);
}

struct metrics *metrics_open(struct settings *settings, const char *run_directory,
                             const struct metrics_source *source, struct error *error)
{
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL) {
        error_set(error, -ENOMEM, "no memory for metrics");
        return NULL;
    }
    metrics->source = *source;
    snprintf(metrics->run_directory, sizeof(metrics->run_directory), "%s", run_directory);
    if (serve(metrics, settings, error) < 0) {
        free(metrics);
        return NULL;
    }
    return metrics;
}

static void stop_serving(struct metrics *metrics)
{
    if (metrics->server != NULL)
        metrics_server_close(metrics->server);
    metrics_listen_end(metrics->address);
    metrics->server = NULL;
    metrics->address[0] = '\0';
}

int metrics_reload(struct metrics *metrics, struct settings *settings, struct settings *old,
                   struct error *error)
{
    struct error ignored;
    stop_serving(metrics);
    if (serve(metrics, settings, error) == 0)
        return 0;
    serve(metrics, old, &ignored);
    return error->code < 0 ? error->code : -EINVAL;
}

const char *metrics_address(const struct metrics *metrics)
{
    return metrics->address;
}

int metrics_descriptor(const struct metrics *metrics)
{
    return metrics->server != NULL ? metrics_server_descriptor(metrics->server) : -1;
}

void metrics_note(struct metrics *metrics)
{
    struct collector_status status;
    take_status(metrics, &status);
}

void metrics_work(struct metrics *metrics, unsigned *timeout_ms)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (now_ms >= metrics->file_due_ms) {
        struct collector_status status;
        metrics->source.status(metrics->source.context, &status);
        /* `heap_profile status` says how old the file is. */
        status_file_write(metrics->run_directory, &status, metrics->address, NULL);
        metrics->file_due_ms = now_ms + STATUS_FILE_PERIOD_MS;
    }
    *timeout_ms = (unsigned)(metrics->file_due_ms - now_ms);
    if (metrics->server != NULL)
        metrics_server_work(metrics->server, timeout_ms);
}

void metrics_close(struct metrics *metrics)
{
    stop_serving(metrics);
    status_file_remove(metrics->run_directory);
    program_totals_clear(&metrics->totals);
    free(metrics);
}
