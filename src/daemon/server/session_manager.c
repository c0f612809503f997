/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and finish sessions, and keep the control page up to date. */
#include "daemon/server/session_manager.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/processes/exec_events.h"
#include "daemon/server/target_discovery.h"
#include "reader/file_reader.h"
#include "util/clock.h"

/* A session and its configuration. */
struct session_manager_session {
    struct session session; /* must be first: both have one address */
    struct heap_config config;
};

static void clear(struct session_manager *manager)
{
    memset(manager, 0, sizeof(*manager));
    manager->directory.lock = -1;
    manager->server.epoll = manager->server.rendezvous.listener = -1;
    manager->server.rendezvous.spare = manager->server.exec_events = -1;
    manager->start_ms = clock_read_ms(CLOCK_MONOTONIC);
}

int session_manager_open_in_session(struct session_manager *manager, const struct server_user *user,
                                    const char *socket_path, struct access_policy *policy,
                                    int exec_events, struct error *error)
{
    clear(manager);
    manager->policy = *policy;
    *policy = (struct access_policy){0};
    int code = server_open_without_socket(&manager->server, user, socket_path, error);
    if (code == 0 && exec_events >= 0 && server_watch(&manager->server, exec_events) == 0)
        manager->server.exec_events = exec_events;
    else
        exec_events_close(exec_events);
    if (code < 0)
        session_manager_close(manager);
    return code;
}

int session_manager_open(struct session_manager *manager, const char *path, int listener,
                         const struct server_user *user, struct error *error)
{
    clear(manager);
    int code = access_policy_read(&manager->policy, ACCESS_POLICY_PATH, error);
    if (code == 0 && path != NULL)
        code = run_directory_open(&manager->directory, path, listener >= 0, error);
    if (code == 0)
        code = server_open(&manager->server, user, path, listener, error);
    if (code < 0)
        session_manager_close(manager);
    return code;
}

void session_manager_close(struct session_manager *manager)
{
    while (manager->server.session_count > 0)
        session_manager_finish(manager, manager->server.sessions[0], NULL);
    file_reader_close();
    server_close(&manager->server);
    run_directory_close(&manager->directory);
    access_policy_clear(&manager->policy);
}

static void announce(struct session_manager *manager)
{
    bool asks_newcomers = false;
    for (size_t i = 0; i < manager->server.session_count; i++)
        asks_newcomers |= discovery_wants_new(manager->server.sessions[i]);
    run_directory_announce(&manager->directory, asks_newcomers);
}

/* List the processes of all sessions that have the library and have not joined. */
size_t session_manager_awaited(struct session_manager *manager, struct invited *awaited, size_t max)
{
    size_t count = 0;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    for (size_t i = 0; i < manager->server.session_count; i++) {
        struct session *session = manager->server.sessions[i];
        for (size_t j = 0; j < session->reach.count; j++) {
            struct discovery_entry *entry = &session->reach.entries[j];
            if (entry->state == DISCOVERY_AWAITED && count < max &&
                !session_profiles(session, entry->pid) && discovery_invites(entry, now_ms))
                awaited[count++] = entry->invited;
        }
    }
    return count;
}

void session_manager_invite(struct session_manager *manager)
{
    struct invited awaited[CONTROL_PAGE_INVITED_MAX];
    if (manager->directory.page == NULL)
        return;
    size_t count = session_manager_awaited(manager, awaited, CONTROL_PAGE_INVITED_MAX);
    /* Do not repeat an invitation: each makes all dormant processes read the page. */
    if (count == manager->invited_count &&
        memcmp(awaited, manager->invited, count * sizeof(awaited[0])) == 0)
        return;
    run_directory_invite(&manager->directory, awaited, count);
    memcpy(manager->invited, awaited, count * sizeof(awaited[0]));
    manager->invited_count = count;
}

struct session *session_manager_start(struct session_manager *manager, struct heap_config *config,
                                      bool follow_children, const struct access_requester *owner,
                                      int trace_fd, struct error *error)
{
    struct session_manager_session *own = calloc(1, sizeof(*own));
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
    session->id = ++manager->last_id;
    session->of_command = false;
    session->owner = *owner;
    session->policy = &manager->policy;
    code = server_add_session(&manager->server, session);
    if (code < 0) {
        error_set(error, code, "%u sessions run already: end one (heap_profile status shows them)",
                  SERVER_SESSIONS_MAX);
        goto close_session;
    }
    announce(manager);
    discovery_running(&manager->server, session);
    session_manager_invite(manager);
    if (session->over == SESSION_GOES_ON && discovery_is_spent(session))
        session->over = SESSION_OVER_ENDED;
    return session;

close_session:
    session_close(session);
free_session:
    heap_config_clear(&own->config);
    free(own);
    return NULL;
}

int session_manager_finish(struct session_manager *manager, struct session *session,
                           struct session_manager_outcome *outcome)
{
    struct session_manager_session *own = (struct session_manager_session *)session;
    /* Do this first: no process may join a session that ends. */
    server_remove_session(&manager->server, session);
    announce(manager);
    session_manager_invite(manager);
    discovery_explain(session);
    session_end_targets(session, false);
    if (outcome != NULL)
        *outcome = (struct session_manager_outcome){
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
