/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sinks of a configuration: each message goes to its sink's spool first, and leaves the spool
 * when the other side has it. One message of a sink is on its way at a time. When the other side
 * answers that it cannot take one now, the next attempt is with the next message, so that no single
 * message holds up the others.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "production/sinks/backoff.h"
#include "production/sinks/compress.h"
#include "production/sinks/kinds.h"
#include "production/sinks/private_directory.h"
#include "production/sinks/sender.h"
#include "production/sinks/sink.h"
#include "production/sinks/spool.h"
#include "util/array.h"
#include "util/clock.h"

#define SINK_NAME_BYTES_MAX 64u

struct sink {
    const struct sink_kind *kind;
    void *state;
    char name[SINK_NAME_BYTES_MAX + 1];
    struct spool spool;
    struct backoff backoff;
    uint64_t last_tried;             /* sequence */
    unsigned compression;            /* of enum sink_compression; 0: none */
    struct sender_link *link;        /* NULL: the kind delivers */
    struct spool_message on_its_way; /* while the link is busy */
    struct sink_figures figures;
    struct error error; /* the last one */
};

/* What the links of all sinks share. */
struct sink_connections {
    int descriptor;        /* of epoll */
    struct sender *sender; /* NULL: no sink needs it yet */
};

#define DEFAULT_SPOOL_BYTES (UINT64_C(256) << 20)
#define DEFAULT_RETRY_FIRST_MS 1000u
#define DEFAULT_RETRY_MAX_MS (5u * 60 * 1000)

static const struct sink_kind *const kinds[] = {
    &sink_directory, &sink_pyroscope, &sink_gigapipe,   &sink_parca,
    &sink_coroot,    &sink_otlp,      &sink_clickhouse,
};

static const struct sink_kind *find_kind(struct settings_section *section, struct error *error)
{
    const char *name = setting_text(section, "type", NULL);
    char reason[256] = "the types of sinks are";
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t length = strlen(reason);
        if (name != NULL && strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
        snprintf(reason + length, sizeof(reason) - length, "%s %s", i == 0 ? "" : ",",
                 kinds[i]->name);
    }
    setting_refuse(section, "type", error, reason);
    return NULL;
}

/* The name is that of a directory, and of a label in metrics. */
static int check_name(const struct settings_section *section, struct error *error)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t length = strlen(section->name);
    if (length == 0 || length > SINK_NAME_BYTES_MAX || strspn(section->name, allowed) != length)
        return error_set(error, -EINVAL,
                         "%s:%u: a sink needs a name of 1 to %u letters, digits, _ and -, as in "
                         "[sink grafana]",
                         section->file, section->line, SINK_NAME_BYTES_MAX);
    return 0;
}

static int choose_compression(struct sink *sink, struct settings_section *section,
                              struct error *error)
{
    unsigned offered = sink->kind->compressions;
    if (offered == 0)
        return 0;
    sink->compression = (offered & SINK_GZIP) != 0 ? SINK_GZIP : SINK_ZSTD;
    const char *text = setting_text(section, "compression",
                                    compress_name((enum sink_compression)sink->compression));
    if (strcmp(text, "none") == 0)
        sink->compression = 0;
    else if (strcmp(text, "gzip") == 0 && (offered & SINK_GZIP) != 0)
        sink->compression = SINK_GZIP;
    else if (strcmp(text, "zstd") == 0 && (offered & SINK_ZSTD) != 0)
        sink->compression = SINK_ZSTD;
    else
        return setting_refuse(section, "compression", error,
                              offered == (SINK_GZIP | SINK_ZSTD) ? "gzip, zstd or none"
                              : offered == SINK_GZIP             ? "gzip or none"
                                                                 : "zstd or none");
    return 0;
}

static int open_link(struct sink *sink, struct sink_connections *connections,
                     struct settings_section *section, struct error *error)
{
    if (connections->sender == NULL)
        connections->sender = sender_open(connections->descriptor, error);
    if (connections->sender == NULL)
        return -ENOMEM;
    sink->link = sender_link_open(connections->sender, section, error);
    return sink->link == NULL ? -EINVAL : choose_compression(sink, section, error);
}

