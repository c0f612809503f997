/*
 * Serves those who ask something of the daemon (proto/control.proto): begins and ends
 * sessions for them, takes snapshots, and says what is going on.
 *
 * A session lives as long as the connection of the one who began it, so that whoever is
 * killed leaves no session behind. Requests are untrusted, and who sends them is known from the
 * kernel alone; a user's requests reach his own sessions, root's reach all.
 */
#ifndef HEAPPROFD_DAEMON_CONTROL_H
#define HEAPPROFD_DAEMON_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/station.h"
#include "util/error.h"

/* Never more than there are: the rendezvous shares them out. */
#define CONTROL_CONNECTIONS_MAX RENDEZVOUS_PLACES
#define CONTROL_SESSIONS_OF_A_USER_MAX 16

struct control {
    struct station station;
    struct server_user user;
    /* Told of each event, as a line without its end; may be NULL. */
    void (*log)(const char *line);
    /* A descriptor of the owner's own is readable. */
    void (*readable)(void *context, int fd);
    void *context;
    struct control_connection {
        int fd;
        struct access_requester requester;
        pid_t pid;
        struct session *session; /* begun by it; NULL: none */
        int trace_fd;            /* of the session */
        bool wants_progress;
        uint64_t progress_ms; /* when it is due again; CLOCK_MONOTONIC */
        unsigned refused;     /* processes that it has been told of */
    } connections[CONTROL_CONNECTIONS_MAX];
    /* Its session is just beginning or ending; NULL: none is. */
    struct control_connection *in_passage;
    size_t connection_count;
};

/* As station_open; the callbacks are to be set before. */
int control_open(struct control *control, const char *path, int listener, struct error *error);

/* Ends all sessions with their data written, and tells those who began them. */
void control_close(struct control *control);

/* Does what is due and waits for what comes next. */
void control_step(struct control *control);

/* A dump of every session, now. */
void control_snapshot_all(struct control *control);

#endif
