/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP requests of clickhouse.h, by libcurl. */
#include "production/fleet/clickhouse.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "production/curl_versions.h"
#include "util/array.h"

#define PASSWORD_BYTES_MAX 256
#define TIMEOUT_S 300
#define CONNECT_TIMEOUT_S 10
/* Of the server's reason in our message. */
#define REASON_BYTES 300

struct clickhouse {
    CURL *curl;
    struct curl_slist *headers;
    char *url, *database;
    uint8_t *bytes; /* of the answer */
    size_t length, capacity;
    bool is_too_long;
    char problem[CURL_ERROR_SIZE];
};

/* --- opening --- */

static int read_password(const char *path, char *password, size_t size, struct error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) < 0) {
        int code = -errno;
        if (fd >= 0)
            close(fd);
        return error_set(error, code, "%s: cannot read the password: %s", path, strerror(-code));
    }
    ssize_t length = -1;
    if (!S_ISREG(about.st_mode) || (about.st_mode & 077) != 0)
        error_set(error, -EACCES,
                  "%s: others may read the password; chmod 600 makes it the owner's only", path);
    else if ((length = read(fd, password, size - 1)) <= 0)
        error_set(error, -EINVAL, "%s: there is no password in it", path);
    close(fd);
    if (length <= 0)
        return error->code;
    password[length] = '\0';
    password[strcspn(password, "\r\n")] = '\0';
    return 0;
}

static size_t clickhouse_take(char *bytes, size_t size, size_t count, void *context)
{
    struct clickhouse *server = context;
    size_t more = size * count;
    if (more > CLICKHOUSE_ANSWER_BYTES_MAX - server->length ||
        ARRAY_RESERVE(&server->bytes, &server->capacity, server->length, more + 1) < 0) {
        server->is_too_long = true;
        return 0;
    }
    memcpy(server->bytes + server->length, bytes, more);
    server->length += more;
    return more;
}

static int set_credentials(struct clickhouse *server, const struct clickhouse_options *options,
                           struct error *error)
{
    char password[PASSWORD_BYTES_MAX] = "";
    int code = 0;
    if (options->password_file != NULL)
        code = read_password(options->password_file, password, sizeof(password), error);
    if (code == 0 && (options->user != NULL || *password != '\0')) {
        curl_easy_setopt(server->curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
        curl_easy_setopt(server->curl, CURLOPT_USERNAME,
                         options->user != NULL ? options->user : "default");
        curl_easy_setopt(server->curl, CURLOPT_PASSWORD, password);
    }
    explicit_bzero(password, sizeof(password));
    return code;
}

struct clickhouse *clickhouse_open(const struct clickhouse_options *options, struct error *error)
{
    if (strncmp(options->url, "http://", 7) != 0 && strncmp(options->url, "https://", 8) != 0) {
        error_set(error, -EINVAL, "%s: not a URL of ClickHouse, such as http://localhost:8123",
                  options->url);
        return NULL;
    }
    struct clickhouse *server = calloc(1, sizeof(*server));
    if (server == NULL || (server->curl = curl_easy_init()) == NULL ||
        (server->url = strdup(options->url)) == NULL ||
        (server->database = strdup(options->database)) == NULL ||
        (server->headers = curl_slist_append(NULL, "Expect:")) == NULL) {
        error_set(error, -ENOMEM, "no memory");
        clickhouse_close(server);
        return NULL;
    }
    size_t length = strlen(server->url);
    while (length > 0 && server->url[length - 1] == '/')
        server->url[--length] = '\0';
    CURL *curl = server->curl;
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_versions_allow_only_http(curl);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, server->headers);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, server->problem);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT,
                     (long)(options->timeout_s > 0 ? options->timeout_s : TIMEOUT_S));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, clickhouse_take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, server);
    if (options->ca_file != NULL)
        curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca_file);
    if (set_credentials(server, options, error) < 0) {
        clickhouse_close(server);
        return NULL;
    }
    return server;
}

void clickhouse_close(struct clickhouse *server)
{
    if (server == NULL)
        return;
    curl_easy_cleanup(server->curl);
    curl_slist_free_all(server->headers);
    free(server->url);
    free(server->database);
    free(server->bytes);
    free(server);
}

/* --- a query --- */

