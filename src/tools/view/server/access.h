/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask. The page is for one user: its URL contains a random token, which other users of the
 * machine do not know (tools/view/server/peer.h refuses their connections, too). Web sites that the
 * user visits cannot ask either: a request must name this server as its host (a site whose name
 * suddenly leads to 127.0.0.1 does not), and must not come from another origin.
 */
#ifndef HEAPPROFD_VIEW_ACCESS_H
#define HEAPPROFD_VIEW_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#define ACCESS_TOKEN_LENGTH 32u /* hexadecimal digits: 128 bits */

struct access {
    char token[ACCESS_TOKEN_LENGTH + 1];
    uint16_t port; /* 0: a unix socket, which is reached through any port */
};

/* Return 0 or a negative errno. */
int access_begin(struct access *access, uint16_t port);

/* Return whether a text begins with the token and a '/'. Every digit is compared in any case, so
 * the time that this takes does not depend on how much of the token is right. */
bool access_has_token(const struct access *access, const char *text);

/* What a request says of itself; NULL: not there. */
struct access_request {
    const char *path; /* "/TOKEN/page" */
    const char *host, *origin, *fetch_site;
};

enum access_answer {
    ACCESS_GRANTED,
    ACCESS_WRONG_TOKEN,
    ACCESS_WRONG_HOST,
    ACCESS_WRONG_ORIGIN,
};

/* Judge a request. If it is granted, *page is the rest of its path, behind the token and '/'. */
enum access_answer access_judge(const struct access *access, const struct access_request *request,
                                const char **page);

#endif
