/* SPDX-License-Identifier: Apache-2.0 */
/* The profiles that the server shows: those of the command line, and those that the page opens
 * instead. Profiles are read beside the server's answers, one set at a time. */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_SHOWN_H
#define HEAPPROFD_TOOLS_CLI_VIEW_SHOWN_H

#include <pthread.h>

#include "tools/cli/view/watched.h"
#include "tools/view/server/server.h"

struct shown {
    pthread_mutex_t lock; /* held while profiles are read */
    struct watched watched;
    struct view_server *server;
    uint64_t next_ns; /* do not read again before */
};

/* Begin with profiles that have been read; `watched` is taken over. */
void shown_begin(struct shown *shown, struct watched *watched);
/* Set the server whose profiles these are, before somebody can ask it. */
void shown_set_server(struct shown *shown, struct view_server *server);
void shown_end(struct shown *shown);

/* Read the profiles again if their files have changed. Never wait for another reader. */
void shown_refresh(struct shown *shown);

/* Show these profiles, or with `adds` these beside those that are shown. `native`: with the
 * interpreters' own frames; NULL: as before. Wait until they are read. On failure, keep what is
 * shown and return a negative errno with *error set. */
int shown_open(struct shown *shown, const char *const *paths, size_t count, bool adds,
               const bool *native, struct error *error);

#endif
