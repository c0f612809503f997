/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of the producer to the tracing service, from its greeting to its end: the data
 * sources that it registers, the memory that the service shares, and the commands about instances.
 *
 * Commands may come in any order and number. One that makes no sense (an id that is unknown, or in
 * use) is logged and ignored. The start and the stop of an instance are acknowledged even so: the
 * service waits for both.
 */
#ifndef HEAPPROFD_RECORDER_TRACING_PRODUCER_SERVICE_LINK_H
#define HEAPPROFD_RECORDER_TRACING_PRODUCER_SERVICE_LINK_H

#include "recorder/tracing/producer/commit.h"
#include "recorder/tracing/producer/instance.h"

/* The daemon accepts fewer sessions. The other instances have none, and write the reason. */
#define LINK_INSTANCES_MAX 1024
/* Flushes that wait for a chunk. */
#define LINK_FLUSHES_MAX 16

struct service_link {
    struct tracing_connection *connection;
    int epoll;
    uint64_t opened_ms; /* CLOCK_MONOTONIC */
    uint32_t events;    /* that the epoll waits for on the connection */
    bool has_greeted;   /* InitializeConnection was sent */
    bool is_accepted;   /* and accepted */
    bool is_emulated;   /* the service shares no memory */
    struct shared_buffer buffer;
    struct chunk_writer_user writer_user;
    struct commit commit;
    struct instance *instances[LINK_INSTANCES_MAX];
    size_t count;
    uint16_t last_writer_id;
    uint64_t flushes[LINK_FLUSHES_MAX]; /* ids of those that are not answered */
    size_t flush_count;
    unsigned ignored; /* commands that made no sense */
    bool must_pump;   /* all instances, because of a flush or free chunks */
    void (*log)(const char *format, ...) __attribute__((format(printf, 1, 2)));
};

/* Begin to connect. Return 0 or a negative errno with a message. */
int service_link_open(struct service_link *link, const struct tracing_socket *to, int epoll,
                      struct error *error);

/* Close the connection. All sessions end. */
void service_link_close(struct service_link *link);

/* End all sessions. Instances go when their last packets are committed. */
void service_link_stop_all(struct service_link *link);

/* Handle a readable or writable descriptor. Return 0, or a negative errno with a message: the
 * connection is over. */
int service_link_serve(struct service_link *link, int fd, struct error *error);

/* Do what the last events made necessary. Returns as above. */
int service_link_settle(struct service_link *link, struct error *error);

/* Return when service_link_settle() is due (CLOCK_MONOTONIC); UINT64_MAX: after the next event. */
uint64_t service_link_due_ms(const struct service_link *link);

#endif
