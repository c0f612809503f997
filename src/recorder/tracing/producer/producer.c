/* SPDX-License-Identifier: Apache-2.0 */
/* Connect, serve, and connect again when the service is gone. */
#include "recorder/tracing/producer/producer.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "recorder/tracing/producer/service_link.h"
#include "recorder/tracing/producer/socket_watch.h"
#include "util/clock.h"
#include "util/event_loop.h"
#include "util/terminal_text.h"

#define PROCESS_NAME "heapd-producer"

#define EVENTS_AT_ONCE 64

/* Pauses before attempts to connect. Each is twice the one before; a quarter of it is random, so
 * that not all producers come at once when a service starts. */
#define RETRY_MS_MIN 100u
#define RETRY_MS_MAX 5000u
/* The first pause after the socket has appeared: the service listens a moment later. */
#define RETRY_MS_SOON 5u
/* Somebody else's socket may come and go: failures to connect are logged once in this time. */
#define LOG_PERIOD_MS 1000u
/* A connection that lasted this long was a good one: the next attempt comes soon. */
#define STEADY_MS 5000u

/* Sessions may take so long to write their last dumps after SIGTERM. */
#define END_MS 8000u

static struct producer {
    void (*write)(const char *line);
    struct tracing_socket socket;
    int epoll, signals;
    struct socket_watch watch;
    struct service_link link;
    uint64_t connected_ms;
    uint64_t retry_ms;      /* time of the next attempt */
    unsigned pause_ms;      /* after it */
    char last_failure[512]; /* logged once */
    uint64_t logged_ms;     /* when it was */
} producer;

__attribute__((format(printf, 1, 2))) static void log_line(const char *format, ...)
{
    char line[640], shown[1280];
    va_list arguments;
    int length = snprintf(line, sizeof(line), "producer: ");
    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
    va_end(arguments);
    terminal_text_escape(line, false, shown, sizeof(shown));
    producer.write(shown);
}

static void plan_retry(uint64_t now_ms)
{
    uint32_t random;
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = 0;
    producer.retry_ms = now_ms + producer.pause_ms - random % (producer.pause_ms / 4);
    producer.pause_ms = producer.pause_ms < RETRY_MS_MAX / 2 ? producer.pause_ms * 2 : RETRY_MS_MAX;
}

static void disconnect(const struct error *error)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    bool is_new = strcmp(error->message, producer.last_failure) != 0 &&
                  now_ms >= producer.logged_ms + LOG_PERIOD_MS;
    if (producer.link.is_accepted || is_new) {
        log_line("%s", error->message);
        snprintf(producer.last_failure, sizeof(producer.last_failure), "%s", error->message);
        producer.logged_ms = now_ms;
    }
    if (producer.link.is_accepted && now_ms - producer.connected_ms >= STEADY_MS)
        producer.pause_ms = RETRY_MS_MIN;
    service_link_close(&producer.link);
    plan_retry(now_ms);
}

static void connect_if_due(uint64_t now_ms)
{
    struct error error;
    if (producer.link.connection != NULL || now_ms < producer.retry_ms)
        return;
    producer.connected_ms = now_ms;
    socket_watch_begin(&producer.watch, producer.socket.name);
    if (service_link_open(&producer.link, &producer.socket, producer.epoll, &error) < 0)
        disconnect(&error);
    else
        socket_watch_end(&producer.watch);
}

/* Try again soon after the service's socket has appeared. */
static void see_socket(void)
{
    uint64_t soon_ms = clock_read_ms(CLOCK_MONOTONIC) + RETRY_MS_SOON;
    bool was_now = producer.connected_ms + RETRY_MS_MIN / 2 > soon_ms;
    if (!socket_watch_read(&producer.watch) || producer.link.connection != NULL)
        return;
    producer.retry_ms = clock_earlier(producer.retry_ms,
                                      was_now ? producer.connected_ms + RETRY_MS_MIN / 2 : soon_ms);
    producer.pause_ms = RETRY_MS_SOON;
}

static uint64_t next_due_ms(void)
{
    return producer.link.connection != NULL ? service_link_due_ms(&producer.link)
                                            : producer.retry_ms;
}

/* Handle the next events until a time. Return false after a signal. */
static bool producer_step(uint64_t end_ms)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    struct error error;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    connect_if_due(now_ms);
    int count = epoll_wait(producer.epoll, events, EVENTS_AT_ONCE,
                           event_loop_timeout(now_ms, clock_earlier(end_ms, next_due_ms())));
    int code = 0;
    bool goes_on = true;
    for (int i = 0; i < count && code == 0; i++) {
        goes_on &= events[i].data.fd != producer.signals;
        if (events[i].data.fd == producer.watch.inotify)
            see_socket();
        if (producer.link.connection != NULL)
            code = service_link_serve(&producer.link, events[i].data.fd, &error);
    }
    if (code == 0 && producer.link.connection != NULL)
        code = service_link_settle(&producer.link, &error);
    if (code < 0)
        disconnect(&error);
    return goes_on;
}

/* End all sessions, and pass on their last packets. A second signal shortens this. */
static void producer_finish(void)
{
    struct signalfd_siginfo first;
    uint64_t end_ms = clock_read_ms(CLOCK_MONOTONIC) + END_MS;
    while (read(producer.signals, &first, sizeof(first)) > 0) {
    }
    service_link_stop_all(&producer.link);
    while (producer.link.count > 0 && clock_read_ms(CLOCK_MONOTONIC) < end_ms &&
           producer_step(end_ms)) {
    }
}

static int open_loop(void)
{
    sigset_t ours;
    /* As a child of the daemon it is /proc/self/exe. */
    prctl(PR_SET_NAME, PROCESS_NAME);
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* A dump on request of the daemon's user is the daemon's work. */
    signal(SIGUSR1, SIG_IGN);
    producer.signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    producer.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (producer.signals < 0 || producer.epoll < 0)
        return -errno;
    /* Without it the next attempt is some seconds later. */
    if (socket_watch_open(&producer.watch) &&
        event_loop_watch(producer.epoll, EPOLL_CTL_ADD, producer.watch.inotify, EPOLLIN) < 0)
        socket_watch_close(&producer.watch);
    return event_loop_watch(producer.epoll, EPOLL_CTL_ADD, producer.signals, EPOLLIN);
}

int producer_run(const char *socket, void (*log)(const char *line))
{
    producer.write = log;
    producer.link.log = log_line;
    producer.pause_ms = RETRY_MS_MIN;
    producer.socket = tracing_socket_choose(TRACING_PRODUCER_PORT, socket);
    int code = open_loop();
    if (code < 0) {
        log_line("cannot set up the event loop: %s", strerror(-code));
        return 1;
    }
    while (producer_step(UINT64_MAX)) {
    }
    producer_finish();
    service_link_close(&producer.link);
    socket_watch_close(&producer.watch);
    close(producer.epoll);
    close(producer.signals);
    return 0;
}
