/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop, and the way of a dump to the sinks. */
#include "production/continuous/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "production/continuous/cost_control.h"
#include "production/continuous/describe_periods.h"
#include "production/continuous/names.h"
#include "production/continuous/outputs.h"
#include "production/continuous/own_cost.h"
#include "production/continuous/periods.h"
#include "production/continuous/programs.h"
#include "production/continuous/reload.h"
#include "production/continuous/session_link.h"
#include "profile/builder/profile_read.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/event_loop.h"
#include "util/safe_directory.h"
#include "util/terminal_text.h"

/*
 * When the collector last gave a dump to the sinks, in a file of the spool directory, so that the
 * next one knows what was lost if this one was killed.
 */

#define FILE_NAME "last-dump"
#define NEW_NAME "last-dump.new"

/* Return the time of the last dump, ns since 1970; 0: unknown. */
static int64_t last_dump_read(const char *directory)
{
    char text[32] = "";
    int parent = safe_directory_open(directory, NULL);
    int fd = parent < 0 ? -1 : openat(parent, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        ssize_t length = read(fd, text, sizeof(text) - 1);
        text[length > 0 ? length : 0] = '\0';
        close(fd);
    }
    if (parent >= 0)
        close(parent);
    long long time_ns = strtoll(text, NULL, 10);
    return time_ns > 0 ? (int64_t)time_ns : 0;
}

/* Return 0 or a negative errno with a message. */
static int last_dump_write(const char *directory, int64_t time_ns, struct error *error)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%lld\n", (long long)time_ns);
    int parent = safe_directory_make(directory, error);
    if (parent < 0)
        return parent;
    int fd = openat(parent, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int code = fd < 0 ? -errno : 0;
    if (fd >= 0 && write(fd, text, (size_t)length) != length)
        code = -EIO;
    if (fd >= 0)
        close(fd);
    if (code == 0 && renameat(parent, NEW_NAME, parent, FILE_NAME) < 0)
        code = -errno;
    close(parent);
    return code < 0 ? error_set(error, code, "cannot write %s/" FILE_NAME ": %s", directory,
                                strerror(-code))
                    : 0;
}

#define COST_PERIOD_MS 10000u
#define EVENTS_AT_ONCE 16
/* The last dumps and their names may take this long after a signal; then the sinks. */
#define END_MS 6000u
#define SINKS_PATIENCE_MS 2000u

enum fragment_state { FRAGMENT_NONE, FRAGMENT_NAMING };

static struct collector {
    const struct collector_options *options;
    struct collector_config *config;
    int epoll, signals;
    struct session_link link;
    int watched_daemon, watched_pipe; /* in the epoll; -1: no more */
    struct programs programs;
    struct names names;
    struct periods *periods;
    struct outputs outputs;
    enum fragment_state fragment_state;
    int fragment;
    bool fragment_is_cut;
    uint64_t dump_ms, cost_ms; /* when each is due, CLOCK_MONOTONIC */
    bool dump_waits;           /* it is due, and the processor time for it is used up */
    bool must_reload;
    bool begins_anew; /* the session ends, and another one begins after it */
    bool is_ending, is_over;
    uint64_t end_ms; /* latest end; UINT64_MAX: none */
    int exit_status;
    pid_t session_pid;
    uint64_t session_began_ms; /* CLOCK_MONOTONIC; 0: unknown yet */
    struct own_cost cost;
    struct cost_control cost_control;
    struct collector_status status;
} collector;

__attribute__((format(printf, 1, 2))) static void log_line(const char *format, ...)
{
    char line[640], shown[1280];
    va_list arguments;
    int length = snprintf(line, sizeof(line), "collector: ");
    va_start(arguments, format);
    vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
    va_end(arguments);
    terminal_text_escape(line, false, shown, sizeof(shown));
    collector.options->log(shown);
}

static int64_t realtime_ns(void)
{
    return (int64_t)clock_read_ns(CLOCK_REALTIME);
}

/* --- from a fragment to the sinks --- */

static void send_periods(struct period *periods, size_t count)
{
    struct period_label *labels = describe_periods(&collector.programs, periods, count);
    struct error error;
    if (labels == NULL) {
        collector.status.dumps_lost++;
        return;
    }
    outputs_put(&collector.outputs, periods, count);
    free(labels);
    collector.status.dumps_taken++;
    if (last_dump_write(collector.config->spool, realtime_ns(), &error) < 0)
        log_line("%s", error.message);
}

