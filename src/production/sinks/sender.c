/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl's multi interface on our epoll descriptor: curl says which sockets to watch and when to
 * call it. */
#include "production/sinks/sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "production/sinks/link.h"
#include "util/clock.h"

#define EVENTS_MAX 32

struct sender {
    CURLM *multi;
    int descriptor;
    uint64_t due_ms; /* CLOCK_MONOTONIC; UINT64_MAX: never */
};

static int watch_socket(CURL *easy, curl_socket_t socket, int what, void *context, void *known)
{
    struct sender *sender = context;
    struct epoll_event event = {.data.fd = socket};
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(sender->descriptor, EPOLL_CTL_DEL, socket, NULL);
        return 0;
    }
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        event.events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        event.events |= EPOLLOUT;
    if (known == NULL)
        curl_multi_assign(sender->multi, socket, sender);
    if (epoll_ctl(sender->descriptor, EPOLL_CTL_MOD, socket, &event) != 0 &&
        (errno != ENOENT || epoll_ctl(sender->descriptor, EPOLL_CTL_ADD, socket, &event) != 0))
        return -1;
    return 0;
}

static int set_timer(CURLM *multi, long timeout_ms, void *context)
{
    struct sender *sender = context;
    (void)multi;
    sender->due_ms =
        timeout_ms < 0 ? UINT64_MAX : clock_read_ms(CLOCK_MONOTONIC) + (uint64_t)timeout_ms;
    return 0;
}

struct sender *sender_open(int descriptor, struct error *error)
{
    struct sender *sender = calloc(1, sizeof(*sender));
    if (sender == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        (sender->multi = curl_multi_init()) == NULL) {
        free(sender);
        error_set(error, -ENOMEM, "libcurl cannot be initialized");
        return NULL;
    }
    sender->descriptor = descriptor;
    sender->due_ms = UINT64_MAX;
    curl_multi_setopt(sender->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
    curl_multi_setopt(sender->multi, CURLMOPT_SOCKETDATA, sender);
    curl_multi_setopt(sender->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(sender->multi, CURLMOPT_TIMERDATA, sender);
    return sender;
}

void sender_close(struct sender *sender)
{
    if (sender == NULL)
        return;
    curl_multi_cleanup(sender->multi);
    free(sender);
}

CURLM *sender_multi(const struct sender *sender)
{
    return sender->multi;
}

static void finish_transfers(struct sender *sender)
{
    const CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(sender->multi, &left)) != NULL) {
        struct sender_link *link = NULL;
        CURL *easy = message->easy_handle;
        CURLcode result = message->data.result;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&link);
        curl_multi_remove_handle(sender->multi, easy);
        link_end(link, result);
    }
}

void sender_work(struct sender *sender)
{
    struct epoll_event events[EVENTS_MAX];
    int running, count = epoll_wait(sender->descriptor, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        int what = ((events[i].events & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                   ((events[i].events & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                   ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(sender->multi, events[i].data.fd, what, &running);
    }
    if (sender->due_ms <= clock_read_ms(CLOCK_MONOTONIC)) {
        sender->due_ms = UINT64_MAX;
        curl_multi_socket_action(sender->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    finish_transfers(sender);
}

uint64_t sender_due_ms(const struct sender *sender)
{
    return sender->due_ms;
}