/* Without a spool_directory, only check the settings. */
static int open_spool(struct sink *sink, const char *spool_directory,
                      struct settings_section *section, struct error *error)
{
    char path[PATH_MAX];
    uint64_t bytes_max = DEFAULT_SPOOL_BYTES;
    if (setting_bytes(section, "spool_size", &bytes_max, error) < 0)
        return -EINVAL;
    if (spool_directory == NULL)
        return 0;
    int parent = private_directory_make(spool_directory, error);
    if (parent < 0)
        return parent;
    close(parent);
    if ((size_t)snprintf(path, sizeof(path), "%s/%s", spool_directory, sink->name) >= sizeof(path))
        return error_set(error, -ENAMETOOLONG, "%.300s: the path is too long", spool_directory);
    return spool_open(&sink->spool, path, bytes_max, error);
}

/* Open a sink. Without a spool_directory, only check its section. Return 0 or a negative errno with
 * a message; close the sink in any case. */
static int open_sink(struct sink *sink, struct sink_connections *connections,
                     struct settings_section *section, const char *spool_directory,
                     struct error *error)
{
    *sink = (struct sink){
        .spool = {.directory = -1},
        .backoff = {.first_ms = DEFAULT_RETRY_FIRST_MS, .max_ms = DEFAULT_RETRY_MAX_MS}};
    if (check_name(section, error) < 0)
        return -EINVAL;
    snprintf(sink->name, sizeof(sink->name), "%s", section->name);
    if (setting_duration_ms(section, "retry_first", &sink->backoff.first_ms, error) < 0 ||
        setting_duration_ms(section, "retry_max", &sink->backoff.max_ms, error) < 0)
        return -EINVAL;
    sink->kind = find_kind(section, error);
    if (sink->kind == NULL)
        return -EINVAL;
    *error = (struct error){0};
    sink->state = sink->kind->open(section, error);
    if (sink->state == NULL)
        return -EINVAL;
    sink->error = *error;
    int code = sink->kind->deliver != NULL ? 0 : open_link(sink, connections, section, error);
    return code < 0 ? code : open_spool(sink, spool_directory, section, error);
}

static void close_sink(struct sink *sink)
{
    sender_link_close(sink->link);
    spool_message_free(&sink->on_its_way);
    spool_close(&sink->spool);
    if (sink->state != NULL)
        sink->kind->close(sink->state);
}

#define IDLE_MS 60000u
/* Time that sinks_work() may use for files. */
#define WORK_MS_MAX 20u

struct sinks {
    struct sink *items;
    size_t count, capacity;
    struct sink_figures *figures;
    struct sink_connections connections;
};

/* --- opening --- */

static void free_sinks(struct sinks *sinks)
{
    for (size_t i = 0; i < sinks->count; i++)
        close_sink(&sinks->items[i]);
    sender_close(sinks->connections.sender);
    if (sinks->connections.descriptor >= 0)
        close(sinks->connections.descriptor);
    free(sinks->items);
    free(sinks->figures);
    free(sinks);
}

static int open_all(struct sinks *sinks, struct settings *settings, const char *spool_directory,
                    struct error *error)
{
    struct settings_section *section = NULL;
    while ((section = settings_next(settings, "sink", section)) != NULL) {
        if (ARRAY_RESERVE(&sinks->items, &sinks->capacity, sinks->count, 1) < 0)
            return error_set(error, -ENOMEM, "out of memory");
        int code = open_sink(&sinks->items[sinks->count], &sinks->connections, section,
                             spool_directory, error);
        sinks->count++; /* also a half-opened one, for free_sinks() */
        if (code < 0)
            return code;
    }
    sinks->figures = calloc(sinks->count + 1, sizeof(*sinks->figures));
    return sinks->figures == NULL ? error_set(error, -ENOMEM, "out of memory") : 0;
}

struct sinks *sinks_open(struct settings *settings, const char *spool_directory,
                         struct error *error)
{
    struct sinks *sinks = calloc(1, sizeof(*sinks));
    if (sinks == NULL) {
        error_set(error, -ENOMEM, "out of memory");
        return NULL;
    }
    sinks->connections.descriptor = epoll_create1(EPOLL_CLOEXEC);
    if (sinks->connections.descriptor < 0)
        error_set(error, -errno, "no descriptor for the sinks: %s", strerror(errno));
    else if (open_all(sinks, settings, spool_directory, error) == 0)
        return sinks;
    free_sinks(sinks);
    return NULL;
}

int sinks_check(struct settings *settings, struct error *error)
{
    struct sinks *sinks = sinks_open(settings, NULL, error);
    if (sinks == NULL)
        return -EINVAL;
    int count = (int)sinks->count;
    free_sinks(sinks);
    return count;
}

