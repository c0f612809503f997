/* SPDX-License-Identifier: Apache-2.0 */
/* An epoll loop whose events carry their descriptor, and whose due times are in milliseconds. */
#ifndef HEAPPROFD_UTIL_EVENT_LOOP_H
#define HEAPPROFD_UTIL_EVENT_LOOP_H

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Watch a descriptor for these events (EPOLL_CTL_ADD), or change them (EPOLL_CTL_MOD). Return 0 or
 * a negative errno. */
static inline int event_loop_watch(int epoll, int operation, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(epoll, operation, fd, &event) < 0 ? -errno : 0;
}

/* Return the time until next_ms (UINT64_MAX: never), as epoll_wait() takes it. */
static inline int event_loop_timeout(uint64_t now_ms, uint64_t next_ms)
{
    if (next_ms == UINT64_MAX)
        return -1;
    uint64_t left_ms = next_ms > now_ms ? next_ms - now_ms : 0;
    return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

#endif
