/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer of the tracing service: starts a session, waits for its end, and reads its trace.
 *
 * Each function waits for the service's reply. The user may interrupt a wait (consumer_user). After
 * any negative result the connection is closed, which ends a session that is not detached.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_CONSUMER_CONSUMER_H
#define HEAPPROFD_RECORDER_TRACING_CONSUMER_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/tracing/consumer/session_config.h"
#include "recorder/tracing/ipc/connection.h"
#include "util/error.h"

/* Who waits. */
struct consumer_user {
    int wake_fd; /* readable after a request of the user; -1: none */
    /* Return whether the user wants the present wait to end. */
    bool (*interrupts)(void *context);
    /* Called several times a second while a session runs; NULL: not wanted. */
    void (*tick)(void *context);
    void *context;
};

/* What the service counted, over all buffers of the session. */
struct consumer_stats {
    bool is_known;
    uint64_t bytes_written;
    uint64_t chunks_overwritten, bytes_overwritten; /* before they were read: a ring was full */
    uint64_t chunks_discarded;                      /* a buffer that does not overwrite was full */
    uint64_t patches_failed, packets_lost, violations, flushes_failed;
    bool last_flush_failed; /* at the session's end */
};

struct consumer {
    struct tracing_connection *connection; /* NULL: closed */
    const struct consumer_user *user;
    bool is_done; /* the reply to the present call is complete */
    bool is_ticking;
    bool stats_replied; /* no request for statistics is under way */
    bool has_ended;     /* the service says that tracing has ended */
    bool was_refused;
    char refusal[160];   /* the service's reason */
    char end_error[256]; /* why it ended, if that was an error */
    struct consumer_stats stats;
    uint64_t bytes_read; /* by consumer_read(), written to its files */
    void *call; /* of the present call, for its handler */
};

/* Connect and bind. Return 0 or a negative errno with a message. */
int consumer_open(struct consumer *consumer, const struct tracing_socket *socket,
                  const struct consumer_user *user, struct error *error);
void consumer_close(struct consumer *consumer);

/* Find which of these data sources a producer offers. Return 0; -ENOSYS: this service does not tell
 * (and the connection lasts); or another negative errno. */
int consumer_find_sources(struct consumer *consumer, const char *const *names, size_t count,
                          bool *found, struct error *error);

/* Begin a session. With write_into_file the service writes to `trace_fd`. */
int consumer_enable(struct consumer *consumer, const struct session_config *config, int trace_fd,
                    struct error *error);

/* Take over a session that was detached, with its configuration. */
int consumer_attach(struct consumer *consumer, const char *key, struct session_config *config,
                    struct error *error);

/* Leave the session to the service. */
int consumer_detach(struct consumer *consumer, const char *key, struct error *error);

/* Wait until tracing has ended. Return 0; 1 if the user asks for the end; or a negative errno
 * (-EREMOTEIO: the service ended it because of an error; -ETIMEDOUT at the deadline). */
int consumer_wait_for_end(struct consumer *consumer, uint64_t deadline_ms, struct error *error);

/* Let producers deliver what they have recorded so far. *flushed: all of them did. It is answered
 * after everything before it: after it a session's data sources have started. */
int consumer_flush(struct consumer *consumer, uint64_t stop_ms, bool *flushed, struct error *error);

/* Flush, end tracing, and wait for that. *flushed: the producers delivered all their data. */
int consumer_stop(struct consumer *consumer, uint64_t stop_ms, bool *flushed, struct error *error);

/* Read all buffers into a file. More than the configuration's buffers can hold is an error. What
 * was read before a failure stays in the file. */
int consumer_read(struct consumer *consumer, const struct session_config *config, int trace_fd,
                  struct error *error);

/* Check that a service with write_into_file had room for the whole trace: if not, it only logs it.
 * Return 0, or -ENOSPC with a message. */
int consumer_check_written(int trace_fd, struct error *error);

/* Ask for the statistics: consumer->stats. */
int consumer_read_stats(struct consumer *consumer, struct error *error);

/* Ask for them without waiting, unless that was asked already. */
void consumer_request_stats(struct consumer *consumer);

/* Let the service forget the session, as it also does when the connection ends. */
void consumer_free_buffers(struct consumer *consumer);

/* Invoke another method, and wait until its handler sets *done. */
int consumer_invoke(struct consumer *consumer, const char *method, const ProtobufCMessage *request,
                    tracing_reply_handler *handler, void *context, const bool *done,
                    struct error *error);

#endif
