/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives profiles to the sinks of a configuration, for hosts and times that lines of standard input
 * name:
 *
 *     SERVICE HOST VERSION START_S SECONDS SCALE
 *
 * Each line is a period of every heap of the trace, whose figures are multiplied by SCALE. An empty
 * line ends a collection. Lines go on being read while a sink's server is away. At the end waits up
 * to PATIENCE_S for what is not sent yet, and prints the sinks' figures.
 *
 *     fill_fleet CONFIGURATION SPOOL TRACE PATIENCE_S
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "production/sinks/sink.h"
#include "profile/builder/profile_read.h"

/* The figures of a trace's last dumps, multiplied. */
struct scaled {
    struct profile_dump dump;
    struct profile_sample *samples;
};

static void scale(struct trace_figures *figures, double by)
{
    figures->allocated_bytes *= by;
    figures->freed_bytes *= by;
    figures->allocated_count *= by;
    figures->freed_count *= by;
    figures->allocated_bytes_variance *= by * by;
    figures->freed_bytes_variance *= by * by;
    figures->allocated_count_variance *= by * by;
    figures->freed_count_variance *= by * by;
}

static struct scaled scaled_of(const struct profile_dump *dump, double by)
{
    struct scaled scaled = {.dump = *dump};
    scaled.samples = calloc(dump->sample_count + 1, sizeof(*scaled.samples));
    scaled.dump.samples = calloc(dump->sample_count + 1, sizeof(*scaled.dump.samples));
    if (scaled.samples == NULL || scaled.dump.samples == NULL)
        abort();
    for (size_t i = 0; i < dump->sample_count; i++) {
        scaled.samples[i] = *dump->samples[i];
        scale(&scaled.samples[i].figures, by);
        scaled.dump.samples[i] = &scaled.samples[i];
    }
    scale(&scaled.dump.total, by);
    scaled.dump.exact_bytes = (uint64_t)((double)dump->exact_bytes * by);
    scaled.dump.exact_calls = (uint64_t)((double)dump->exact_calls * by);
    return scaled;
}

/* The periods of a collection, and what they point to. */
#define PERIODS_MAX 4096u
#define LABELS 6u
static struct collection {
    struct period periods[PERIODS_MAX];
    struct scaled scaled[PERIODS_MAX];
    struct period_label labels[PERIODS_MAX][LABELS];
    char texts[PERIODS_MAX][3][100];
    size_t count;
} collection;

static void put_collection(struct sinks *sinks)
{
    unsigned timeout_ms;
    sinks_put(sinks, collection.periods, collection.count);
    for (size_t i = 0; i < collection.count; i++) {
        free(collection.scaled[i].samples);
        free(collection.scaled[i].dump.samples);
    }
    collection.count = 0;
    sinks_work(sinks, &timeout_ms);
}

static void add_period(const struct profile *profile, const struct profile_heap *heap,
                       char texts[3][100], long long start_s, double seconds, double by)
{
    size_t at = collection.count++;
    struct scaled *scaled = &collection.scaled[at];
    *scaled = scaled_of(&heap->dumps[heap->dump_count - 1], by);
    memcpy(collection.texts[at], texts, sizeof(collection.texts[at]));
    const struct period_label labels[LABELS] = {
        {"boot_id", "b"},
        {"heap", heap->name},
        {"host", collection.texts[at][1]},
        {"pid", "1"},
        {"service_name", collection.texts[at][0]},
        {"version", collection.texts[at][2]},
    };
    memcpy(collection.labels[at], labels, sizeof(labels));
    collection.periods[at] = (struct period){
        .start_ns = start_s * 1000000000,
        .end_ns = start_s * 1000000000 + (int64_t)(seconds * 1e9),
        .profile = profile,
        .heap = heap,
        .dump = &scaled->dump,
        .labels = collection.labels[at],
        .label_count = LABELS,
        .interval_bytes = heap->interval_bytes,
        .end_reason = "",
    };
}

static int put_line(struct sinks *sinks, const struct profile *profile, const char *line)
{
    char texts[3][100] = {""};
    long long start_s;
    double seconds, by;
    if (*line == '\n') {
        put_collection(sinks);
        return 0;
    }
    if (sscanf(line, "%99s %99s %99s %lld %lf %lf", texts[0], texts[1], texts[2], &start_s,
               &seconds, &by) != 6) {
        fprintf(stderr, "fill_fleet: bad line: %s", line);
        return -1;
    }
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (collection.count == PERIODS_MAX)
            put_collection(sinks);
        if (heap->dump_count > 0 && !heap->unseen)
            add_period(profile, heap, texts, start_s, seconds, by);
    }
    return 0;
}

/* Send what is due, and wait until there is more to do, or a line to read. Return whether there is
 * a line. */
static bool work(struct sinks *sinks, bool reads)
{
    unsigned timeout_ms = 0;
    sinks_work(sinks, &timeout_ms);
    struct pollfd ready[2] = {{.fd = sinks_descriptor(sinks), .events = POLLIN},
                              {.fd = reads ? STDIN_FILENO : -1, .events = POLLIN}};
    poll(ready, 2, timeout_ms < 200 ? (int)timeout_ms : 200);
    return ready[1].revents != 0;
}

static uint64_t waiting(struct sinks *sinks)
{
    size_t count;
    uint64_t messages = 0;
    const struct sink_figures *figures = sinks_figures(sinks, &count);
    for (size_t i = 0; i < count; i++)
        messages += figures[i].spooled_messages;
    return messages;
}

int main(int argc, char **argv)
{
    struct settings settings = {0};
    struct error error = {0};
    char line[1000];
    if (argc < 5) {
        fputs("usage: fill_fleet CONFIGURATION SPOOL TRACE PATIENCE_S\n", stderr);
        return 2;
    }
    struct profile *profile = profile_read(argv[3], NULL, &error);
    struct sinks *sinks = NULL;
    if (profile != NULL && settings_read(&settings, argv[1], NULL, &error) == 0)
        sinks = sinks_open(&settings, argv[2], &error);
    if (sinks == NULL) {
        fprintf(stderr, "fill_fleet: %s\n", error.message);
        return 1;
    }
    bool good = true;
    setvbuf(stdin, NULL, _IONBF, 0); /* else poll() would not see lines that were read */
    for (bool more = true; good && more;) {
        if (!work(sinks, true))
            continue;
        more = fgets(line, sizeof(line), stdin) != NULL;
        good = !more || put_line(sinks, profile, line) == 0;
    }
    put_collection(sinks);
    for (time_t until = time(NULL) + atoi(argv[4]); waiting(sinks) > 0 && time(NULL) < until;)
        work(sinks, false);
    good &= waiting(sinks) == 0;
    size_t count;
    const struct sink_figures *figures = sinks_figures(sinks, &count);
    for (size_t i = 0; i < count; i++)
        printf("{\"sent\":%llu,\"bytes\":%llu,\"waiting\":%llu,\"dropped\":%llu,\"failures\":%llu,"
               "\"error\":\"%s\"}\n",
               (unsigned long long)figures[i].sent_messages,
               (unsigned long long)figures[i].sent_bytes,
               (unsigned long long)figures[i].spooled_messages,
               (unsigned long long)figures[i].dropped_messages,
               (unsigned long long)figures[i].failures,
               strpbrk(figures[i].last_error, "\"\\") == NULL ? figures[i].last_error : "error");
    sinks_close(sinks, 0);
    settings_clear(&settings);
    profile_free(profile);
    return !good;
}
