/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a sink from its section: kind, connection, compression and spool. */
#include "production/sinks/open_sink.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "production/sinks/compress.h"
#include "production/sinks/kinds.h"
#include "production/sinks/private_directory.h"

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

int open_sink(struct sink *sink, struct sink_connections *connections,
              struct settings_section *section, const char *spool_directory, struct error *error)
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

void close_sink(struct sink *sink)
{
    sender_link_close(sink->link);
    spool_message_free(&sink->on_its_way);
    spool_close(&sink->spool);
    if (sink->state != NULL)
        sink->kind->close(sink->state);
}
