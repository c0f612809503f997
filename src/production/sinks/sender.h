/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends messages by HTTP without ever waiting: all connections of all sinks in one event loop of
 * libcurl. A link is a sink's other side: its address, TLS, credentials and kept connection.
 *
 * Only http and https; TLS 1.2 or later with verified certificates; redirects are not followed,
 * because a stranger could name our own network or take our credentials; answers are bounded.
 */
#ifndef HEAPPROFD_PRODUCTION_SINKS_SENDER_H
#define HEAPPROFD_PRODUCTION_SINKS_SENDER_H

#include "production/sinks/sink.h"

struct sender;
struct sender_link;

/* Return NULL with a message. `descriptor` is an epoll descriptor, to which connections are
 * added; it stays the caller's. */
struct sender *sender_open(int descriptor, struct error *error);
void sender_close(struct sender *sender);

/* Continue all transfers. */
void sender_work(struct sender *sender);

/* Return when sender_work() must be called next, unless the descriptor is readable before.
 * CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t sender_due_ms(const struct sender *sender);

/* Take a section's url, TLS and credentials. Return NULL with a message. */
struct sender_link *sender_link_open(struct sender *sender, struct settings_section *section,
                                     struct error *error);
void sender_link_close(struct sender_link *link);

/* Begin to send a message, which must stay until the link is idle again. Return 0, or a negative
 * errno with a message. */
int sender_link_start(struct sender_link *link, const struct sink_message *message,
                      struct error *error);

#define SENDER_ANSWER_BYTES_MAX 4096u

struct sender_answer {
    long status;             /* HTTP; 0: no answer */
    const char *text;        /* the beginning of the answer, without credentials; untrusted */
    size_t length;           /* of the text, which also has a zero byte at its end */
    const char *address;     /* of the other side: scheme, host and port */
    uint64_t retry_after_ms; /* the other side's wish; 0: none */
    const char *failure;     /* why there is no whole answer; "": it is whole */
};

bool sender_link_is_busy(const struct sender_link *link);

/* If the transfer is over, fill *answer (valid until the next start), and make the link idle. */
bool sender_link_finished(struct sender_link *link, struct sender_answer *answer);

#endif