/* --- putting --- */

static int put_message(void *context, const struct sink_message *message, struct error *error)
{
    struct sink *sink = context;
    struct sink_message packed = *message;
    void *body = NULL;
    if (sink->compression != 0 && *message->content_encoding == '\0') {
        enum sink_compression compression = (enum sink_compression)sink->compression;
        body = compress_bytes(compression, message->body, message->length, &packed.length);
        if (body != NULL) {
            packed.body = body;
            packed.content_encoding = compress_name(compression);
        }
    }
    int code = spool_add(&sink->spool, body == NULL ? message : &packed, error);
    free(body);
    return code;
}

void sinks_put(struct sinks *sinks, const struct period *periods, size_t count)
{
    for (size_t i = 0; i < sinks->count && count > 0; i++) {
        struct sink *sink = &sinks->items[i];
        const struct sink_output output = {put_message, sink};
        sink->kind->encode(sink->state, periods, count, &output, &sink->error);
    }
}

/* --- sending --- */

/* Take a message out of the spool, or keep it for later. */
static void settle(struct sink *sink, const struct sink_message *message, uint64_t sequence,
                   enum sink_verdict verdict, uint64_t retry_after_ms)
{
    struct sink_figures *figures = &sink->figures;
    sink->spool.held = 0;
    if (verdict == SINK_TAKEN) {
        figures->sent_messages++;
        figures->sent_bytes += message->length;
        figures->sent_periods += message->periods;
    } else {
        figures->failures++;
    }
    if (verdict == SINK_AGAIN) {
        backoff_fail(&sink->backoff, clock_read_ms(CLOCK_MONOTONIC), retry_after_ms);
    } else {
        backoff_succeed(&sink->backoff);
        spool_remove(&sink->spool, sequence, verdict == SINK_REFUSED);
    }
}

static enum sink_verdict judge_by_default(long status)
{
    if (status >= 200 && status < 300)
        return SINK_TAKEN;
    return status == 400 || status == 406 || status == 413 || status == 415 || status == 422
               ? SINK_REFUSED
               : SINK_AGAIN;
}

static void put_answer_error(struct sink *sink, const struct sender_answer *answer)
{
    if (answer->status == 0)
        error_set(&sink->error, -EIO, "%s: %s: %s", sink->name, answer->address, answer->failure);
    else if (answer->status >= 300 && answer->status < 400)
        error_set(&sink->error, -EIO,
                  "%s: %s answers %ld, a redirection, which is not followed; correct the url",
                  sink->name, answer->address, answer->status);
    else
        error_set(&sink->error, -EIO, "%s: %s answers %ld: %.*s", sink->name, answer->address,
                  answer->status, (int)strcspn(answer->text, "\r\n") & 255, answer->text);
}

/* Take the answer to the message on its way. Return whether there was one. */
static bool take_answer(struct sink *sink)
{
    struct sender_answer answer;
    enum sink_verdict verdict = SINK_AGAIN;
    if (!sender_link_finished(sink->link, &answer))
        return false;
    if (answer.status != 0)
        verdict = sink->kind->judge == NULL
                      ? judge_by_default(answer.status)
                      : sink->kind->judge(sink->state, answer.status, answer.text, answer.length);
    if (verdict != SINK_TAKEN)
        put_answer_error(sink, &answer);
    settle(sink, &sink->on_its_way.message, sink->spool.held, verdict, answer.retry_after_ms);
    spool_message_free(&sink->on_its_way);
    return true;
}

/* Deliver a message, or begin to send it. */
static void sinks_begin(struct sink *sink, struct spool_message *read, uint64_t sequence)
{
    const struct sink_message *message = &read->message;
    enum sink_verdict verdict = SINK_AGAIN;
    if (sink->link == NULL) {
        verdict = sink->kind->deliver(sink->state, message, &sink->error);
    } else if (sender_link_start(sink->link, message, &sink->error) == 0) {
        sink->spool.held = sequence;
        sink->on_its_way = *read;
        return;
    }
    settle(sink, message, sequence, verdict, 0);
    spool_message_free(read);
}

