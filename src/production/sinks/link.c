/* SPDX-License-Identifier: Apache-2.0 */
/* One other side: how a request to it looks, and what of its answer is kept. */
#include "production/sinks/link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "production/curl_versions.h"
#include "production/sinks/credentials.h"

#define DEFAULT_TIMEOUT_MS 30000u
/* An answer that is longer ends the transfer: no store says so much about a push. */
#define ANSWER_READ_BYTES_MAX (1u << 20)
#define URL_BYTES_MAX 2048u

struct sender_link {
    struct sender *sender;
    CURL *easy;
    char *url, *address; /* address: without path */
    char *ca_file, *client_certificate, *client_key;
    uint64_t timeout_ms;
    struct credentials credentials;

    enum { LINK_IDLE, LINK_BUSY, LINK_FINISHED } state;
    struct curl_slist *lines;
    struct credentials_used used;
    char text[SENDER_ANSWER_BYTES_MAX + 1];
    size_t length, read_length;
    bool is_too_long;   /* the answer was given up */
    bool is_head_whole; /* of the answer */
    char failure[CURL_ERROR_SIZE];
    CURLcode result;
};

/* --- settings --- */

static int take_path(char **into, struct settings_section *section, const char *key,
                     struct error *error)
{
    const char *value = setting_text(section, key, NULL);
    if (value == NULL)
        return 0;
    if (*value != '/' || access(value, R_OK) != 0)
        return setting_refuse(section, key, error,
                              "it must be the absolute path of a file that can be read");
    *into = strdup(value);
    return *into == NULL ? error_set(error, -ENOMEM, "out of memory") : 0;
}

static int check_key(const char *path, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int code = fd < 0
                   ? error_set(error, -errno, "%.300s: cannot be read: %s", path, strerror(errno))
                   : credentials_check_file(path, fd, error);
    if (fd >= 0)
        close(fd);
    return code;
}

/* Return a part of the url; NULL: it has none. To be freed by curl_free(). */
static char *link_part_of(CURLU *url, CURLUPart part, unsigned flags)
{
    char *text = NULL;
    return curl_url_get(url, part, &text, flags) == CURLUE_OK ? text : NULL;
}