static void take_profile(const struct profile *profile)
{
    size_t count;
    describe_processes(&collector.programs, profile);
    struct period *periods =
        periods_make(collector.periods, profile, profile->boottime_to_realtime_ns, &count,
                     &collector.status.dumps_lost);
    if (periods == NULL) {
        collector.status.dumps_lost++;
        log_line("no memory for the periods of a dump");
        return;
    }
    send_periods(periods, count);
    outputs_note(&collector.outputs);
    programs_forget_ended(&collector.programs);
}

static void end_fragment(void)
{
    close(collector.fragment);
    collector.fragment = -1;
    collector.fragment_state = FRAGMENT_NONE;
    malloc_trim(0);
}

/* The names are there: read the fragment as a profile. */
static void finish_fragment(void)
{
    char path[32];
    struct error error;
    if (collector.config->symbols != COLLECTOR_SYMBOLS_OFF &&
        names_finish(&collector.names, collector.fragment, &error) < 0)
        log_line("%s", error.message);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", collector.fragment);
    struct profile *profile = profile_read(path, NULL, &error);
    if (profile == NULL) {
        log_line("a dump cannot be read: %s", error.message);
        collector.status.dumps_lost++;
    } else {
        take_profile(profile);
        profile_free(profile);
    }
    end_fragment();
}

/* Begin with a complete fragment. */
static void take_fragment(void)
{
    struct error error;
    collector.fragment = session_link_take_fragment(&collector.link, &collector.fragment_is_cut);
    if (collector.fragment < 0)
        return;
    if (collector.fragment_is_cut) {
        log_line("a dump is larger than half the bound of memory: it is dropped, and its "
                 "allocations are in the next one");
        collector.status.dumps_lost++;
        end_fragment();
        return;
    }
    collector.fragment_state = FRAGMENT_NAMING;
    int code = collector.config->symbols == COLLECTOR_SYMBOLS_OFF
                   ? 0
                   : names_begin(&collector.names, collector.fragment, &error);
    if (code < 0)
        log_line("the addresses of a dump cannot be named: %s", error.message);
    if (code == 1 &&
        event_loop_watch(collector.epoll, EPOLL_CTL_ADD, collector.names.pidfd, EPOLLIN) == 0)
        return;
    finish_fragment();
}

/* --- from the session --- */

static void take_progress(void *context, const Heapprofd__ControlSession *session)
{
    (void)context;
    struct error error;
    collector.session_pid = session->pid;
    programs_take_progress(&collector.programs, session);
    /* By the session's clock: when this process had to wait, several reports are read at once. */
    if (collector.session_began_ms == 0)
        collector.session_began_ms = clock_read_ms(CLOCK_MONOTONIC) - session->elapsed_ms;
    programs_step(&collector.programs, collector.session_began_ms + session->elapsed_ms);
    for (size_t i = 0; i < collector.programs.process_count; i++) {
        struct known_process *process = &collector.programs.processes[i];
        const struct program *program = programs_of(&collector.programs, process);
        uint64_t wanted_bytes = programs_interval_of(program);
        if (!process->is_there)
            continue;
        if (program->left_out[0] != '\0') {
            session_link_leave(&collector.link, process->pid, &error);
        } else if (wanted_bytes != 0 && wanted_bytes != process->asked_bytes &&
                   process->interval_bytes != 0 &&
                   session_link_set_interval(&collector.link, process->pid, wanted_bytes, &error) ==
                       0) {
            process->asked_bytes = wanted_bytes;
        }
    }
}

static void take_refused(void *context, const Heapprofd__ControlReply__Refused *refused)
{
    (void)context;
    programs_take_refused(&collector.programs, refused->pid,
                          refused->name != NULL ? refused->name : "",
                          refused->reason != NULL ? refused->reason : "");
}

static void take_lent(void *context, const Heapprofd__ControlReply__Lent *lent)
{
    const char *whose = lent->whose != NULL ? lent->whose : "";
    const char *name = lent->name != NULL ? lent->name : "";
    (void)context;
    programs_take_lent(&collector.programs, lent->pid, name, whose);
    log_line("process %d (%s) is lent to another session, %s, until that ends", (int)lent->pid,
             name, whose);
}

static void take_dump(void *context)
{
    (void)context;
    take_fragment();
}

