/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's session of the daemon. To the daemon it is a client like heap_profile, whose
 * trace is a pipe. All programs are in this one session.
 *
 * The session dumps on request, and then begins its sequence of packets anew: names and stacks are
 * written again before their next use. So all packets from one dump to the next, with the last
 * dumps of processes that ended between, are a trace of their own, a fragment. It is kept in memory
 * without a name, as a file that the trace's readers can open.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_SESSION_LINK_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_SESSION_LINK_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "production/continuous/collector_config.h"
#include "util/error.h"

/* Receives what the session says. */
struct session_link_user {
    void (*progress)(void *context, const Heapprofd__ControlSession *session);
    void (*refused)(void *context, const Heapprofd__ControlReply__Refused *refused);
    /* Another session has the process now; its last dump is in this fragment. */
    void (*lent)(void *context, const Heapprofd__ControlReply__Lent *lent);
    /* The dump is complete: the fragment's packets are read. */
    void (*dumped)(void *context);
    void *context;
};

struct session_link {
    const struct session_link_user *user;
    int daemon, pipe; /* -1: closed */
    uint64_t id;      /* 0: the session has not begun */
    bool awaits_dump, has_ended;
    int fragment; /* memfd */
    uint64_t fragment_bytes, fragment_bytes_max;
    bool is_cut;    /* packets of the fragment were dropped: it was too large */
    uint8_t *bytes; /* read from the pipe, from `start` to `end` */
    size_t start, end;
    bool at_border; /* the next packet begins the next fragment */
};

/* Ask the daemon for the session. Return 0, or a negative errno with a message. */
int session_link_open(struct session_link *link, const struct collector_config *config,
                      const struct session_link_user *user, struct error *error);
void session_link_close(struct session_link *link);

/* Read replies and packets that wait. Return 0, or a negative errno with a message: the session is
 * over, or was refused; has_ended tells whether its last dumps are in the fragment. */
int session_link_serve(struct session_link *link, struct error *error);

/* Ask for a dump of all processes. */
int session_link_dump(struct session_link *link, struct error *error);

/* Ask the session to end; its last dumps follow. */
int session_link_stop(struct session_link *link, struct error *error);

/* Choose programs by the rules of another configuration. */
int session_link_change_rules(struct session_link *link, const struct collector_config *config,
                              struct error *error);

/* Ask for a process's interval, or that it is profiled no longer. */
int session_link_set_interval(struct session_link *link, pid_t pid, uint64_t interval_bytes,
                              struct error *error);
int session_link_leave(struct session_link *link, pid_t pid, struct error *error);

/* Return the fragment so far as a descriptor that the caller closes, and begin another one; -1: no
 * packets, or no memory. *is_cut: packets are missing. */
int session_link_take_fragment(struct session_link *link, bool *is_cut);

#endif