static bool is_loopback(const char *host)
{
    struct in_addr address;
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

/* Check the url's parts, and keep it without a slash at the end. */
static const char *take_parts(struct sender_link *link, CURLU *url, bool plaintext_allowed)
{
    const char *problem = NULL;
    char *scheme = link_part_of(url, CURLUPART_SCHEME, 0),
         *host = link_part_of(url, CURLUPART_HOST, 0);
    char *port = link_part_of(url, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    char *user = link_part_of(url, CURLUPART_USER, 0),
         *password = link_part_of(url, CURLUPART_PASSWORD, 0);
    char *query = link_part_of(url, CURLUPART_QUERY, 0),
         *end = link_part_of(url, CURLUPART_FRAGMENT, 0);
    if (scheme == NULL || host == NULL || port == NULL ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        problem = "it must begin with http:// or https:// and have a host";
    else if (user != NULL || password != NULL)
        problem = "it must not contain a user or a password; use username and password_file";
    else if (query != NULL || end != NULL)
        problem = "it must end with a path";
    else if (strcmp(scheme, "http") == 0 && credentials_any(&link->credentials) &&
             !is_loopback(host) && !plaintext_allowed)
        problem = "http:// would show the credentials to the network; use https://, or allow it "
                  "with plaintext_credentials = yes";
    else if (asprintf(&link->address, "%s://%s:%s", scheme, host, port) < 0)
        link->address = NULL;
    char *const parts[] = {scheme, host, port, user, password, query, end};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        curl_free(parts[i]);
    return problem;
}

static int take_url(struct sender_link *link, struct settings_section *section, struct error *error)
{
    const char *text = setting_text(section, "url", NULL), *problem = "it is not a URL";
    bool plaintext_allowed = false;
    CURLU *url = curl_url();
    if (setting_bool(section, "plaintext_credentials", &plaintext_allowed, error) < 0) {
        curl_url_cleanup(url);
        return -EINVAL;
    }
    if (text == NULL)
        problem = "the address of the other side is needed, such as https://pyroscope.example:4040";
    else if (strlen(text) <= URL_BYTES_MAX && url != NULL &&
             curl_url_set(url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK)
        problem = take_parts(link, url, plaintext_allowed);
    curl_url_cleanup(url);
    if (problem != NULL)
        return setting_refuse(section, "url", error, problem);
    link->url = strdup(text);
    if (link->url == NULL || link->address == NULL)
        return error_set(error, -ENOMEM, "out of memory");
    for (size_t length = strlen(link->url); length > 0 && link->url[length - 1] == '/'; length--)
        link->url[length - 1] = '\0';
    return 0;
}

static int take_settings(struct sender_link *link, struct settings_section *section,
                         struct error *error)
{
    int code = credentials_open(&link->credentials, section, error);
    if (code < 0)
        return code;
    if (take_url(link, section, error) < 0 ||
        take_path(&link->ca_file, section, "ca_file", error) < 0 ||
        take_path(&link->client_certificate, section, "client_certificate", error) < 0 ||
        take_path(&link->client_key, section, "client_key", error) < 0 ||
        setting_duration_ms(section, "timeout", &link->timeout_ms, error) < 0)
        return -EINVAL;
    if ((link->client_certificate == NULL) != (link->client_key == NULL))
        return setting_refuse(section,
                              link->client_key == NULL ? "client_certificate" : "client_key", error,
                              "client_certificate and client_key need each other");
    return link->client_key == NULL ? 0 : check_key(link->client_key, error);
}

/* --- requests --- */

static size_t take_answer(char *bytes, size_t size, size_t count, void *context)
{
    struct sender_link *link = context;
    size_t length = size * count, room = SENDER_ANSWER_BYTES_MAX - link->length;
    if (length > ANSWER_READ_BYTES_MAX - link->read_length) {
        link->is_too_long = true;
        return 0;
    }
    link->read_length += length;
    memcpy(link->text + link->length, bytes, length < room ? length : room);
    link->length += length < room ? length : room;
    return length;
}

/* Notice the head's end: curl takes an answer that ends before it for a whole one. */
static size_t take_head(char *line, size_t size, size_t count, void *context)
{
    struct sender_link *link = context;
    size_t length = size * count;
    if (length >= 5 && memcmp(line, "HTTP/", 5) == 0)
        link->is_head_whole = false;
    else if (length > 0 && (line[0] == '\r' || line[0] == '\n'))
        link->is_head_whole = true;
    return length;
}

/* Set what is the same for all requests. */
static int set_up(struct sender_link *link, struct error *error)
{
    CURL *easy = link->easy = curl_easy_init();
    bool good = easy != NULL;
#define SET(option, value) good = good && curl_easy_setopt(easy, option, value) == CURLE_OK
    SET(CURLOPT_PRIVATE, link);
    good = good && curl_versions_allow_only_http(easy) && curl_versions_leave_resolver(easy);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (link->ca_file != NULL)
        SET(CURLOPT_CAINFO, link->ca_file);
    if (link->client_certificate != NULL) {
        SET(CURLOPT_SSLCERT, link->client_certificate);
        SET(CURLOPT_SSLKEY, link->client_key);
    }
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_TIMEOUT_MS, (long)link->timeout_ms);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_USERAGENT, "heapprofd/" HEAPPROFD_VERSION);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_WRITEFUNCTION, take_answer);
    SET(CURLOPT_WRITEDATA, link);
    SET(CURLOPT_HEADERFUNCTION, take_head);
    SET(CURLOPT_HEADERDATA, link);
    SET(CURLOPT_ERRORBUFFER, link->failure);
#undef SET
    return good ? 0 : error_set(error, -EINVAL, "libcurl lacks what the sinks need");
}

static int add_line(struct curl_slist **lines, const char *name, const char *value)
{
    char line[1024];
    if ((size_t)snprintf(line, sizeof(line), "%s:%s", name, value) >= sizeof(line))
        return -EMSGSIZE;
    struct curl_slist *longer = curl_slist_append(*lines, line);
    if (longer == NULL)
        return -ENOMEM;
    *lines = longer;
    return 0;
}

/* Make the head of a request. */
static int make_lines(struct sender_link *link, const struct sink_message *message,
                      struct error *error)
{
    int code = add_line(&link->lines, "Content-Type", message->content_type);
    if (code == 0 && *message->content_encoding != '\0')
        code = add_line(&link->lines, "Content-Encoding", message->content_encoding);
    if (code == 0) /* else curl waits for "100 Continue" before large bodies */
        code = add_line(&link->lines, "Expect", "");
    if (code < 0)
        return error_set(error, code, "the head of a request cannot be made: %s", strerror(-code));
    return credentials_add(&link->credentials, &link->lines, &link->used, error);
}

int sender_link_start(struct sender_link *link, const struct sink_message *message,
                      struct error *error)
{
    char *url = NULL;
    link->length = link->read_length = 0;
    link->is_too_long = link->is_head_whole = false;
    link->failure[0] = '\0';
    int code = make_lines(link, message, error);
    if (code == 0 && asprintf(&url, "%s%s", link->url, message->target) < 0)
        code = error_set(error, -ENOMEM, "out of memory");
    if (code == 0 && (curl_easy_setopt(link->easy, CURLOPT_URL, url) != CURLE_OK ||
                      curl_easy_setopt(link->easy, CURLOPT_HTTPHEADER, link->lines) != CURLE_OK ||
                      curl_easy_setopt(link->easy, CURLOPT_POSTFIELDS, message->body) != CURLE_OK ||
                      curl_easy_setopt(link->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                                       (curl_off_t)message->length) != CURLE_OK ||
                      curl_multi_add_handle(sender_multi(link->sender), link->easy) != CURLM_OK))
        code = error_set(error, -EINVAL, "libcurl does not take a request");
    free(url);
    if (code < 0)
        credentials_forget(&link->lines, &link->used);
    else
        link->state = LINK_BUSY;
    return code;
}

void link_end(struct sender_link *link, CURLcode result)
{
    link->result = result;
    link->state = LINK_FINISHED;
}

/* --- answers --- */

bool sender_link_is_busy(const struct sender_link *link)
{
    return link->state != LINK_IDLE;
}

bool sender_link_finished(struct sender_link *link, struct sender_answer *answer)
{
    curl_off_t retry_after_s = 0;
    if (link->state != LINK_FINISHED)
        return false;
    *answer = (struct sender_answer){.address = link->address, .failure = ""};
    /* The first line of an answer that is cut or has no end does not tell what the store did: a
     * proxy may have written it. */
    bool is_whole = link->result == CURLE_OK && link->is_head_whole;
    if (is_whole)
        curl_easy_getinfo(link->easy, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_easy_getinfo(link->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (retry_after_s > 0 && retry_after_s < INT32_MAX)
        answer->retry_after_ms = (uint64_t)retry_after_s * 1000;
    link->text[link->length] = '\0';
    credentials_hide(&link->used, link->text);
    answer->text = link->text;
    answer->length = link->length;
    if (!is_whole) {
        credentials_hide(&link->used, link->failure);
        answer->failure = link->is_too_long          ? "the answer has no end (over 1 MiB)"
                          : link->result == CURLE_OK ? "the answer ends in its head"
                          : link->failure[0] != '\0' ? link->failure
                                                     : curl_easy_strerror(link->result);
    }
    curl_easy_setopt(link->easy, CURLOPT_HTTPHEADER, NULL);
    credentials_forget(&link->lines, &link->used);
    link->state = LINK_IDLE;
    return true;
}

/* --- opening --- */

struct sender_link *sender_link_open(struct sender *sender, struct settings_section *section,
                                     struct error *error)
{
    struct sender_link *link = calloc(1, sizeof(*link));
    if (link == NULL) {
        error_set(error, -ENOMEM, "out of memory");
        return NULL;
    }
    link->sender = sender;
    link->timeout_ms = DEFAULT_TIMEOUT_MS;
    if (take_settings(link, section, error) == 0 && set_up(link, error) == 0)
        return link;
    sender_link_close(link);
    return NULL;
}

void sender_link_close(struct sender_link *link)
{
    if (link == NULL)
        return;
    if (link->state == LINK_BUSY)
        curl_multi_remove_handle(sender_multi(link->sender), link->easy);
    if (link->easy != NULL)
        curl_easy_cleanup(link->easy);
    credentials_forget(&link->lines, &link->used);
    credentials_close(&link->credentials);
    free(link->url);
    free(link->address);
    free(link->ca_file);
    free(link->client_certificate);
    free(link->client_key);
    free(link);
}
