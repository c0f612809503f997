/*
 * Sessions of the machine: begun on somebody's behalf with a configuration and a trace,
 * ended with all data written. The daemon has a station for all who ask; heap_profile has
 * one of its own where no daemon runs.
 *
 * A process that has the library preloaded is told of a session by the control page and joins
 * it. One that has not is attached to. Both are found by looking through /proc: once when the
 * session begins, and then again and again for what starts meanwhile.
 */
#ifndef HEAPPROFD_DAEMON_STATION_H
#define HEAPPROFD_DAEMON_STATION_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/access.h"
#include "daemon/run_directory.h"
#include "daemon/server.h"
#include "trace/trace_config.h"
#include "util/error.h"

struct station {
    struct server server;
    struct run_directory directory;
    struct access_policy policy;
    uint64_t start_ms;
    uint64_t last_id;
};

/*
 * Takes the run directory at `path`; NULL: none, so that no preloaded process can join. `listener`
 * as for server_open. 0 or a negative errno with a message; -EBUSY: another daemon is there.
 */
int station_open(struct station *station, const char *path, int listener,
                 const struct server_user *user, struct error *error);

/*
 * A station of a session process: hellos come from the daemon's supervisor, which has the run
 * directory. Takes over what *policy holds, and exec_events (-1: none).
 */
int station_open_in_session(struct station *station, const struct server_user *user,
                            const char *socket_path, struct access_policy *policy, int exec_events,
                            struct error *error);
void station_close(struct station *station);

/*
 * Begins a session for the requester. Takes over what *config holds in any case; trace_fd stays
 * the caller's and must stay open. Processes that run are reached before it returns, and where
 * none of them could be, the session is over by then. NULL with a message.
 */
struct session *station_start(struct station *station, struct heap_config *config,
                              bool follow_children, const struct access_requester *owner,
                              int trace_fd, struct error *error);

/* Tells processes that have the library and are wanted that they are; to be called now and
 * then, as new ones come. */
void station_invite(struct station *station);

/* List the processes that station_invite() would invite, up to `max`. Return their number. */
size_t station_awaited(const struct station *station, pid_t *pids, size_t max);

/* What a session came to. */
struct station_outcome {
    unsigned profiled; /* processes with a profile */
    unsigned absent;   /* wanted, and without one */
    uint64_t samples, lost;
};

/* Ends it, writes the rest of its trace, and frees it. *outcome may be NULL. 0, or the first error
 * of writing the trace. */
int station_finish(struct station *station, struct session *session,
                   struct station_outcome *outcome);

#endif
