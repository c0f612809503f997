/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put_periods CONFIG SPOOL TRACE: drive the sinks of a configuration with periods of a real trace,
 * one for each heap, by commands on standard input. After each command it prints the sinks' figures
 * as a line of JSON.
 *
 *     put COUNT   give the periods to the sinks, COUNT times
 *     work MS     send until nothing waits, for at most MS
 *     figures
 *     close MS    close the sinks with this patience, and end
 *
 * At the end of its input it ends at once, without closing anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "production/sinks/sink.h"
#include "profile/builder/profile_read.h"
#include "util/clock.h"
#include "util/json_writer.h"

#define PERIODS_MAX 16
#define LABELS 8
#define SECOND_NS INT64_C(1000000000)

struct driver {
    struct settings settings;
    struct sinks *sinks;
    struct profile *profile;
    struct period periods[PERIODS_MAX];
    struct period_label labels[PERIODS_MAX][LABELS];
    char pids[PERIODS_MAX][16];
    size_t count;
};

static void fail(const struct error *error)
{
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

/* Make the periods that end now. */
static void make_periods(struct driver *driver)
{
    int64_t now_ns = (int64_t)clock_read_ns(CLOCK_REALTIME);
    driver->count = 0;
    for (size_t i = 0; i < driver->profile->heap_count && driver->count < PERIODS_MAX; i++) {
        const struct profile_heap *heap = &driver->profile->heaps[i];
        const struct profile_process *process = &driver->profile->processes[heap->process];
        size_t at = driver->count;
        if (heap->dump_count == 0)
            continue;
        snprintf(driver->pids[at], sizeof(driver->pids[at]), "%d", process->pid);
        const struct period_label labels[LABELS] = {
            {"boot_id", "2f1f4c5e-0000-4000-8000-000000000001"},
            {"heap", heap->name},
            {"host", "db 1/a=b,c"},
            {"pid", driver->pids[at]},
            {"program", process->name},
            {"region", "north\xff"},
            {"service_name", "shop.cart"},
            {"version", "1.2\xc3\xa4"},
        };
        memcpy(driver->labels[at], labels, sizeof(labels));
        driver->periods[at] = (struct period){.start_ns = now_ns - 60 * SECOND_NS,
                                              .end_ns = now_ns,
                                              .profile = driver->profile,
                                              .heap = heap,
                                              .dump = &heap->dumps[heap->dump_count - 1],
                                              .labels = driver->labels[at],
                                              .label_count = LABELS,
                                              .interval_bytes = heap->interval_bytes,
                                              .end_reason = ""};
        driver->count++;
    }
}

static void print_periods(struct json_writer *json, const struct driver *driver)
{
    json_array(json, "periods");
    for (size_t i = 0; i < driver->count; i++) {
        const struct profile_dump *dump = driver->periods[i].dump;
        struct trace_figures sum = {0};
        for (size_t j = 0; j < dump->sample_count; j++)
            trace_figures_add(&sum, &dump->samples[j]->figures);
        struct period_figures figures = period_figures(&sum);
        json_object(json, NULL);
        json_string(json, "heap", driver->periods[i].heap->name);
        json_number(json, "start_ns", (double)driver->periods[i].start_ns);
        json_number(json, "end_ns", (double)driver->periods[i].end_ns);
        json_unsigned(json, "interval_bytes", driver->periods[i].interval_bytes);
        json_number(json, "alloc_objects", figures.alloc_count);
        json_number(json, "alloc_space", figures.alloc_bytes);
        json_number(json, "inuse_objects", figures.live_count);
        json_number(json, "inuse_space", figures.live_bytes);
        json_end_object(json);
    }
    json_end_array(json);
}

static void print_figures(const struct driver *driver)
{
    struct json_writer json = json_begin(stdout);
    size_t count;
    const struct sink_figures *figures = sinks_figures(driver->sinks, &count);
    json_object(&json, NULL);
    json_object(&json, "sinks");
    for (size_t i = 0; i < count; i++, figures++) {
        json_object(&json, figures->name);
        json_string(&json, "kind", figures->kind);
        json_unsigned(&json, "sent_messages", figures->sent_messages);
        json_unsigned(&json, "sent_bytes", figures->sent_bytes);
        json_unsigned(&json, "sent_periods", figures->sent_periods);
        json_unsigned(&json, "spooled_messages", figures->spooled_messages);
        json_unsigned(&json, "spooled_bytes", figures->spooled_bytes);
        json_unsigned(&json, "dropped_messages", figures->dropped_messages);
        json_unsigned(&json, "dropped_periods", figures->dropped_periods);
        json_unsigned(&json, "failures", figures->failures);
        json_signed(&json, "lag_ms", figures->lag_ms);
        json_string(&json, "last_error", figures->last_error);
        json_end_object(&json);
    }
    json_end_object(&json);
    print_periods(&json, driver);
    json_end_object(&json);
    putchar('\n');
    fflush(stdout);
}

static bool any_waits(struct driver *driver)
{
    size_t count;
    const struct sink_figures *figures = sinks_figures(driver->sinks, &count);
    for (size_t i = 0; i < count; i++) {
        if (figures[i].spooled_messages > 0)
            return true;
    }
    return false;
}

static void work(struct driver *driver, uint64_t patience_ms)
{
    uint64_t end_ms = clock_read_ms(CLOCK_MONOTONIC) + patience_ms, now_ms;
    while (any_waits(driver) && (now_ms = clock_read_ms(CLOCK_MONOTONIC)) < end_ms) {
        struct epoll_event event;
        unsigned timeout_ms;
        sinks_work(driver->sinks, &timeout_ms);
        if (any_waits(driver))
            epoll_wait(sinks_descriptor(driver->sinks), &event, 1,
                       (int)clock_earlier(timeout_ms, end_ms - now_ms));
    }
}

int main(int argument_count, char **arguments)
{
    struct driver driver = {0};
    struct error error = {0};
    char line[64];
    if (argument_count != 4)
        return 2;
    if (settings_read(&driver.settings, arguments[1], NULL, &error) < 0 ||
        (driver.profile = profile_read(arguments[3], NULL, &error)) == NULL ||
        (driver.sinks = sinks_open(&driver.settings, arguments[2], &error)) == NULL ||
        settings_check_used(&driver.settings, &error) < 0)
        fail(&error);
    print_figures(&driver);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        unsigned number = 0;
        char word[16] = "";
        sscanf(line, "%15s %u", word, &number);
        make_periods(&driver);
        for (unsigned i = 0; strcmp(word, "put") == 0 && i < number; i++)
            sinks_put(driver.sinks, driver.periods, driver.count);
        if (strcmp(word, "work") == 0)
            work(&driver, number);
        if (strcmp(word, "close") == 0) {
            sinks_close(driver.sinks, number);
            profile_free(driver.profile);
            settings_clear(&driver.settings);
            return 0;
        }
        print_figures(&driver);
    }
    _exit(0);
}
