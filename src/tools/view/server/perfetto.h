/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hands one trace to Perfetto UI, the page of https://ui.perfetto.dev (or of a copy that the user
 * hosts) in the user's browser. That page reads traces from 127.0.0.1, port 9001; its own policy
 * allows it no other port. So a server listens there from the time the user asks for it until
 * perfetto_end(). It has one file at a time, below a random token of its own, and answers nobody
 * but Perfetto UI, or programs that know the token.
 */
#ifndef HEAPPROFD_VIEW_PERFETTO_H
#define HEAPPROFD_VIEW_PERFETTO_H

#include <limits.h>
#include <pthread.h>

#include "tools/view/server/access.h"
#include "util/error.h"

#define PERFETTO_PORT 9001u
#define PERFETTO_UI "https://ui.perfetto.dev"
#define PERFETTO_UI_BYTES 256u /* of the page's address, and of its origin */
#define PERFETTO_URL_BYTES (PERFETTO_UI_BYTES + NAME_MAX + 128u)

/* The page that may read the trace: "https://ui.perfetto.dev", its origin the same. */
struct perfetto_ui {
    char address[PERFETTO_UI_BYTES]; /* without a '/' at the end */
    char origin[PERFETTO_UI_BYTES];
};

extern const struct perfetto_ui perfetto_ui_usual;

/* Take the page's address: http or https, a host, perhaps a port and a path. Return 0 or -EINVAL
 * with *error set. */
int perfetto_ui_parse(struct perfetto_ui *ui, const char *address, struct error *error);

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

/* Judge a request for "/TOKEN/name" by a page of `origin`, or by a program. */
enum perfetto_answer perfetto_judge(const struct access *access, const char *origin,
                                    const char *name, const struct perfetto_request *request);

/* --- the server --- */

struct perfetto {
    struct MHD_Daemon *daemon; /* NULL: nobody has asked for it */
    struct perfetto_ui ui;
    /* Called by the server's thread after the whole file was sent; NULL: nobody waits for that. */
    void (*sent)(void *context);
    void *context;
    pthread_mutex_t lock; /* for what follows */
    struct access access;
    char name[NAME_MAX + 1];
    struct MHD_Response *file;
};

/* Begin without a server. Set `sent` before the first perfetto_serve(). */
void perfetto_begin(struct perfetto *perfetto, const struct perfetto_ui *ui);
/* Serve a trace instead of the last one, whose address becomes invalid, and write the address that
 * opens it in Perfetto UI to `url`. Return 0 or a negative errno; -EADDRINUSE: another program has
 * the port. */
int perfetto_serve(struct perfetto *perfetto, const char *path, char url[PERFETTO_URL_BYTES],
                   struct error *error);
/* The same for an open file, which is served under the base name of `path` and closed in the end.
 */
int perfetto_serve_file(struct perfetto *perfetto, int fd, const char *path,
                        char url[PERFETTO_URL_BYTES], struct error *error);
void perfetto_end(struct perfetto *perfetto);

#endif