static const struct session_link_user link_user = {
    .progress = take_progress, .refused = take_refused, .lent = take_lent, .dumped = take_dump};

/* Stop watching what the link has closed. (A closed descriptor leaves the epoll by itself.) */
static void note_closed(void)
{
    if (collector.link.daemon < 0)
        collector.watched_daemon = -1;
    if (collector.link.pipe < 0)
        collector.watched_pipe = -1;
}

static int open_session(struct error *error)
{
    struct session_link *link = &collector.link;
    int code = session_link_open(link, collector.config, &link_user, error);
    if (code < 0)
        return code;
    collector.watched_daemon = link->daemon;
    collector.watched_pipe = link->pipe;
    code = event_loop_watch(collector.epoll, EPOLL_CTL_ADD, link->daemon, EPOLLIN);
    if (code == 0)
        code = event_loop_watch(collector.epoll, EPOLL_CTL_ADD, link->pipe, EPOLLIN);
    return code < 0 ? error_set(error, code, "cannot wait for the session: %s", strerror(-code))
                    : 0;
}

/* Begin another session: the configuration has changed in what a session cannot change. */
static void begin_anew(void)
{
    struct error error = {0};
    collector.begins_anew = false;
    collector.session_began_ms = 0;
    session_link_close(&collector.link);
    programs_begin_anew(&collector.programs);
    if (open_session(&error) == 0)
        return;
    log_line("%s", error.message);
    collector.exit_status = 1;
    collector.is_over = true;
}

/* The session has ended: take its last dumps. */
static void finish_session(void)
{
    if (collector.fragment_state == FRAGMENT_NONE)
        take_fragment();
    if (collector.fragment_state != FRAGMENT_NONE)
        return;
    if (collector.begins_anew && !collector.is_ending)
        begin_anew();
    else
        collector.is_over = true;
}

static void serve_link(void)
{
    struct error error = {0};
    if (session_link_serve(&collector.link, &error) < 0) {
        log_line("%s", error.message);
        collector.exit_status = 1;
    }
    note_closed();
    collector.is_ending |= collector.link.daemon < 0 && !collector.begins_anew;
}

/* --- what is due --- */

static void measure_cost(uint64_t now_ms)
{
    const struct collector_config *config = collector.config;
    struct cost_control *control = &collector.cost_control;
    char reason[160];
    own_cost_measure(&collector.cost, collector.session_pid, now_ms);
    uint64_t since_ms = collector.cost_ms;
    collector.cost_ms = now_ms + COST_PERIOD_MS;
    if (since_ms > 0)
        cost_control_spend(control, collector.cost.used_s,
                           (double)(collector.cost_ms - since_ms) / 1000, config->cpu_share);
    const struct programs_cost_shares shares = programs_cost_shares(&collector.programs);
    const struct cost_seen seen = {
        .cpu_share = collector.cost.cpu_share,
        .cpu_bound = config->cpu_share,
        .memory_bytes = collector.cost.memory_bytes,
        .memory_bound = config->memory_bytes,
        .share = shares.of_user,
        .least_share = shares.least,
    };
    enum cost_verdict verdict = cost_control_step(control, &seen, now_ms);
    const char *what = control->is_memory ? "memory" : "processor time";
    if (verdict == COST_LESS) {
        log_line("the daemon's %s is above its bound: programs of user %s, which have most "
                 "samples, may take %.3g of theirs",
                 what, shares.user, shares.of_user / 2);
        programs_scale_cost(&collector.programs, shares.user, 0.5);
    }
    if (verdict == COST_MORE) {
        programs_scale_cost(&collector.programs, NULL, COST_GROWTH);
        log_line("the daemon is below its bounds: programs may take %.3g of their samples or more",
                 fmin(shares.least * COST_GROWTH, 1));
    }
    if (verdict != COST_LEAVE_OUT)
        return;
    snprintf(reason, sizeof(reason),
             "left out: the daemon's %s is above its bound (%s in [continuous])", what,
             control->is_memory ? "memory" : "cpu");
    const char *name = programs_leave_out(&collector.programs, reason);
    if (name != NULL)
        log_line("%s is %s", name, reason);
}

