/* See station.h. */
#include "daemon/station.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/exec_events.h"
#include "daemon/reach.h"
#include "reader/file_reader.h"
#include "util/clock.h"

/* A session with what it stands on. */
struct station_session {
    struct session session; /* first: the two have one address */
    struct heap_config config;
};

static void clear(struct station *station)
{
    memset(station, 0, sizeof(*station));
    station->directory.lock = -1;
    station->server.epoll = station->server.rendezvous.listener = -1;
    station->server.rendezvous.spare = station->server.exec_events = -1;
    station->start_ms = clock_read_ms(CLOCK_MONOTONIC);
}

int station_open_in_session(struct station *station, const struct server_user *user,
                            const char *socket_path, struct access_policy *policy, int exec_events,
                            struct error *error)
{
    clear(station);
    station->policy = *policy;
    *policy = (struct access_policy){0};
    int code = server_open_without_socket(&station->server, user, socket_path, error);
    if (code == 0 && exec_events >= 0 && server_watch(&station->server, exec_events) == 0)
        station->server.exec_events = exec_events;
    else
        exec_events_close(exec_events);
    if (code < 0)
        station_close(station);
    return code;
}

int station_open(struct station *station, const char *path, int listener,
                 const struct server_user *user, struct error *error)
{
    clear(station);
    int code = access_policy_read(&station->policy, ACCESS_POLICY_PATH, error);
    if (code == 0 && path != NULL)
        code = run_directory_open(&station->directory, path, listener >= 0, error);
    if (code == 0)
        code = server_open(&station->server, user, path, listener, error);
    if (code < 0)
        station_close(station);
    return code;
}

void station_close(struct station *station)
{
    while (station->server.session_count > 0)
        station_finish(station, station->server.sessions[0], NULL);
    file_reader_close();
    server_close(&station->server);
    run_directory_close(&station->directory);
    access_policy_clear(&station->policy);
}

static void announce(struct station *station)
{
    unsigned startup_sessions = 0;
    for (size_t i = 0; i < station->server.session_count; i++)
        startup_sessions += reach_wants_new(station->server.sessions[i]);
    run_directory_announce(&station->directory, startup_sessions);
}

/* Those of all sessions that have the library and have not joined. */
size_t station_awaited(const struct station *station, pid_t *pids, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < station->server.session_count; i++) {
        const struct session *session = station->server.sessions[i];
        for (size_t j = 0; j < session->reach.count; j++) {
            const struct reach_entry *entry = &session->reach.entries[j];
            if (entry->state == REACH_AWAITED && count < max &&
                !session_profiles(session, entry->pid))
                pids[count++] = entry->pid;
        }
    }
    return count;
}

void station_invite(struct station *station)
{
    pid_t awaited[CONTROL_PAGE_INVITED_MAX];
    if (station->directory.page == NULL)
        return;
    size_t count = station_awaited(station, awaited, CONTROL_PAGE_INVITED_MAX);
    run_directory_invite(&station->directory, awaited, count);
}

struct session *station_start(struct station *station, struct heap_config *config,
                              bool follow_children, const struct access_requester *owner,
                              int trace_fd, struct error *error)
{
    struct station_session *own = calloc(1, sizeof(*own));
    if (own == NULL) {
        heap_config_clear(config);
        error_set(error, -ENOMEM, "no memory for one more session");
        return NULL;
    }
    own->config = *config;
    struct session *session = &own->session;
    int code = session_open(session, &own->config, follow_children, trace_fd);
    if (code < 0) {
        error_set(error, code, "cannot begin the trace: %s", strerror(-code));
        goto free_session;
    }
    session->id = ++station->last_id;
    session->of_command = false;
    session->owner = *owner;
    session->policy = &station->policy;
    code = server_add_session(&station->server, session);
    if (code < 0) {
        error_set(error, code, "%u sessions run already: end one (heap_profile status shows them)",
                  SERVER_SESSIONS_MAX);
        goto close_session;
    }
    announce(station);
    reach_running(&station->server, session);
    station_invite(station);
    if (session->over == SESSION_GOES_ON && reach_is_spent(session))
        session->over = SESSION_OVER_ENDED;
    return session;

close_session:
    session_close(session);
free_session:
    heap_config_clear(&own->config);
    free(own);
    return NULL;
}

int station_finish(struct station *station, struct session *session,
                   struct station_outcome *outcome)
{
    struct station_session *own = (struct station_session *)session;
    /* First: nobody is to join a session that ends. */
    server_remove_session(&station->server, session);
    announce(station);
    station_invite(station);
    reach_explain(session);
    session_end_targets(session, false);
    if (outcome != NULL)
        *outcome = (struct station_outcome){
            .profiled = session->profiled,
            .absent = (unsigned)session->absent.count,
            .samples = session_samples(session),
            .lost = session_lost(session),
        };
    int code = session_close(session);
    heap_config_clear(&own->config);
    free(own);
    return code;
}
