/* SPDX-License-Identifier: Apache-2.0 */
/* Run the daemon with a log, signals and systemd's protocols. */
#include "recorder/service/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

#include "recorder/service/child_process.h"
#include "recorder/service/control.h"
#include "util/clock.h"
#include "util/priority.h"
#include "util/settings.h"

/* --- whether the daemon starts the collector of continuous mode, and where its program is --- */

#define PROGRAM "heapprofd_collector"
/* As in production/continuous/collector_config.h, which does not belong to the daemon. */
#define CONFIG_FILE "/etc/heapprofd.conf"
#define CONFIG_ENV "HEAPPROFD_CONFIG"
/* Set if a service manager starts the collector: heapprofd.service has no network. */
#define NO_COLLECTOR_ENV "HEAPPROFD_NO_COLLECTOR"

static bool find_program(char path[PATH_MAX])
{
    static const char *const places[] = {"", "/../libexec/heapprofd"};
    char own[PATH_MAX], candidate[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(candidate, sizeof(candidate), "%s%s/" PROGRAM, own, places[i]);
        if (access(candidate, X_OK) == 0 && realpath(candidate, path) != NULL)
            return true;
    }
    return false;
}

/* Return whether the configuration ($HEAPPROFD_CONFIG, else /etc/heapprofd.conf, with its drop-in
 * directory) has a section [continuous], and the program is there: beside this one as in a build,
 * or where it is installed; false if $HEAPPROFD_NO_COLLECTOR is set. A configuration that cannot be
 * read is for the collector to explain. `log` receives why the program is missing. */
static bool collector_process_is_wanted(char path[PATH_MAX], void (*log)(const char *line))
{
    struct settings settings = {0};
    struct error error;
    const char *file = getenv(CONFIG_ENV);
    char directory[PATH_MAX];
    bool is_named = file != NULL && *file != '\0';
    /* The machine's configuration is for the machine's daemon, not for those of users. */
    if ((!is_named && geteuid() != 0) || getenv(NO_COLLECTOR_ENV) != NULL)
        return false;
    if (!is_named)
        file = CONFIG_FILE;
    snprintf(directory, sizeof(directory), "%s.d", file);
    int code = settings_read(&settings, file, directory, &error);
    bool is_wanted =
        code < 0 ? code != -ENOENT : settings_next(&settings, "continuous", NULL) != NULL;
    settings_clear(&settings);
    if (is_wanted && !find_program(path)) {
        log("the configuration has a section [continuous], but " PROGRAM
            " is neither beside this program nor in ../libexec/heapprofd");
        return false;
    }
    return is_wanted;
}

/* The first descriptor that systemd passes. */
#define LISTEN_FD 3

/* Requests are answered in time on a loaded machine, too. */
#define SUPERVISOR_NICE -10

#define CHILDREN 2

struct service {
    struct control control;
    struct child_process children[CHILDREN]; /* the producer, and the collector */
    char collector_path[PATH_MAX], run_directory[RUN_DIRECTORY_PATH_MAX];
    int signals;
    bool over;
};

/* Writing could block until the log is read. So lines without room are left out and counted. */
void serve_log(const char *line)
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

/* Plan the start of the collector if the configuration wants one. */
static void choose_collector(struct service *service)
{
    struct child_process *collector = &service->children[1];
    if (!collector_process_is_wanted(service->collector_path, serve_log))
        return;
    *collector = (struct child_process){
        .name = "the collector",
        .arguments = {service->collector_path},
        .run_directory = service->run_directory,
        .log = serve_log,
    };
}

/* Read the configuration anew. A collector that runs reads its own part; one that could not, or was
 * not wanted, is tried again. */
static void reload(struct service *service)
{
    struct error error;
    char line[sizeof(error.message) + 64];
    struct child_process *collector = &service->children[1];
    if (control_reload(&service->control, &error) < 0) {
        snprintf(line, sizeof(line), "the old configuration stays: %s", error.message);
        serve_log(line);
    } else {
        serve_log("the configuration was read anew");
    }
    if (collector->pid > 0)
        kill(collector->pid, SIGHUP);
    else
        choose_collector(service);
}

static void handle_readable(void *context, int fd)
{
    struct service *service = context;
    struct signalfd_siginfo info;
    for (size_t i = 0; i < CHILDREN; i++) {
        if (service->children[i].pid > 0 && fd == service->children[i].pidfd)
            child_process_reap(&service->children[i]);
    }
    if (fd != service->signals)
        return;
    while (read(fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGUSR1)
            control_snapshot_all(&service->control);
        else if (info.ssi_signo == SIGHUP)
            reload(service);
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
    sigaddset(&ours, SIGHUP);
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

/* Start the children that are due, and wake up when the next one will be. */
static void keep_children(struct service *service)
{
    service->control.wake_ms = UINT64_MAX;
    for (size_t i = 0; i < CHILDREN; i++) {
        struct child_process *child = &service->children[i];
        int pidfd = child_process_start_if_due(child);
        if (pidfd >= 0)
            control_watch(&service->control, pidfd);
        if (child->name != NULL)
            service->control.wake_ms = clock_earlier(service->control.wake_ms, child->due_ms);
    }
}

/* Set up what the daemon starts beside the sessions. `socket`: as for serve(). */
static void choose_children(struct service *service, const char *socket)
{
    struct child_process *producer = &service->children[0];
    if (socket != NULL)
        *producer = (struct child_process){
            .name = "the producer",
            .arguments = {"/proc/self/exe", "--producer", socket[0] != 0 ? socket : NULL},
            .run_directory = service->run_directory,
            .log = serve_log,
        };
    choose_collector(service);
}

int serve(const char *producer)
{
    static struct service service;
    struct error error = {0};
    char line[256], *path = service.run_directory;
    service.control.log.write = serve_log;
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
    choose_children(&service, producer);
    priority_raise(SUPERVISOR_NICE);
    snprintf(line, sizeof(line), "ready in %s, version %s", path, HEAPPROFD_VERSION);
    serve_log(line);
    notify_service_manager("READY=1");
    while (!service.over) {
        keep_children(&service);
        control_step(&service.control);
    }
    notify_service_manager("STOPPING=1");
    control_close(&service.control);
    /* They pass on what the sessions wrote at their end. */
    for (size_t k = 0; k < CHILDREN; k++)
        child_process_end(&service.children[k]);
    close(service.signals);
    serve_log("ended");
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
