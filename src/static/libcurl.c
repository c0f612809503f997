/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of libcurl that src/production/ calls, by the program curl (curl_run.h). Both have
 * the same options, codes and messages, because curl is libcurl's own program. Only what is called
 * exists here: another option is refused, as libcurl refuses one that it does not know.
 */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "static/curl_run.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

/* Of an answer's head. A longer line is passed on in parts. */
#define LINE_BYTES_MAX 16384

#define UNRESERVED "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

struct transfer {
    struct transfer *next; /* of its multi handle */
    struct multi *multi;

    /* What curl_easy_setopt() has set. */
    void *private, *write_context, *head_context;
    curl_write_callback write, take_head;
    char *failure; /* CURL_ERROR_SIZE */
    char *url, *protocols, *ca_file, *certificate, *key, *agent, *user, *password;
    const struct curl_slist *lines;
    const void *body;
    curl_off_t length;
    long timeout_ms, connect_timeout_s;

    enum { TRANSFER_IDLE, TRANSFER_RUNS, TRANSFER_ENDED } state;
    struct curl_run run;
    CURLcode result;
    CURLMsg message;
    bool is_in_head, is_watched; /* is_watched: the event loop knows the pipe */
    long status;
    curl_off_t retry_after_s;
    char line[LINE_BYTES_MAX];
    size_t line_length;
};

struct multi {
    struct transfer *first;
    curl_socket_callback watch;
    curl_multi_timer_callback set_timer;
    void *watch_context, *timer_context;
};

/* --- lists --- */

struct curl_slist *curl_slist_append(struct curl_slist *list, const char *text)
{
    struct curl_slist *last = malloc(sizeof(*last)), **at = &list;
    if (last == NULL || (last->data = strdup(text)) == NULL) {
        free(last);
        return NULL;
    }
    last->next = NULL;
    while (*at != NULL)
        at = &(*at)->next;
    *at = last;
    return list;
}

void curl_slist_free_all(struct curl_slist *list)
{
    while (list != NULL) {
        struct curl_slist *next = list->next;
        free(list->data);
        free(list);
        list = next;
    }
}

void curl_free(void *memory)
{
    free(memory);
}

CURLcode curl_global_init(long flags)
{
    (void)flags;
    return CURLE_OK;
}

const char *curl_easy_strerror(CURLcode code)
{
    static char text[64];
    snprintf(text, sizeof(text), "curl ended with status %d", (int)code);
    return text;
}

char *curl_easy_escape(CURL *easy, const char *text, int length)
{
    (void)easy;
    size_t bytes = length > 0 ? (size_t)length : strlen(text);
    char *escaped = malloc(3 * bytes + 1), *to = escaped;
    for (size_t i = 0; escaped != NULL && i < bytes; i++) {
        if (strchr(UNRESERVED, text[i]) != NULL && text[i] != '\0')
            *to++ = text[i];
        else
            to += sprintf(to, "%%%02X", (unsigned char)text[i]);
    }
    if (escaped != NULL)
        *to = '\0';
    return escaped;
}

/* --- a transfer's options --- */

CURL *curl_easy_init(void)
{
    return calloc(1, sizeof(struct transfer));
}

static CURLcode set_text(char **into, const char *text)
{
    char *copy = text == NULL ? NULL : strdup(text);
    if (text != NULL && copy == NULL)
        return CURLE_OUT_OF_MEMORY;
    if (*into != NULL)
        explicit_bzero(*into, strlen(*into));
    free(*into);
    *into = copy;
    return CURLE_OK;
}

static CURLcode transfer_set_text(struct transfer *transfer, CURLoption option, const char *text)
{
    switch (option) {
    case CURLOPT_URL:
        return set_text(&transfer->url, text);
    case CURLOPT_PROTOCOLS_STR:
        return set_text(&transfer->protocols, text);
    case CURLOPT_CAINFO:
        return set_text(&transfer->ca_file, text);
    case CURLOPT_SSLCERT:
        return set_text(&transfer->certificate, text);
    case CURLOPT_SSLKEY:
        return set_text(&transfer->key, text);
    case CURLOPT_USERAGENT:
        return set_text(&transfer->agent, text);
    case CURLOPT_USERNAME:
        return set_text(&transfer->user, text);
    case CURLOPT_PASSWORD:
        return set_text(&transfer->password, text);
    default:
        return CURLE_UNKNOWN_OPTION;
    }
}

