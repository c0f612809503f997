/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands one trace to Perfetto UI, the page of https://ui.perfetto.dev in the user's browser. That
 * page reads traces from 127.0.0.1, port 9001; its own policy allows it no other port. So a second
 * server listens there from the time the user asks for it until `view` ends. It has one file at a
 * time, below a random token of its own, and answers nobody but Perfetto UI, or programs that know
 * the token.
 */
#ifndef HEAPPROFD_VIEW_PERFETTO_H
#define HEAPPROFD_VIEW_PERFETTO_H

#include <limits.h>
#include <pthread.h>

#include "util/error.h"
#include "view/server/access.h"

#define PERFETTO_PORT 9001u
#define PERFETTO_ORIGIN "https://ui.perfetto.dev"
#define PERFETTO_URL_BYTES (NAME_MAX + 1 + 128u)

/* --- who may ask --- */

/* What a request says of itself; NULL: not there. */
struct perfetto_request {
    const char *method, *path, *host, *origin;
};

enum perfetto_answer {
    PERFETTO_FILE,
    PERFETTO_PREFLIGHT, /* the browser asks whether Perfetto UI may ask */
    PERFETTO_WRONG_HOST,
    PERFETTO_WRONG_PATH,
    PERFETTO_WRONG_ORIGIN,
    PERFETTO_WRONG_METHOD,
};

/* Judge a request for "/TOKEN/name". */
enum perfetto_answer perfetto_judge(const struct access *access, const char *name,
                                    const struct perfetto_request *request);

/* --- the server --- */

struct perfetto {
    struct MHD_Daemon *daemon; /* NULL: nobody has asked for it */
    pthread_mutex_t lock;      /* for what follows */
    struct access access;
    char name[NAME_MAX + 1];
    struct MHD_Response *file;
};

void perfetto_begin(struct perfetto *perfetto);
/* Serve a trace instead of the last one, whose address becomes invalid, and write the address that
 * opens it in Perfetto UI to `url`. Return 0 or a negative errno; -EADDRINUSE: another program has
 * the port. */
int perfetto_serve(struct perfetto *perfetto, const char *path, char url[PERFETTO_URL_BYTES],
                   struct error *error);
void perfetto_end(struct perfetto *perfetto);

#endif
