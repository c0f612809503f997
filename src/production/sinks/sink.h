/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where periods go. A sink is a kind (one file each: directory.c, pyroscope.c, ...) and a section
 * `[sink NAME]` of the configuration. The kind encodes periods as messages and says what the other
 * side's answer means. Everything else is the same for all kinds: the spool that keeps messages
 * while the other side is away (spool.h), and the sender with its connections, back-off, TLS and
 * credentials (sender.h).
 */
#ifndef HEAPPROFD_PRODUCTION_SINKS_SINK_H
#define HEAPPROFD_PRODUCTION_SINKS_SINK_H

#include "production/continuous/period.h"
#include "util/settings.h"

/* A request to the other side, or a file. The kind frees nothing of it: `put` copies. */
struct sink_message {
    const char *target; /* path and query after the section's url, or a file's name */
    const char *content_type;
    const char *content_encoding; /* "": none */
    const void *body;
    size_t length;
    uint64_t periods; /* that are in it, for the figures */
};

enum sink_verdict {
    SINK_TAKEN,
    SINK_AGAIN,  /* the other side is busy or away: send it again later */
    SINK_REFUSED /* it will never take this message: drop it, count it, and say why */
};

enum sink_compression { SINK_GZIP = 1, SINK_ZSTD = 2 };

/* Where a kind puts its messages. Returns 0 or a negative errno. */
struct sink_output {
    int (*put)(void *context, const struct sink_message *message, struct error *error);
    void *context;
};

struct sink_kind {
    const char *name; /* `type = NAME` */
    /* Make the kind's own state from its section. Return NULL with a message. A message beside a
     * state is a remark, which the status shows as the sink's last error. */
    void *(*open)(struct settings_section *section, struct error *error);
    void (*close)(void *state);
    /* Encode the periods of one collection. Return 0 or a negative errno with a message. */
    int (*encode)(void *state, const struct period *periods, size_t count,
                  const struct sink_output *output, struct error *error);
    /* For a kind whose other side is no HTTP server: deliver a message at once. NULL: POST it to
     * the section's `url` followed by the message's target. */
    enum sink_verdict (*deliver)(void *state, const struct sink_message *message,
                                 struct error *error);
    /* Compressions of bodies that the other side understands (enum sink_compression). The section's
     * `compression` chooses; without it the first one here is used, gzip before zstd. Bodies that
     * have a content_encoding stay as they are. */
    unsigned compressions;
    /* Read an HTTP answer. NULL: 2xx is taken; 400, 406, 413, 415 and 422 are about the message and
     * refuse it; all others (a wrong token, a wrong path, an overload) are tried again. The answer
     * is untrusted, and may be cut. */
    enum sink_verdict (*judge)(void *state, long status, const char *answer, size_t length);
};

/* All sinks of a configuration. */
struct sinks;

struct sink_figures {
    const char *name, *kind;
    uint64_t sent_messages, sent_bytes, sent_periods; /* taken by the other side */
    uint64_t spooled_messages, spooled_bytes;         /* waiting on disk */
    uint64_t dropped_messages, dropped_periods;       /* beyond the spool's bound, or refused */
    uint64_t failures;                                /* attempts */
    int64_t lag_ms;         /* age of the oldest message that waits; 0: none waits */
    const char *last_error; /* ""; never has a credential in it */
};

/* Open every section `[sink NAME]`. `spool_directory` has a directory for each sink. Return NULL
 * with a message. */
struct sinks *sinks_open(struct settings *settings, const char *spool_directory,
                         struct error *error);

/* Check the sections without a spool and without sending. Return the number of sinks, or a negative
 * errno with a message. */
int sinks_check(struct settings *settings, struct error *error);

/* Give the periods of a collection to all sinks. They are on disk or sent when this returns; what
 * cannot be kept is counted. */
void sinks_put(struct sinks *sinks, const struct period *periods, size_t count);

/* Send what is due, and return without waiting. *timeout_ms: when to call again at the latest. The
 * descriptor of sinks_descriptor() is readable when there is something to do before. */
void sinks_work(struct sinks *sinks, unsigned *timeout_ms);
int sinks_descriptor(const struct sinks *sinks);

/* Return figures of all sinks; they are valid until the next call. */
const struct sink_figures *sinks_figures(struct sinks *sinks, size_t *count);

/* Try for at most patience_ms to send what waits. The rest stays on disk for the next start. */
void sinks_close(struct sinks *sinks, unsigned patience_ms);

#endif
