/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instance of our data source: a session of the daemon whose packets go to the tracing service.
 *
 * To the daemon it is a client like heap_profile: a connection with a request to begin a session,
 * and the write end of a pipe as the trace. The session process writes whole packets into the pipe.
 * They are read into a buffer, cut at their borders, and written into chunks.
 *
 * If the service gives no chunk back, the pipe is not read, and the session waits when it is full:
 * for STALL_MS at most, because processes may wait for it. Then the packets that are there are
 * given up until a chunk is free again, and the session describes its processes and threads once
 * more, because the lost packets may have done so. After the stop no process waits: the last dumps
 * are written as soon as the service takes them, or until it is gone.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_PRODUCER_INSTANCE_H
#define HEAPPROFD_RECORDER_TRACING_PRODUCER_INSTANCE_H

#include <tracing_service.pb-c.h>

#include "recorder/tracing/producer/chunk_writer.h"

#define INSTANCE_SOURCE_BYTES 32

enum instance_state {
    INSTANCE_SET_UP, /* it has its configuration */
    INSTANCE_RUNS,   /* the daemon has been asked for a session */
    INSTANCE_STOPS,  /* and to end it */
};

struct instance {
    uint64_t id; /* the service's */
    enum instance_state state;
    char data_source[INSTANCE_SOURCE_BYTES];
    uint64_t tracing_session;
    void *trace_config; /* serialized, for the daemon */
    size_t trace_config_bytes;
    int daemon, pipe;       /* -1: none, or ended */
    bool has_begun;         /* the session has begun, or never will */
    bool is_watched;        /* the pipe is in the producer's epoll */
    bool must_restart;      /* the daemon's socket was full when the sequence was to restart */
    uint32_t daemon_events; /* that the producer's epoll waits for on `daemon`; 0: none */
    struct chunk_writer writer;
    uint8_t *bytes; /* read from the pipe; those in [start, end) are not in chunks yet */
    size_t start, end;
    uint64_t stall_ms; /* since when it has waited for a chunk (CLOCK_MONOTONIC); 0: it does not */
    bool gives_up;     /* it has waited for too long: packets are lost until a chunk is free */
    uint64_t packets, packet_bytes;
};

/* Make an instance that is not started. Return NULL with a message. */
struct instance *instance_new(uint64_t id, Perfetto__Protos__DataSourceConfig *config,
                              struct error *error);

/* End the session if it runs, and free the instance. */
void instance_free(struct instance *instance);

/* Ask the daemon for a session. If that fails, the instance has no session, but a packet with the
 * reason. Return 0, or a negative errno with a message. */
int instance_start(struct instance *instance, struct shared_buffer *buffer,
                   const struct chunk_writer_user *user, uint16_t writer_id, struct error *error);

/* Replace a session that never began by a packet that says why. */
void instance_explain(struct instance *instance, const char *reason);

/* Ask the daemon to end the session. Its last packets follow. */
void instance_stop(struct instance *instance);

/* Make the session write all names and stacks again: at once, or when its socket has room
 * (must_restart). */
void instance_restart_sequence(struct instance *instance);

/* Send what the daemon's socket had no room for, and read its replies. Return 0, or a negative
 * errno with a message if it refused the session or is gone. */
int instance_serve_daemon(struct instance *instance, struct error *error);

/* Move packets from the pipe into chunks until there are no more, no chunk is free, or about
 * `bytes` have been read. Return 0; 1 with a message if the session's packets cannot be read: none
 * follow; or -EPROTO with a message if the service breaks the protocol. */
int instance_pump(struct instance *instance, size_t bytes, uint64_t now_ms, struct error *error);

/* Return whether packets wait for a free chunk. The pipe is not read then. */
bool instance_waits(const struct instance *instance);

/* Return when instance_pump() should be called although nothing happens; UINT64_MAX: never. */
uint64_t instance_due_ms(const struct instance *instance, uint64_t now_ms);

/* Return whether all packets of the session are in chunks, and no more will come. */
bool instance_is_over(const struct instance *instance);

#endif