static CURLcode transfer_set_pointer(struct transfer *transfer, CURLoption option, void *pointer)
{
    switch (option) {
    case CURLOPT_PRIVATE:
        transfer->private = pointer;
        return CURLE_OK;
    case CURLOPT_WRITEDATA:
        transfer->write_context = pointer;
        return CURLE_OK;
    case CURLOPT_HEADERDATA:
        transfer->head_context = pointer;
        return CURLE_OK;
    case CURLOPT_HTTPHEADER:
        transfer->lines = pointer;
        return CURLE_OK;
    case CURLOPT_POSTFIELDS:
        transfer->body = pointer;
        return CURLE_OK;
    case CURLOPT_ERRORBUFFER:
        transfer->failure = pointer;
        return CURLE_OK;
    default:
        return transfer_set_text(transfer, option, pointer);
    }
}

static CURLcode transfer_set_number(struct transfer *transfer, CURLoption option, long number)
{
    switch (option) {
    case CURLOPT_TIMEOUT_MS:
        transfer->timeout_ms = number;
        return CURLE_OK;
    case CURLOPT_TIMEOUT:
        transfer->timeout_ms = number * 1000;
        return CURLE_OK;
    case CURLOPT_CONNECTTIMEOUT:
        transfer->connect_timeout_s = number;
        return CURLE_OK;
    /* What the program does by itself, or transfer_start() asks for. */
    case CURLOPT_FOLLOWLOCATION:
        return number == 0 ? CURLE_OK : CURLE_UNKNOWN_OPTION;
    case CURLOPT_SSL_VERIFYPEER:
    case CURLOPT_SSL_VERIFYHOST:
        return number != 0 ? CURLE_OK : CURLE_UNKNOWN_OPTION;
    case CURLOPT_SSLVERSION:
        return number == CURL_SSLVERSION_TLSv1_2 ? CURLE_OK : CURLE_UNKNOWN_OPTION;
    case CURLOPT_NETRC:
        return number == CURL_NETRC_IGNORED ? CURLE_OK : CURLE_UNKNOWN_OPTION;
    case CURLOPT_HTTPAUTH:
        return number == (long)CURLAUTH_BASIC ? CURLE_OK : CURLE_UNKNOWN_OPTION;
    case CURLOPT_POST:
    case CURLOPT_TCP_KEEPALIVE:
    case CURLOPT_NOSIGNAL:
    case CURLOPT_QUICK_EXIT:
        return CURLE_OK;
    default:
        return CURLE_UNKNOWN_OPTION;
    }
}

CURLcode curl_easy_setopt(CURL *easy, CURLoption option, ...)
{
    struct transfer *transfer = easy;
    CURLcode code = CURLE_OK;
    va_list values;
    va_start(values, option);
    if (option == CURLOPT_POSTFIELDSIZE_LARGE)
        transfer->length = va_arg(values, curl_off_t);
    else if (option == CURLOPT_WRITEFUNCTION)
        transfer->write = va_arg(values, curl_write_callback);
    else if (option == CURLOPT_HEADERFUNCTION)
        transfer->take_head = va_arg(values, curl_write_callback);
    else if (option < CURLOPTTYPE_OBJECTPOINT)
        code = transfer_set_number(transfer, option, va_arg(values, long));
    else
        code = transfer_set_pointer(transfer, option, va_arg(values, void *));
    va_end(values);
    return code;
}

CURLcode curl_easy_getinfo(CURL *easy, CURLINFO info, ...)
{
    struct transfer *transfer = easy;
    CURLcode code = CURLE_OK;
    va_list values;
    va_start(values, info);
    if (info == CURLINFO_RESPONSE_CODE)
        *va_arg(values, long *) = transfer->status;
    else if (info == CURLINFO_RETRY_AFTER)
        *va_arg(values, curl_off_t *) = transfer->retry_after_s;
    else if (info == CURLINFO_PRIVATE)
        *va_arg(values, void **) = transfer->private;
    else
        code = CURLE_UNKNOWN_OPTION;
    va_end(values);
    return code;
}

void curl_easy_cleanup(CURL *easy)
{
    struct transfer *transfer = easy;
    if (transfer == NULL)
        return;
    curl_run_stop(&transfer->run);
    char **const texts[] = {&transfer->url,         &transfer->protocols, &transfer->ca_file,
                            &transfer->certificate, &transfer->key,       &transfer->agent,
                            &transfer->user,        &transfer->password};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        set_text(texts[i], NULL);
    free(transfer);
}

/* --- a transfer --- */

/* Add an option whose value is put together. */
static void transfer_add(struct transfer *transfer, const char *name, const char *format, ...)
{
    va_list values;
    char *text;
    va_start(values, format);
    int length = vasprintf(&text, format, values);
    va_end(values);
    if (length < 0) {
        transfer->run.is_out_of_memory = true;
        return;
    }
    curl_run_add(&transfer->run, name, text);
    explicit_bzero(text, (size_t)length);
    free(text);
}