/* Do what is due for a sink. Return whether there may be more to do at once. */
static bool work(struct sink *sink)
{
    struct spool_message read;
    bool any = sink->link != NULL && take_answer(sink);
    const struct spool_entry *next = spool_next(&sink->spool, sink->last_tried);
    if (next == NULL || (sink->link != NULL && sender_link_is_busy(sink->link)) ||
        sink->backoff.due_ms > clock_read_ms(CLOCK_MONOTONIC))
        return any;
    uint64_t sequence = next->sequence;
    int code = spool_read(&sink->spool, sequence, &read);
    if (code == 0) {
        sink->last_tried = sequence;
        sinks_begin(sink, &read, sequence);
        return true;
    }
    error_set(&sink->error, code, "%s: a message on disk cannot be read: %s", sink->name,
              code == -EBADMSG ? "it is damaged" : strerror(-code));
    if (code != -EBADMSG && code != -ENOENT)
        backoff_fail(&sink->backoff, clock_read_ms(CLOCK_MONOTONIC), 0);
    return true;
}

/* Return when the sink has something to do next. CLOCK_MONOTONIC; UINT64_MAX: never. */
static uint64_t due_ms(const struct sink *sink)
{
    bool is_busy = sink->link != NULL && sender_link_is_busy(sink->link);
    return sink->spool.count == 0 || is_busy ? UINT64_MAX : sink->backoff.due_ms;
}

void sinks_work(struct sinks *sinks, unsigned *timeout_ms)
{
    uint64_t start_ms = clock_read_ms(CLOCK_MONOTONIC), first_ms = start_ms + IDLE_MS;
    uint64_t sender_ms = UINT64_MAX;
    bool any = true;
    while (any && clock_read_ms(CLOCK_MONOTONIC) < start_ms + WORK_MS_MAX) {
        any = false;
        if (sinks->connections.sender != NULL)
            sender_work(sinks->connections.sender);
        for (size_t i = 0; i < sinks->count; i++)
            any |= work(&sinks->items[i]);
    }
    for (size_t i = 0; i < sinks->count; i++)
        first_ms = clock_earlier(first_ms, due_ms(&sinks->items[i]));
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    if (sinks->connections.sender != NULL &&
        (sender_ms = sender_due_ms(sinks->connections.sender)) < first_ms)
        first_ms = sender_ms;
    *timeout_ms = first_ms > now_ms ? (unsigned)(first_ms - now_ms) : 0;
}

int sinks_descriptor(const struct sinks *sinks)
{
    return sinks->connections.descriptor;
}

/* --- figures, end --- */

const struct sink_figures *sinks_figures(struct sinks *sinks, size_t *count)
{
    int64_t now_ns = (int64_t)clock_read_ns(CLOCK_REALTIME);
    for (size_t i = 0; i < sinks->count; i++) {
        const struct sink *sink = &sinks->items[i];
        struct sink_figures *figures = &sinks->figures[i];
        int64_t oldest_ns = sink->spool.count > 0 ? sink->spool.entries[0].created_ns : now_ns;
        *figures = sink->figures;
        figures->name = sink->name;
        figures->kind = sink->kind->name;
        figures->spooled_messages = sink->spool.count;
        figures->spooled_bytes = sink->spool.bytes;
        figures->dropped_messages = sink->spool.dropped_messages;
        figures->dropped_periods = sink->spool.dropped_periods;
        figures->lag_ms = now_ns > oldest_ns ? (now_ns - oldest_ns) / 1000000 : 0;
        if (sink->spool.count > 0 && figures->lag_ms == 0)
            figures->lag_ms = 1;
        figures->last_error = sink->error.message;
    }
    *count = sinks->count;
    return sinks->figures;
}

static bool is_done(const struct sinks *sinks)
{
    for (size_t i = 0; i < sinks->count; i++) {
        if (sinks->items[i].spool.count > 0)
            return false;
    }
    return true;
}

void sinks_close(struct sinks *sinks, unsigned patience_ms)
{
    uint64_t end_ms = clock_read_ms(CLOCK_MONOTONIC) + patience_ms, now_ms;
    unsigned timeout_ms;
    if (sinks == NULL)
        return;
    while (!is_done(sinks) && (now_ms = clock_read_ms(CLOCK_MONOTONIC)) < end_ms) {
        struct epoll_event event;
        sinks_work(sinks, &timeout_ms);
        epoll_wait(sinks->connections.descriptor, &event, 1,
                   (int)clock_earlier(timeout_ms, end_ms - now_ms));
    }
    free_sinks(sinks);
}
