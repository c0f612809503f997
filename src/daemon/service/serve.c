/* SPDX-License-Identifier: Apache-2.0 */
/* Run the daemon with a log, signals and systemd's protocols. */
#include "daemon/service/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/service/control.h"
#include "util/priority.h"

/* The first descriptor that systemd passes. */
#define LISTEN_FD 3

/* Requests are answered in time on a loaded machine, too. */
#define SUPERVISOR_NICE -10

struct service {
    struct control control;
    int signals;
    bool over;
};

/* Log a line. Writing could block until the log is read, and the daemon must not wait. So lines
 * without room are left out and counted. */
static void log_line(const char *line)
{
    static unsigned left_out;
    char stamp[32] = "", remark[96] = "";
    struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&log, 1, 0) == 0) {
        left_out++;
        return;
    }
    time_t now = time(NULL);
    struct tm parts;
    /* The journal adds its own time. */
    if (getenv("JOURNAL_STREAM") == NULL && localtime_r(&now, &parts) != NULL)
        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S%z ", &parts);
    if (left_out > 0)
        snprintf(remark, sizeof(remark),
                 "heapprofd: %u lines were left out: the log was not read in time\n", left_out);
    left_out = 0;
    fprintf(stderr, "%s%sheapprofd: %s\n", remark, stamp, line);
}

/* Return the socket on which systemd listens for us, or -1. */
static int passed_listener(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    int listener = -1;
    if (pid != NULL && count != NULL && strtol(pid, NULL, 10) == getpid() &&
        strtol(count, NULL, 10) == 1) {
        listener = LISTEN_FD;
        fcntl(listener, F_SETFD, FD_CLOEXEC);
        fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) | O_NONBLOCK);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    return listener;
}

/* Report our state to the service manager that started us (sd_notify(3)). */
static void notify_service_manager(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') ||
        strlen(path) >= sizeof(address.sun_path))
        return;
    size_t length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

static void handle_readable(void *context, int fd)
{
    struct service *service = context;
    struct signalfd_siginfo info;
    if (fd != service->signals)
        return;
    while (read(fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGUSR1)
            control_snapshot_all(&service->control);
        else
            service->over = true;
    }
}

static int take_signals(void)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGUSR1);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    return signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Raise the limit of descriptors: each process needs about three. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int serve(void)
{
    static struct service service;
    struct error error = {0};
    char path[RUN_DIRECTORY_PATH_MAX], line[256];
    service.control.log.write = log_line;
    service.control.readable = handle_readable;
    service.control.context = &service;
    raise_descriptor_limit();
    if (run_directory_choose(path, &error) < 0 ||
        control_open(&service.control, path, passed_listener(), &error) < 0) {
        fprintf(stderr, "heapprofd: %s\n", error.message);
        return 1;
    }
    service.signals = take_signals();
    if (service.signals < 0 || control_watch(&service.control, service.signals) < 0) {
        fprintf(stderr, "heapprofd: cannot listen to signals: %s\n", strerror(errno));
        control_close(&service.control);
        return 1;
    }
    priority_raise(SUPERVISOR_NICE);
    snprintf(line, sizeof(line), "ready in %s, version %s", path, HEAPPROFD_VERSION);
    log_line(line);
    notify_service_manager("READY=1");
    while (!service.over)
        control_step(&service.control);
    notify_service_manager("STOPPING=1");
    control_close(&service.control);
    close(service.signals);
    log_line("ended");
    return 0;
}

int serve_prepare(void)
{
    struct error error = {0};
    char path[RUN_DIRECTORY_PATH_MAX];
    if (run_directory_choose(path, &error) == 0 && run_directory_prepare(path, &error) == 0)
        return 0;
    fprintf(stderr, "heapprofd: %s\n", error.message);
    return 1;
}
