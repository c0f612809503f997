/* SPDX-License-Identifier: Apache-2.0 */
/* Find the directory to watch, and read inotify's events. */
#include "recorder/tracing/producer/socket_watch.h"

#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

/* A socket is made by bind() or moved to its place. Permissions may be set later. */
#define CHANGES (IN_CREATE | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

/* Reads of events at once. Others follow at the next turn. */
#define READS_MAX 16

bool socket_watch_open(struct socket_watch *watch)
{
    *watch = (struct socket_watch){.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .watch = -1};
    return watch->inotify >= 0;
}

void socket_watch_close(struct socket_watch *watch)
{
    if (watch->inotify >= 0)
        close(watch->inotify);
    *watch = (struct socket_watch){.inotify = -1, .watch = -1};
}

void socket_watch_end(struct socket_watch *watch)
{
    if (watch->watch >= 0)
        inotify_rm_watch(watch->inotify, watch->watch);
    watch->watch = -1;
}

void socket_watch_begin(struct socket_watch *watch, const char *name)
{
    char path[PATH_MAX];
    if (name[0] != '/' || watch->inotify < 0 ||
        snprintf(path, sizeof(path), "%s", name) >= (int)sizeof(path))
        return;
    int watched = -1;
    char *slash = strrchr(path, '/');
    while (watched < 0 && slash != NULL) {
        snprintf(watch->awaited, sizeof(watch->awaited), "%s", slash + 1);
        *slash = '\0';
        watched = inotify_add_watch(watch->inotify, path[0] != '\0' ? path : "/", CHANGES);
        slash = strrchr(path, '/');
    }
    if (watch->watch >= 0 && watch->watch != watched)
        inotify_rm_watch(watch->inotify, watch->watch);
    watch->watch = watched;
}

static bool concerns(const struct socket_watch *watch, const struct inotify_event *event)
{
    /* The directory itself has gone, or events were lost. */
    if ((event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_Q_OVERFLOW)) != 0)
        return event->wd == watch->watch || event->wd < 0;
    return event->wd == watch->watch && event->len > 0 && strcmp(event->name, watch->awaited) == 0;
}

bool socket_watch_read(struct socket_watch *watch)
{
    char bytes[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool found = false;
    for (int i = 0; i < READS_MAX; i++) {
        ssize_t got = read(watch->inotify, bytes, sizeof(bytes));
        if (got <= 0)
            break;
        for (const char *at = bytes; at < bytes + got;) {
            const struct inotify_event *event = (const void *)at;
            found |= concerns(watch, event);
            at += sizeof(*event) + event->len;
        }
    }
    return found && watch->watch >= 0;
}
