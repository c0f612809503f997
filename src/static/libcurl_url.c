/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl's functions that split a URL, for http:// and https://. */
#include <arpa/inet.h>
/* Versions of the header differ in `const`. */
#define curl_url_get curl_url_get_of_the_header
#include <curl/curl.h>
#undef curl_url_get
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

CURLUcode curl_url_get(const CURLU *url, CURLUPart what, char **part, unsigned flags);

#define SCHEME_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789+-."
/* What a host's name cannot contain. Bytes from 0x80 on are another language's letters. */
#define NO_HOST_CHARACTERS                                                                         \
    "\x01\x02\x03\x04\x05\x06\x07\x08\t\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14"                       \
    "\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f \x7f!\"#$&'()*+,/:;<=>?@[\\]^`{|}"

struct Curl_URL {
    char *scheme, *user, *password, *host, *port, *query, *fragment;
};

CURLU *curl_url(void)
{
    return calloc(1, sizeof(struct Curl_URL));
}

static void url_clear(CURLU *url)
{
    char *const parts[] = {url->scheme, url->user,  url->password, url->host,
                           url->port,   url->query, url->fragment};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        free(parts[i]);
    *url = (struct Curl_URL){0};
}

void curl_url_cleanup(CURLU *url)
{
    if (url == NULL)
        return;
    url_clear(url);
    free(url);
}

/* Cut the text at the character, and return a copy of what follows; NULL: it has none. */
static char *url_cut(char *text, char character)
{
    char *at = strchr(text, character);
    if (at == NULL)
        return NULL;
    *at = '\0';
    return strdup(at + 1);
}

static CURLUcode url_take_scheme(CURLU *url, char *text)
{
    for (char *at = text; *at != '\0'; at++)
        *at |= *at >= 'A' && *at <= 'Z' ? 'a' - 'A' : 0;
    if (*text < 'a' || *text > 'z' || text[strspn(text, SCHEME_CHARACTERS)] != '\0')
        return CURLUE_BAD_SCHEME;
    url->scheme = strdup(text);
    return CURLUE_OK;
}

/* Take [HOST] of IPv6, or HOST, and a port. */
static CURLUcode url_take_host(CURLU *url, char *text)
{
    struct in6_addr address;
    char *end = *text == '[' ? strchr(text, ']') : NULL, *port;
    if (*text == '[') {
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return CURLUE_BAD_IPV6;
        *end = '\0';
        port = end[1] == ':' ? end + 2 : NULL;
        bool is_address = inet_pton(AF_INET6, text + 1, &address) == 1;
        *end = ']';
        end[1] = '\0';
        if (!is_address)
            return CURLUE_BAD_IPV6;
    } else {
        port = strchr(text, ':');
        if (port != NULL)
            *port++ = '\0';
        if (*text == '\0') /* as in file:///PATH */
            return strncmp(url->scheme, "http", 4) == 0 ? CURLUE_NO_HOST : CURLUE_OK;
        if (strpbrk(text, NO_HOST_CHARACTERS) != NULL)
            return CURLUE_BAD_HOSTNAME;
    }
    url->host = strdup(text);
    if (port == NULL || *port == '\0')
        return CURLUE_OK;
    if (port[strspn(port, "0123456789")] != '\0' || strlen(port) > 5 || atoi(port) > 65535)
        return CURLUE_BAD_PORT_NUMBER;
    url->port = strdup(port);
    return CURLUE_OK;
}

static CURLUcode url_split(CURLU *url, char *text)
{
    char *authority = strstr(text, "://");
    if (authority == NULL)
        return CURLUE_BAD_SCHEME;
    *authority = '\0';
    authority += strlen("://");
    CURLUcode code = url_take_scheme(url, text);
    if (code != CURLUE_OK)
        return code;
    url->fragment = url_cut(authority, '#');
    url->query = url_cut(authority, '?');
    authority[strcspn(authority, "/")] = '\0';
    char *host = strrchr(authority, '@');
    if (host != NULL) {
        *host++ = '\0';
        url->password = url_cut(authority, ':');
        url->user = strdup(authority);
    }
    return url_take_host(url, host != NULL ? host : authority);
}

CURLUcode curl_url_set(CURLU *url, CURLUPart part, const char *text, unsigned flags)
{
    (void)flags;
    if (part != CURLUPART_URL)
        return CURLUE_UNKNOWN_PART;
    char *copy = strdup(text);
    if (copy == NULL)
        return CURLUE_OUT_OF_MEMORY;
    url_clear(url);
    CURLUcode code = url_split(url, copy);
    free(copy);
    return code;
}

static const char *url_port(const CURLU *url, unsigned flags)
{
    if (url->port != NULL || (flags & CURLU_DEFAULT_PORT) == 0 || url->scheme == NULL)
        return url->port;
    return strcmp(url->scheme, "https") == 0  ? "443"
           : strcmp(url->scheme, "http") == 0 ? "80"
                                              : NULL;
}

CURLUcode curl_url_get(const CURLU *url, CURLUPart what, char **part, unsigned flags)
{
    const char *text = what == CURLUPART_SCHEME     ? url->scheme
                       : what == CURLUPART_USER     ? url->user
                       : what == CURLUPART_PASSWORD ? url->password
                       : what == CURLUPART_HOST     ? url->host
                       : what == CURLUPART_PORT     ? url_port(url, flags)
                       : what == CURLUPART_QUERY    ? url->query
                       : what == CURLUPART_FRAGMENT ? url->fragment
                                                    : NULL;
    *part = NULL;
    if (text == NULL)
        return CURLUE_UNKNOWN_PART;
    *part = strdup(text);
    return *part == NULL ? CURLUE_OUT_OF_MEMORY : CURLUE_OK;
}