static void add_if_set(struct transfer *transfer, const char *name, const char *value)
{
    if (value != NULL)
        curl_run_add(&transfer->run, name, value);
}

/* Tell the event loop that the pipe is about to be closed. */
static void transfer_unwatch(struct transfer *transfer)
{
    struct multi *multi = transfer->multi;
    if (transfer->is_watched)
        multi->watch(transfer, transfer->run.answer, CURL_POLL_REMOVE, multi->watch_context, NULL);
    transfer->is_watched = false;
}

static void transfer_end(struct transfer *transfer, CURLcode result)
{
    transfer->result = result;
    transfer->state = TRANSFER_ENDED;
}

static void transfer_start(struct transfer *transfer)
{
    struct curl_run *run = &transfer->run;
    transfer->state = TRANSFER_RUNS;
    transfer->status = 0;
    transfer->retry_after_s = 0;
    transfer->line_length = 0;
    transfer->is_in_head = true;
    curl_run_add(run, "url", transfer->url);
    curl_run_add(run, "include", NULL);
    curl_run_add(run, "suppress-connect-headers", NULL);
    curl_run_add(run, "tlsv1.2", NULL);
    if (transfer->protocols != NULL)
        transfer_add(transfer, "proto", "=%s", transfer->protocols);
    add_if_set(transfer, "cacert", transfer->ca_file);
    add_if_set(transfer, "cert", transfer->certificate);
    add_if_set(transfer, "key", transfer->key);
    add_if_set(transfer, "user-agent", transfer->agent);
    if (transfer->user != NULL)
        transfer_add(transfer, "user", "%s:%s", transfer->user,
                     transfer->password != NULL ? transfer->password : "");
    if (transfer->timeout_ms > 0)
        transfer_add(transfer, "max-time", "%ld.%03ld", transfer->timeout_ms / 1000,
                     transfer->timeout_ms % 1000);
    if (transfer->connect_timeout_s > 0)
        transfer_add(transfer, "connect-timeout", "%ld", transfer->connect_timeout_s);
    for (const struct curl_slist *line = transfer->lines; line != NULL; line = line->next)
        curl_run_add(run, "header", line->data);
    int code = curl_run_start(run, transfer->body, (size_t)transfer->length);
    if (code == 0)
        return;
    if (transfer->failure != NULL)
        snprintf(transfer->failure, CURL_ERROR_SIZE, "%s", curl_run_explain(code));
    transfer_end(transfer, CURLE_FAILED_INIT);
}

/* --- an answer --- */

static void take_retry_after(struct transfer *transfer, const char *value)
{
    struct tm date = {0};
    value += strspn(value, " \t");
    if (*value >= '0' && *value <= '9')
        transfer->retry_after_s = strtoll(value, NULL, 10);
    else if (strptime(value, "%a, %d %b %Y %H:%M:%S GMT", &date) != NULL)
        transfer->retry_after_s = timegm(&date) - time(NULL);
}

/* Take a whole line of a head, or what there is of one. Return whether the user wants more. */
static bool transfer_take_line(struct transfer *transfer)
{
    char *line = transfer->line;
    size_t length = transfer->line_length;
    transfer->line_length = 0;
    line[length] = '\0';
    if (strncmp(line, "HTTP/", 5) == 0)
        transfer->status = strtol(line + strcspn(line, " \n"), NULL, 10);
    else if (strncasecmp(line, "retry-after:", 12) == 0)
        take_retry_after(transfer, line + 12);
    /* The head of the answer itself follows that of "100 Continue". */
    else if ((line[0] == '\r' || line[0] == '\n') && transfer->status / 100 != 1)
        transfer->is_in_head = false;
    return transfer->take_head == NULL ||
           transfer->take_head(line, 1, length, transfer->head_context) == length;
}

static bool transfer_take(struct transfer *transfer, char *bytes, size_t length)
{
    size_t at = 0;
    while (transfer->is_in_head && at < length) {
        transfer->line[transfer->line_length++] = bytes[at++];
        bool is_full = transfer->line_length == sizeof(transfer->line) - 1;
        if ((bytes[at - 1] == '\n' || is_full) && !transfer_take_line(transfer))
            return false;
    }
    return at == length || transfer->write == NULL ||
           transfer->write(bytes + at, 1, length - at, transfer->write_context) == length - at;
}

