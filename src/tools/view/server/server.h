/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the page: HTTP on this machine. It answers from profiles that are loaded, and
 * changes nothing but what Perfetto UI may read (tools/view/server/perfetto.h). Its caller may add
 * questions of its own, for example about the processes of this machine. docs/view-requests.md
 * describes requests and answers.
 */
#ifndef HEAPPROFD_VIEW_SERVER_H
#define HEAPPROFD_VIEW_SERVER_H

#include <stdio.h>

#include "tools/view/model/selection.h"
#include "tools/view/server/access.h"
#include "util/error.h"

struct view_server;

/* A question that the server's caller answers. Each connection has a thread: answers to several
 * questions are made side by side. */
struct view_question {
    const char *name, *method; /* "api/processes", "GET" */
    /* Write the answer. `body` is that of a POST; else "". Return as answer_function does;
     * -EACCES and -EPERM are faults of the question, too. */
    int (*answer)(void *context, const struct view_parameters *parameters, const char *body,
                  FILE *out, struct error *error);
    const char *type; /* of the answer; NULL: JSON */
};

struct view_server_options {
    uint16_t port;           /* on 127.0.0.1; 0: a free one */
    const char *socket_path; /* a unix socket instead; NULL: none */
    /* Questions of the caller; they stay with it until the server has stopped. */
    const struct view_question *questions;
    size_t question_count;
    void *context; /* of their answers */
};

/* Start a server, in threads of its own. It takes over the profiles, which are malloc'd, in any
 * case. Return NULL with *error set on failure. */
struct view_server *view_server_start(struct view_profiles *profiles,
                                      const struct view_server_options *options,
                                      struct error *error);
/* Return the page's address: "http://127.0.0.1:1234/TOKEN/". */
const char *view_server_address(const struct view_server *server);
/* Answer from other profiles, which are taken over. The page learns that they have changed. */
void view_server_replace(struct view_server *server, struct view_profiles *profiles);
/* Return how many questions about the profiles it has answered. */
uint64_t view_server_answers(const struct view_server *server);
void view_server_stop(struct view_server *server);

#endif
