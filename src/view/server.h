/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server of the page: HTTP on this machine. It answers from profiles that are loaded, and
 * changes nothing but what Perfetto UI may read (view/perfetto.h). docs/view.md describes requests
 * and answers.
 */
#ifndef HEAPPROFD_VIEW_SERVER_H
#define HEAPPROFD_VIEW_SERVER_H

#include "util/error.h"
#include "view/access.h"
#include "view/profiles.h"

struct view_server;

struct view_server_options {
    uint16_t port;           /* on 127.0.0.1; 0: a free one */
    const char *socket_path; /* a unix socket instead; NULL: none */
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
void view_server_stop(struct view_server *server);

#endif