/* Read what has come, and note the end. */
static void transfer_read(struct transfer *transfer)
{
    char bytes[CURL_MAX_WRITE_SIZE], failure[CURL_RUN_FAILURE_BYTES];
    ssize_t length = read(transfer->run.answer, bytes, sizeof(bytes));
    if (length > 0 && transfer_take(transfer, bytes, (size_t)length))
        return;
    transfer_unwatch(transfer);
    if (length > 0) {
        curl_run_stop(&transfer->run);
        transfer_end(transfer, CURLE_WRITE_ERROR);
        return;
    }
    if (transfer->line_length > 0)
        transfer_take_line(transfer);
    int code = curl_run_finish(&transfer->run, failure);
    if (code != 0 && transfer->failure != NULL)
        snprintf(transfer->failure, CURL_ERROR_SIZE, "%s", failure);
    transfer_end(transfer, (CURLcode)code);
}

CURLcode curl_easy_perform(CURL *easy)
{
    struct transfer *transfer = easy;
    transfer_start(transfer);
    while (transfer->state == TRANSFER_RUNS)
        transfer_read(transfer);
    transfer->state = TRANSFER_IDLE;
    return transfer->result;
}

/* --- transfers in an event loop --- */

CURLM *curl_multi_init(void)
{
    return calloc(1, sizeof(struct multi));
}

CURLMcode curl_multi_cleanup(CURLM *handle)
{
    free(handle);
    return CURLM_OK;
}

CURLMcode curl_multi_setopt(CURLM *handle, CURLMoption option, ...)
{
    struct multi *multi = handle;
    CURLMcode code = CURLM_OK;
    va_list values;
    va_start(values, option);
    if (option == CURLMOPT_SOCKETFUNCTION)
        multi->watch = va_arg(values, curl_socket_callback);
    else if (option == CURLMOPT_SOCKETDATA)
        multi->watch_context = va_arg(values, void *);
    else if (option == CURLMOPT_TIMERFUNCTION)
        multi->set_timer = va_arg(values, curl_multi_timer_callback);
    else if (option == CURLMOPT_TIMERDATA)
        multi->timer_context = va_arg(values, void *);
    else
        code = CURLM_UNKNOWN_OPTION;
    va_end(values);
    return code;
}

CURLMcode curl_multi_assign(CURLM *handle, curl_socket_t socket, void *known)
{
    (void)handle, (void)socket, (void)known;
    return CURLM_OK;
}

CURLMcode curl_multi_add_handle(CURLM *handle, CURL *easy)
{
    struct multi *multi = handle;
    struct transfer *transfer = easy;
    transfer->multi = multi;
    transfer->next = multi->first;
    multi->first = transfer;
    transfer_start(transfer);
    transfer->is_watched = transfer->state == TRANSFER_RUNS;
    if (transfer->is_watched)
        multi->watch(transfer, transfer->run.answer, CURL_POLL_IN, multi->watch_context, NULL);
    else /* so that its end is noticed */
        multi->set_timer(multi, 0, multi->timer_context);
    return CURLM_OK;
}

CURLMcode curl_multi_remove_handle(CURLM *handle, CURL *easy)
{
    struct multi *multi = handle;
    struct transfer *transfer = easy, **at = &multi->first;
    transfer_unwatch(transfer);
    curl_run_stop(&transfer->run);
    transfer->state = TRANSFER_IDLE;
    while (*at != NULL && *at != transfer)
        at = &(*at)->next;
    if (*at != NULL)
        *at = transfer->next;
    return CURLM_OK;
}

CURLMcode curl_multi_socket_action(CURLM *handle, curl_socket_t socket, int events, int *running)
{
    struct multi *multi = handle;
    (void)events;
    *running = 0;
    for (struct transfer *transfer = multi->first; transfer != NULL; transfer = transfer->next) {
        if (transfer->state == TRANSFER_RUNS && transfer->run.answer == socket) {
            struct pollfd waiting = {.fd = socket, .events = POLLIN};
            if (poll(&waiting, 1, 0) > 0)
                transfer_read(transfer);
        }
        *running += transfer->state == TRANSFER_RUNS;
    }
    return CURLM_OK;
}

CURLMsg *curl_multi_info_read(CURLM *handle, int *left)
{
    struct multi *multi = handle;
    *left = 0;
    for (struct transfer *transfer = multi->first; transfer != NULL; transfer = transfer->next) {
        if (transfer->state == TRANSFER_ENDED) {
            transfer->message = (CURLMsg){.msg = CURLMSG_DONE, .easy_handle = transfer};
            transfer->message.data.result = transfer->result;
            return &transfer->message;
        }
    }
    return NULL;
}
