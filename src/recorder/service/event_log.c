/* SPDX-License-Identifier: Apache-2.0 */
/* A small table of users. An inactive user's entry is reused. */
#include "recorder/service/event_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "util/clock.h"

/* Return whether another user may have the entry: its period has ended, and all lines that were
 * left out were mentioned. */
static bool is_free(const struct event_log_share *share, uint64_t now_ms)
{
    return now_ms >= share->end_ms && share->left_out == 0;
}

static struct event_log_share *find_share(struct event_log *log, uid_t uid, uint64_t now_ms)
{
    struct event_log_share *place = NULL;
    for (unsigned i = 0; i < log->user_count; i++) {
        struct event_log_share *share = &log->users[i];
        if (share->uid == uid)
            return share;
        if (place == NULL && is_free(share, now_ms))
            place = share;
    }
    if (place == NULL && log->user_count < EVENT_LOG_USERS)
        place = &log->users[log->user_count++];
    if (place == NULL)
        return &log->users[EVENT_LOG_USERS - 1];
    *place = (struct event_log_share){.uid = uid, .end_ms = now_ms + EVENT_LOG_PERIOD_MS};
    return place;
}

bool event_log_has_room(struct event_log *log, uid_t uid, uint64_t now_ms, unsigned *left_out)
{
    *left_out = 0;
    if (uid == 0 || uid == geteuid())
        return true;
    struct event_log_share *share = find_share(log, uid, now_ms);
    if (now_ms >= share->end_ms) {
        share->end_ms = now_ms + EVENT_LOG_PERIOD_MS;
        share->lines = 0;
    }
    if (share->lines >= EVENT_LOG_LINES) {
        share->left_out++;
        return false;
    }
    share->lines++;
    *left_out = share->left_out;
    share->left_out = 0;
    return true;
}

void event_log_write(struct event_log *log, uid_t uid, const char *format, ...)
{
    unsigned left_out;
    char line[640], remark[96];
    if (log->write == NULL ||
        !event_log_has_room(log, uid, clock_read_ms(CLOCK_MONOTONIC), &left_out))
        return;
    if (left_out > 0) {
        snprintf(remark, sizeof(remark), "%u lines about uid %u were left out: there were too many",
                 left_out, (unsigned)uid);
        log->write(remark);
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    log->write(line);
}
