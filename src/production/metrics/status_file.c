/* SPDX-License-Identifier: Apache-2.0 */
/* Packs the status. */
#include "production/metrics/status_file.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/record/collector_file.h"
#include "util/clock.h"
#include "util/write_all.h"

/* A message has pointers to its parts. All of them are in arrays, one for each kind. */
struct parts {
    Heapprofd__CollectorProgram *programs, **program_pointers;
    Heapprofd__CollectorSink *sinks, **sink_pointers;
    Heapprofd__CollectorHeap *heaps, **heap_pointers;
    Heapprofd__CollectorLoss *losses, **loss_pointers;
    Heapprofd__CollectorLabel *labels, **label_pointers;
    size_t heap_count, loss_count, label_count;
};

#define SET(to, field, is_known, from)                                                             \
    do {                                                                                           \
        (to)->has_##field = (is_known);                                                            \
        (to)->field = (from);                                                                      \
    } while (0)
#define SET_DOUBLE(to, field, from) SET(to, field, isfinite(from), from)
#define SET_UNSIGNED(to, field, from) SET(to, field, (from) != COLLECTOR_UNKNOWN, from)

/* --- memory --- */

static void *allocate(size_t count, size_t bytes, bool *is_short)
{
    void *items = calloc(count + 1, bytes);
    *is_short |= items == NULL;
    return items;
}

#define ALLOCATE(items, pointers, count, is_short)                                                 \
    ((items) = allocate(count, sizeof(*(items)), is_short),                                        \
     (pointers) = allocate(count, sizeof(*(pointers)), is_short))

static int allocate_parts(struct parts *parts, const struct collector_status *status)
{
    size_t heaps = 0, losses = 0, labels = 0;
    bool is_short = false;
    for (size_t i = 0; i < status->program_count; i++) {
        heaps += status->programs[i].heap_count;
        losses += status->programs[i].loss_count;
        labels += status->programs[i].label_count;
    }
    *parts = (struct parts){0};
    ALLOCATE(parts->programs, parts->program_pointers, status->program_count, &is_short);
    ALLOCATE(parts->sinks, parts->sink_pointers, status->sink_count, &is_short);
    ALLOCATE(parts->heaps, parts->heap_pointers, heaps, &is_short);
    ALLOCATE(parts->losses, parts->loss_pointers, losses, &is_short);
    ALLOCATE(parts->labels, parts->label_pointers, labels, &is_short);
    return is_short ? -ENOMEM : 0;
}