/* Return the request's URL, malloc'd; NULL: no memory. */
static char *make_url(const struct clickhouse *server, const char *query_id, const char *query)
{
    char *database = curl_easy_escape(server->curl, server->database, 0), *text = NULL;
    char *escaped = query == NULL ? NULL : curl_easy_escape(server->curl, query, 0);
    /* The answer is complete before its first byte is sent, so that an error is never in the middle
     * of it. */
    if (database != NULL && (query == NULL || escaped != NULL) &&
        asprintf(&text,
                 "%s/"
                 "?query_id=%s&wait_end_of_query=1&insert_distributed_sync=1&prefer_localhost_"
                 "replica=0%s%s%s%s",
                 server->url, query_id, *database != '\0' ? "&database=" : "", database,
                 escaped != NULL ? "&query=" : "", escaped != NULL ? escaped : "") < 0)
        text = NULL;
    curl_free(database);
    curl_free(escaped);
    return text;
}

static void make_query_id(char *query_id, size_t size)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number))
        number = (uint64_t)getpid();
    snprintf(query_id, size, "heapprofd-%016llx", (unsigned long long)number);
}

/* Explain a failed request. The server's reason ends before its version and stack trace. */
static int clickhouse_explain(struct clickhouse *server, const char *query_id, CURLcode status,
                              long http, struct error *error)
{
    if (server->is_too_long)
        return error_set(error, -EFBIG,
                         "%s: query %s: the answer is longer than %llu MiB, or than the memory; "
                         "choose a shorter time or fewer services",
                         server->url, query_id,
                         (unsigned long long)(CLICKHOUSE_ANSWER_BYTES_MAX >> 20));
    if (status != CURLE_OK)
        return error_set(error, -EIO, "%s: query %s: %s", server->url, query_id,
                         *server->problem != '\0' ? server->problem : curl_easy_strerror(status));
    char *reason = (char *)server->bytes;
    char *end = server->length == 0 ? NULL : strstr(reason, ", e.what()");
    int length = (int)(end != NULL ? end - reason : (ptrdiff_t)server->length);
    return error_set(error, -EREMOTEIO, "%s: query %s: HTTP %ld: %.*s", server->url, query_id, http,
                     length < REASON_BYTES ? length : REASON_BYTES,
                     server->length > 0 ? reason : "");
}

int clickhouse_run(struct clickhouse *server, const char *query, const void *body, size_t length,
                   struct clickhouse_answer *answer, struct error *error)
{
    char query_id[48];
    make_query_id(query_id, sizeof(query_id));
    char *url = make_url(server, query_id, body != NULL ? query : NULL);
    if (url == NULL)
        return error_set(error, -ENOMEM, "no memory");
    server->length = 0;
    server->is_too_long = false;
    *server->problem = '\0';
    curl_easy_setopt(server->curl, CURLOPT_URL, url);
    curl_easy_setopt(server->curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)(body != NULL ? length : strlen(query)));
    curl_easy_setopt(server->curl, CURLOPT_POSTFIELDS, body != NULL ? body : query);
    CURLcode status = curl_easy_perform(server->curl);
    long http = 0;
    curl_easy_getinfo(server->curl, CURLINFO_RESPONSE_CODE, &http);
    free(url);
    if (server->bytes != NULL)
        server->bytes[server->length] = '\0'; /* clickhouse_take() reserves the place */
    if (status != CURLE_OK || http != 200)
        return clickhouse_explain(server, query_id, status, http, error);
    if (answer == NULL)
        return 0;
    *answer = (struct clickhouse_answer){.bytes = server->bytes, .length = server->length};
    snprintf(answer->query_id, sizeof(answer->query_id), "%s", query_id);
    server->bytes = NULL;
    server->length = server->capacity = 0;
    return 0;
}

void clickhouse_answer_clear(struct clickhouse_answer *answer)
{
    free(answer->bytes);
    *answer = (struct clickhouse_answer){0};
}

int clickhouse_quote(const char *text, char *to, size_t size)
{
    size_t at = 0;
    if (size < 3)
        return -ENAMETOOLONG;
    to[at++] = '\'';
    for (; *text != '\0'; text++) {
        if (at + 4 > size)
            return -ENAMETOOLONG;
        if (*text == '\'' || *text == '\\')
            to[at++] = '\\';
        to[at++] = *text;
    }
    to[at++] = '\'';
    to[at] = '\0';
    return 0;
}
