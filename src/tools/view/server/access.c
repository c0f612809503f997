/* SPDX-License-Identifier: Apache-2.0 */
/* Judges requests by token, host and origin. */
#include "tools/view/server/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

int access_begin(struct access *access, uint16_t port)
{
    unsigned char random[ACCESS_TOKEN_LENGTH / 2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return -errno;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(access->token + 2 * i, 3, "%02x", random[i]);
    access->port = port;
    return 0;
}

bool access_has_token(const struct access *access, const char *text)
{
    unsigned char different = 0;
    if (strnlen(text, ACCESS_TOKEN_LENGTH + 1) <= ACCESS_TOKEN_LENGTH)
        return false;
    for (size_t i = 0; i < ACCESS_TOKEN_LENGTH; i++)
        different |= (unsigned char)(text[i] ^ access->token[i]);
    return different == 0 && text[ACCESS_TOKEN_LENGTH] == '/';
}

/* Return whether "name:port" is this server. */
static bool is_host(const struct access *access, const char *host)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    char port[8];
    snprintf(port, sizeof(port), "%u", access->port);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t length = strlen(names[i]);
        if (strncmp(host, names[i], length) != 0)
            continue;
        const char *rest = host + length;
        if (access->port == 0 ? *rest == '\0' || *rest == ':'
                              : *rest == ':' && strcmp(rest + 1, port) == 0)
            return true;
    }
    return false;
}

static bool is_own_origin(const struct access *access, const struct access_request *request)
{
    static const char scheme[] = "http://";
    if (request->fetch_site != NULL && strcmp(request->fetch_site, "same-origin") != 0 &&
        strcmp(request->fetch_site, "none") != 0)
        return false;
    return request->origin == NULL || (strncmp(request->origin, scheme, strlen(scheme)) == 0 &&
                                       is_host(access, request->origin + strlen(scheme)));
}

enum access_answer access_judge(const struct access *access, const struct access_request *request,
                                const char **page)
{
    if (request->host == NULL || !is_host(access, request->host))
        return ACCESS_WRONG_HOST;
    if (request->path[0] != '/' || !access_has_token(access, request->path + 1))
        return ACCESS_WRONG_TOKEN;
    *page = request->path + 1 + ACCESS_TOKEN_LENGTH + 1;
    /* The browser follows a link from a file or another program to the page itself. */
    if (**page != '\0' && !is_own_origin(access, request))
        return ACCESS_WRONG_ORIGIN;
    return ACCESS_GRANTED;
}