static void free_parts(struct parts *parts)
{
    void *const all[] = {
        parts->programs, parts->program_pointers, parts->sinks,  parts->sink_pointers,
        parts->heaps,    parts->heap_pointers,    parts->losses, parts->loss_pointers,
        parts->labels,   parts->label_pointers,
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

/* --- packing --- */

static void fill_heap(Heapprofd__CollectorHeap *to, const struct collector_heap *from)
{
    heapprofd__collector_heap__init(to);
    to->name = (char *)from->name;
    SET_DOUBLE(to, live_bytes, from->live_bytes);
    SET_DOUBLE(to, live_bytes_low95, from->live_bytes_low);
    SET_DOUBLE(to, live_bytes_high95, from->live_bytes_high);
    SET_DOUBLE(to, live_count, from->live_count);
    SET_DOUBLE(to, allocated_bytes, from->allocated_bytes);
    SET_DOUBLE(to, allocated_count, from->allocated_count);
    SET(to, allocated_exact, true, from->allocated_is_exact);
    SET(to, partial, true, from->is_partial);
}

static void fill_lists(Heapprofd__CollectorProgram *to, const struct collector_program *from,
                       struct parts *parts)
{
    to->n_heaps = from->heap_count;
    to->heaps = parts->heap_pointers + parts->heap_count;
    for (size_t i = 0; i < from->heap_count; i++) {
        to->heaps[i] = &parts->heaps[parts->heap_count++];
        fill_heap(to->heaps[i], &from->heaps[i]);
    }
    to->n_losses = from->loss_count;
    to->losses = parts->loss_pointers + parts->loss_count;
    for (size_t i = 0; i < from->loss_count; i++) {
        Heapprofd__CollectorLoss *loss = &parts->losses[parts->loss_count++];
        heapprofd__collector_loss__init(loss);
        loss->reason = (char *)from->losses[i].reason;
        SET(loss, amount, true, from->losses[i].amount);
        to->losses[i] = loss;
    }
    to->n_labels = from->label_count;
    to->labels = parts->label_pointers + parts->label_count;
    for (size_t i = 0; i < from->label_count; i++) {
        Heapprofd__CollectorLabel *label = &parts->labels[parts->label_count++];
        heapprofd__collector_label__init(label);
        label->name = (char *)from->labels[i].name;
        label->value = (char *)from->labels[i].value;
        to->labels[i] = label;
    }
}

static void fill_program(Heapprofd__CollectorProgram *to, const struct collector_program *from,
                         struct parts *parts)
{
    heapprofd__collector_program__init(to);
    to->name = (char *)from->name;
    to->problem = from->problem[0] != '\0' ? (char *)from->problem : NULL;
    SET(to, pid, true, from->pid);
    SET(to, since_ns, from->since_ns > 0, from->since_ns);
    SET(to, last_dump_ns, from->last_dump_ns > 0, from->last_dump_ns);
    SET(to, interval_bytes, from->interval_bytes > 0 && from->interval_bytes != COLLECTOR_UNKNOWN,
        from->interval_bytes);
    SET(to, unexplained_bytes, from->unexplained.of_bytes > 0, from->unexplained.bytes);
    SET(to, anonymous_bytes, from->unexplained.of_bytes > 0, from->unexplained.of_bytes);
    SET_UNSIGNED(to, samples, from->samples);
    SET_DOUBLE(to, samples_per_hour, from->samples_per_hour);
    fill_lists(to, from, parts);
}

static void fill_sink(Heapprofd__CollectorSink *to, const struct sink_figures *from)
{
    heapprofd__collector_sink__init(to);
    to->name = (char *)from->name;
    to->kind = (char *)from->kind;
    to->last_error = from->last_error[0] != '\0' ? (char *)from->last_error : NULL;
    SET_UNSIGNED(to, sent_messages, from->sent_messages);
    SET_UNSIGNED(to, sent_bytes, from->sent_bytes);
    SET_UNSIGNED(to, sent_periods, from->sent_periods);
    SET_UNSIGNED(to, spooled_messages, from->spooled_messages);
    SET_UNSIGNED(to, spooled_bytes, from->spooled_bytes);
    SET_UNSIGNED(to, dropped_messages, from->dropped_messages);
    SET_UNSIGNED(to, dropped_periods, from->dropped_periods);
    SET_UNSIGNED(to, failures, from->failures);
    SET(to, lag_ms, true, from->lag_ms);
}

static void fill_status(Heapprofd__CollectorStatus *to, const struct collector_status *from,
                        struct parts *parts)
{
    heapprofd__collector_status__init(to);
    SET(to, time_ns, true, (int64_t)clock_read_ns(CLOCK_REALTIME));
    SET(to, pid, true, getpid());
    SET(to, started_ns, true, from->started_ns);
    SET(to, gap_ms, from->gap_ms >= 0, from->gap_ms);
    SET(to, period_ms, true, from->period_ms);
    SET_DOUBLE(to, samples_per_hour_budget, from->budget.samples_per_hour);
    SET_DOUBLE(to, cpu_budget, from->budget.cpu_share);
    SET_UNSIGNED(to, memory_budget_bytes, from->budget.memory_bytes);
    SET_DOUBLE(to, cpu_seconds, from->cpu_seconds);
    SET_DOUBLE(to, cpu_share, from->cpu_share);
    SET_UNSIGNED(to, memory_bytes, from->memory_bytes);
    SET_UNSIGNED(to, dumps_taken, from->dumps_taken);
    SET_UNSIGNED(to, dumps_lost, from->dumps_lost);
    to->programs = parts->program_pointers;
    to->n_programs = from->program_count;
    for (size_t i = 0; i < from->program_count; i++) {
        to->programs[i] = &parts->programs[i];
        fill_program(to->programs[i], &from->programs[i], parts);
    }
    to->sinks = parts->sink_pointers;
    to->n_sinks = from->sink_count;
    for (size_t i = 0; i < from->sink_count; i++) {
        to->sinks[i] = &parts->sinks[i];
        fill_sink(to->sinks[i], &from->sinks[i]);
    }
}

/* --- the file --- */

/* Nobody else can write to the run directory. */
static int replace(const char *directory, const void *bytes, size_t length, struct error *error)
{
    char path[PATH_MAX], beside[PATH_MAX];
    snprintf(path, sizeof(path), "%s/" COLLECTOR_FILE_NAME, directory);
    snprintf(beside, sizeof(beside), "%s/." COLLECTOR_FILE_NAME, directory);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int code = fd < 0 ? -errno : write_all(fd, bytes, length);
    if (fd >= 0)
        close(fd);
    if (code == 0 && rename(beside, path) < 0)
        code = -errno;
    return code < 0 ? error_set(error, code, "cannot write %s: %s", path, strerror(-code)) : 0;
}

int status_file_write(const char *directory, const struct collector_status *status,
                      const char *metrics_address, struct error *error)
{
    Heapprofd__CollectorStatus message;
    struct parts parts;
    uint8_t *bytes = NULL;
    int code = allocate_parts(&parts, status);
    if (code == 0) {
        fill_status(&message, status, &parts);
        message.metrics_address = metrics_address[0] != '\0' ? (char *)metrics_address : NULL;
        bytes = malloc(heapprofd__collector_status__get_packed_size(&message) + 1);
    }
    if (bytes == NULL)
        code = error_set(error, -ENOMEM, "no memory for the status");
    else
        code = replace(directory, bytes, heapprofd__collector_status__pack(&message, bytes), error);
    free(bytes);
    free_parts(&parts);
    return code;
}

void status_file_remove(const char *directory)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/" COLLECTOR_FILE_NAME, directory);
    unlink(path);
}
