/* SPDX-License-Identifier: Apache-2.0 */
/* Begin and finish the session, and keep the control page up to date. */
#include "recorder/server/session_manager.h"

#include <string.h>

#include "recorder/processes/exec_events.h"
#include "recorder/reader/file_reader.h"
#include "recorder/server/target_discovery.h"
#include "util/clock.h"

static void clear(struct session_manager *manager)
{
    memset(manager, 0, sizeof(*manager));
    manager->directory.lock = -1;
    manager->server.epoll = manager->server.rendezvous.listener = -1;
    manager->server.rendezvous.spare = manager->server.exec_events = -1;
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
    file_reader_close();
    server_close(&manager->server);
    run_directory_close(&manager->directory);
    access_policy_clear(&manager->policy);
}

static void announce(struct session_manager *manager)
{
    const struct session *session = manager->server.session;
    run_directory_announce(&manager->directory, session != NULL && discovery_wants_new(session));
}

/* Return whether an awaited process has not joined yet, or has stopped waiting for our answer. */
static bool is_missing(const struct session *session, const struct discovery_entry *entry,
                       uint64_t now_ms)
{
    const struct target *target = session_find(session, entry->pid);
    return target == NULL || target->exec == TARGET_EXEC_AWAY || target_is_late(target, now_ms);
}

size_t session_manager_awaited(struct session_manager *manager, struct invited *awaited, size_t max)
{
    size_t count = 0;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    struct session *session = manager->server.session;
    for (size_t i = 0; session != NULL && i < session->discovery.count; i++) {
        struct discovery_entry *entry = &session->discovery.entries[i];
        if (entry->state == DISCOVERY_AWAITED && count < max &&
            is_missing(session, entry, now_ms) && discovery_invites(entry, now_ms))
            awaited[count++] = entry->invited;
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
                                      enum session_trace trace, int trace_fd, struct error *error)
{
    struct session *session = &manager->session;
    manager->config = *config;
    int code = session_open(session, &manager->config, follow_children, trace, trace_fd);
    if (code < 0) {
        error_set(error, code, "cannot begin the trace: %s", strerror(-code));
        heap_config_clear(&manager->config);
        return NULL;
    }
    session->of_command = false;
    session->owner = *owner;
    session->policy = &manager->policy;
    server_begin_session(&manager->server, session);
    announce(manager);
    discovery_running(&manager->server);
    session_manager_invite(manager);
    if (session->over == SESSION_GOES_ON && discovery_is_done(session))
        session->over = SESSION_OVER_ENDED;
    return session;
}

void session_manager_change_rules(struct session_manager *manager, struct target_rules *rules)
{
    target_rules_clear(&manager->config.target_rules);
    manager->config.target_rules = *rules;
    *rules = (struct target_rules){0};
    session_drop_unwanted(&manager->session);
    discovery_begin_anew(&manager->server);
}

void session_manager_change_policy(struct session_manager *manager, const void *bytes,
                                   size_t length)
{
    if (access_policy_unpack(&manager->policy, bytes, length) == 0)
        session_drop_unwanted(&manager->session);
}

int session_manager_finish(struct session_manager *manager, struct session_manager_outcome *outcome)
{
    struct session *session = &manager->session;
    /* Do this first: no process may join a session that ends. */
    server_remove_session(&manager->server);
    announce(manager);
    session_manager_invite(manager);
    discovery_explain(session);
    session_end_targets(session, false);
    session_explain_absence(session);
    *outcome = (struct session_manager_outcome){
        .profiled = session->profiled,
        .not_profiled = (unsigned)session->empty_profiles.count,
        .samples = session_samples(session),
        .lost = session_lost(session),
    };
    int code = session_close(session);
    heap_config_clear(&manager->config);
    return code;
}