static void dump_if_due(uint64_t now_ms)
{
    struct error error;
    const struct collector_config *config = collector.config;
    bool is_due = now_ms >= collector.dump_ms && !collector.is_ending && collector.link.id != 0;
    double late_periods = (double)(now_ms - collector.dump_ms) / (double)config->period_ms;
    bool waits =
        is_due && !cost_control_may_dump(&collector.cost_control, config->cpu_share, late_periods);
    if (waits && !collector.dump_waits)
        log_line("the daemon's processor time is above its bound: the dump waits");
    collector.dump_waits = waits;
    if (!is_due || waits)
        return;
    /* One dump after the other, in step with the clock. */
    while (collector.dump_ms <= now_ms)
        collector.dump_ms += collector.config->period_ms;
    if (collector.fragment_state != FRAGMENT_NONE || collector.link.awaits_dump) {
        log_line("the last dump is still being read: one is left out, its allocations are in the "
                 "next one");
        return;
    }
    if (session_link_dump(&collector.link, &error) < 0)
        log_line("%s", error.message);
}

/* Return the time until something is due in ms. */
static int do_due(void)
{
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    dump_if_due(now_ms);
    if (now_ms >= collector.cost_ms)
        measure_cost(now_ms);
    uint64_t next_ms = clock_earlier(now_ms + outputs_work(&collector.outputs), collector.cost_ms);
    next_ms = clock_earlier(next_ms, collector.end_ms);
    if (!collector.is_ending && !collector.dump_waits)
        next_ms = clock_earlier(next_ms, collector.dump_ms);
    return event_loop_timeout(now_ms, next_ms);
}

static void begin_end(void)
{
    struct error error;
    if (collector.end_ms != UINT64_MAX)
        return;
    collector.is_ending = true;
    collector.end_ms = clock_read_ms(CLOCK_MONOTONIC) + END_MS;
    /* The daemon may end the session at the same time. */
    session_link_stop(&collector.link, &error);
}

/* --- another configuration --- */

/* Replace the configuration. Afterwards *next is the old one. */
static int apply(struct collector_config *next, struct error *error)
{
    struct reload_changes changes = reload_compare(collector.config, next);
    struct collector_config old = *collector.config;
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    int code = outputs_change(&collector.outputs, collector.config, next, &changes, error);
    if (code == -EPIPE) {
        collector.exit_status = 1;
        begin_end();
    }
    if (code < 0)
        return code;
    *collector.config = *next;
    *next = old;
    programs_reload(&collector.programs);
    collector.names.asks_servers = collector.config->symbols == COLLECTOR_SYMBOLS_ALL;
    collector.dump_ms = clock_earlier(collector.dump_ms, now_ms + collector.config->period_ms);
    if (!changes.session)
        return session_link_change_rules(&collector.link, collector.config, error);
    log_line("the session begins anew with another ring, interval or limit: live memory counts "
             "from zero");
    collector.begins_anew = true;
    return session_link_stop(&collector.link, error);
}

/* Read the configuration anew. With a mistake the old one stays. */
static void reload(void)
{
    struct error error = {0};
    struct collector_config next;
    collector.must_reload = false;
    int code = collector_config_read(&next, collector.options->file, &error);
    if (code == 0) {
        log_line("%s has no section [continuous] any more: continuous mode ends",
                 collector.options->file);
        collector.exit_status = COLLECTOR_EXIT_CONFIG;
        begin_end();
    } else if (code < 0 || reload_check(&next, &error) < 0 || apply(&next, &error) < 0) {
        log_line("the old configuration stays: %s", error.message);
    } else {
        log_line("%s was read anew: %zu sections [program]", collector.options->file,
                 collector.config->program_count);
    }
    collector_config_clear(&next);
}

/* --- events --- */

static void take_signals(void)
{
    struct signalfd_siginfo info;
    while (read(collector.signals, &info, sizeof(info)) > 0) {
        if (info.ssi_signo == SIGHUP)
            collector.must_reload = true;
        else
            begin_end();
    }
}

static void handle(int fd)
{
    if (fd == collector.signals)
        take_signals();
    else if (fd == collector.watched_daemon || fd == collector.watched_pipe)
        serve_link();
    else if (collector.fragment_state == FRAGMENT_NAMING && fd == collector.names.pidfd)
        finish_fragment();
}

static void collector_step(void)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    /* A dump is read by one configuration. */
    if (collector.must_reload && collector.fragment_state == FRAGMENT_NONE &&
        collector.link.id != 0 && !collector.is_ending && !collector.begins_anew)
        reload();
    int timeout_ms = do_due();
    int count = epoll_wait(collector.epoll, events, EVENTS_AT_ONCE, timeout_ms);
    for (int i = 0; i < count; i++)
        handle(events[i].data.fd);
    if (collector.fragment_state == FRAGMENT_NAMING && names_is_stuck(&collector.names)) {
        log_line("a file does not let itself be read: its names are left out");
        finish_fragment();
    }
    bool session_ended = collector.link.daemon < 0 && collector.link.pipe < 0;
    if (session_ended)
        finish_session();
    if (clock_read_ms(CLOCK_MONOTONIC) >= collector.end_ms && !collector.is_over) {
        log_line("the last dump was not complete in time: it is lost");
        collector.status.dumps_lost++;
        collector.is_over = true;
    }
}

/* --- status --- */

static void fill_status(void *context, struct collector_status *status)
{
    const struct collector_config *config = collector.config;
    (void)context;
    *status = collector.status;
    status->period_ms = config->period_ms;
    status->budget = (struct collector_budget){
        .samples_per_hour = config->program_count > 0 ? config->programs[0].samples_per_hour : NAN,
        .cpu_share = config->cpu_share > 0 ? config->cpu_share : (double)NAN,
        .memory_bytes = config->memory_bytes > 0 ? config->memory_bytes : COLLECTOR_UNKNOWN,
    };
    status->programs = programs_status(&collector.programs, &status->program_count);
    outputs_fill_status(&collector.outputs, status);
    status->cpu_seconds = collector.cost.cpu_seconds;
    status->cpu_share = collector.cost.cpu_share;
    status->memory_bytes = collector.cost.memory_bytes;
}

/* --- life --- */

static int open_loop(void)
{
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGHUP);
    sigprocmask(SIG_BLOCK, &ours, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    collector.signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    collector.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (collector.signals < 0 || collector.epoll < 0)
        return -errno;
    return event_loop_watch(collector.epoll, EPOLL_CTL_ADD, collector.signals, EPOLLIN);
}

static void note_gap(void)
{
    int64_t last_ns = last_dump_read(collector.config->spool);
    collector.status.started_ns = realtime_ns();
    collector.status.gap_ms = -1;
    if (last_ns == 0 || last_ns > collector.status.started_ns)
        return;
    collector.status.gap_ms = (collector.status.started_ns - last_ns) / 1000000;
    log_line("the last dump was %.1f s before this start: what was allocated since is in no period",
             (double)collector.status.gap_ms / 1000);
}

static int open_all(struct error *error)
{
    int code = open_loop();
    if (code < 0)
        return error_set(error, code, "cannot set up the event loop: %s", strerror(-code));
    collector.periods = periods_new();
    if (collector.periods == NULL)
        return error_set(error, -ENOMEM, "no memory");
    collector.outputs = (struct outputs){
        .prints = collector.options->prints, .epoll = collector.epoll, .status = fill_status};
    code = outputs_open(&collector.outputs, collector.config, error);
    if (code < 0)
        return code;
    if (!collector.options->prints && settings_check_used(&collector.config->settings, error) < 0)
        return error->code;
    return open_session(error);
}

static void close_all(void)
{
    session_link_close(&collector.link);
    outputs_close(&collector.outputs, SINKS_PATIENCE_MS);
    names_clear(&collector.names);
    periods_free(collector.periods);
    programs_clear(&collector.programs);
    close(collector.epoll);
    close(collector.signals);
}

int collector_run(const struct collector_options *options)
{
    struct error error = {0};
    uint64_t now_ms = clock_read_ms(CLOCK_MONOTONIC);
    collector = (struct collector){
        .options = options,
        .config = options->config,
        .epoll = -1,
        .signals = -1,
        .link = {.daemon = -1, .pipe = -1, .fragment = -1},
        .fragment = -1,
        .dump_ms = now_ms + options->config->period_ms,
        .end_ms = UINT64_MAX,
    };
    programs_init(&collector.programs, options->config);
    names_init(&collector.names, options->config->symbols == COLLECTOR_SYMBOLS_ALL);
    cost_control_begin(&collector.cost_control, now_ms);
    collector.exit_status = 0;
    if (open_all(&error) < 0) {
        log_line("%s", error.message);
        close_all();
        return error.code == -EINVAL ? COLLECTOR_EXIT_CONFIG : 1;
    }
    note_gap();
    while (!collector.is_over)
        collector_step();
    close_all();
    return collector.exit_status;
}
