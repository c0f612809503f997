/* SPDX-License-Identifier: Apache-2.0 */
/* Each phase of the session is a function; the messages are service_messages.c's. */
#include "tools/cli/record/service/service_session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recorder/tracing/consumer/consumer.h"
#include "recorder/tracing/consumer/snapshots.h"
#include "tools/cli/record/end_signals.h"
#include "tools/cli/record/record_session.h"
#include "tools/cli/record/service/service_messages.h"
#include "tools/print/format.h"
#include "util/clock.h"
#include "util/output_file.h"

/* Saves snapshots of a session of the tracing service: TRACE.0, TRACE.1, ... Each has a connection
 * of its own, which ends with it. */

struct service_snapshots {
    struct snapshots snapshots;
    const char *trace_path;
    unsigned count; /* saved */
    bool quiet;
};

static int save_one(struct service_snapshots *snapshots, const struct session_config *config,
                    const struct snapshot_due *due, struct consumer *consumer, struct error *error)
{
    char path[PATH_MAX];
    struct output_file file;
    int length = snprintf(path, sizeof(path), "%s.%u", snapshots->trace_path, snapshots->count);
    if (length >= (int)sizeof(path))
        return error_set(error, -ENAMETOOLONG, "%s: the name is too long", snapshots->trace_path);
    int code = snapshots_clone(due, consumer, error);
    if (code == 0)
        code = output_file_open(&file, path, 0, error);
    if (code < 0)
        return code;
    code = consumer_read(consumer, config, file.fd, error);
    code = output_file_close(&file, code, error);
    if (code < 0)
        return code;
    snapshots->count++;
    if (!snapshots->quiet)
        format_printf(stderr, "Trigger '%s': trace in %s\n", due->trigger, path);
    return 0;
}

/* Save each snapshot that is due. Return 0, or a negative errno with a message. */
static int service_snapshots_save(struct service_snapshots *snapshots,
                                  const struct session_config *config,
                                  const struct tracing_socket *socket,
                                  const struct consumer_user *user, struct error *error)
{
    struct snapshot_due due;
    int code = 0;
    while (code == 0 && snapshots_take(&snapshots->snapshots, &due)) {
        struct consumer consumer;
        code = consumer_open(&consumer, socket, user, error);
        if (code == 0)
            code = save_one(snapshots, config, &due, &consumer, error);
        consumer_close(&consumer);
    }
    return code;
}

/* Time after a session's end by its configuration until it counts as lost. */
#define LATE_MS 10000

struct service_run {
    const struct service_session *session;
    struct session_config config;
    struct consumer consumer;
    struct consumer_user user;
    struct tracing_socket socket;
    struct service_snapshots snapshots;
    unsigned requests_allowed; /* a request of the user beyond these ends the present wait */
    bool shows_progress;
    bool takes_snapshots;     /* by triggers: there is no other trace */
    bool waits_for_snapshots; /* one that is due interrupts the present wait */
    uint64_t start_ms;
    struct output output;
    int trace_fd; /* -1: the service writes to a path of its own */
    bool recorded;
    bool failed; /* the trace has only what came before */
};

/* --- options --- */

bool take_service(void *member, const char *name, const char *value)
{
    (void)name;
    (void)value;
    ((struct service_options *)member)->is_wanted = true;
    return true;
}

bool take_detach(void *member, const char *name, const char *value)
{
    struct service_options *options = member;
    if (value[0] == '\0') {
        format_printf(stderr, "heap_profile: --%s needs a key: any text\n", name);
        return false;
    }
    options->is_wanted = true;
    options->detach_key = value;
    return true;
}

/* --- the user --- */

static bool interrupts(void *context)
{
    const struct service_run *run = context;
    bool dump = false;
    end_signals_read(run->user.wake_fd, &dump);
    if (dump)
        service_tell_no_dump();
    return end_signals_count() > run->requests_allowed ||
           (run->waits_for_snapshots && run->snapshots.snapshots.due_count > 0);
}

static void tick(void *context)
{
    struct service_run *run = context;
    consumer_request_stats(&run->consumer);
    service_show_progress(&run->config, &run->consumer.stats,
                          clock_read_ms(CLOCK_MONOTONIC) - run->start_ms);
}

/* --- before the start --- */

static int read_config(struct service_run *run, struct error *error)
{
    const struct service_session *session = run->session;
    int code = session->config_is_text ? session_config_read_text(&run->config, session->config,
                                                                  session->config_length, error)
                                       : session_config_read_binary(&run->config, session->config,
                                                                    session->config_length, error);
    if (code == 0 && run->config.fields->n_data_sources == 0) {
        code = error_set(error, -EINVAL,
                         "there are no data_sources in this configuration, so nothing would be "
                         "recorded");
        session_config_clear(&run->config);
    }
    if (code == 0)
        return 0;
    if (session->config_name != NULL)
        format_printf(stderr, "heap_profile: %s: %s\n", session->config_name, error->message);
    else
        verb_fail(error);
    return code;
}

/* A detached session that does not write into a file has its trace only while it runs. */
static int check_detach(const struct service_run *run)
{
    const struct service_session *session = run->session;
    if (session->detach_key == NULL || run->config.fields->write_into_file)
        return 0;
    const char *wrong = NULL;
    if (session_config_duration_ms(&run->config) > 0)
        wrong = "the tracing service drops the trace when the session ends; set write_into_file: "
                "true, or leave out the duration";
    else if (session->output != NULL || session->trace_path != NULL)
        wrong = "the trace is written by --attach KEY --stop, which takes -o; set write_into_file: "
                "true, or leave out -o here";
    if (wrong == NULL)
        return 0;
    format_printf(
        stderr, "heap_profile: --detach without write_into_file in the configuration: %s\n", wrong);
    return -EINVAL;
}

/* There may be any number of snapshots: they need names. */
static int check_snapshots(struct service_run *run)
{
    const struct service_session *session = run->session;
    run->takes_snapshots =
        session_config_trigger_mode(&run->config) ==
        PERFETTO__PROTOS__TRACE_CONFIG__TRIGGER_CONFIG__TRIGGER_MODE__CLONE_SNAPSHOT;
    run->snapshots.trace_path = session->trace_path;
    run->snapshots.quiet = session->finish.quiet;
    if (!run->takes_snapshots || (session->trace_path != NULL && session->detach_key == NULL))
        return 0;
    fputs("heap_profile: with CLONE_SNAPSHOT give -o TRACE, and not --detach: the snapshots become "
          "TRACE.0, TRACE.1, ...\n",
          stderr);
    return -EINVAL;
}

static int open_trace(struct service_run *run, struct error *error)
{
    const struct service_session *session = run->session;
    bool is_left = session->detach_key != NULL && !run->config.fields->write_into_file;
    if (is_left || run->takes_snapshots ||
        (run->config.fields->write_into_file && run->config.fields->output_path != NULL))
        return 0;
    if (session->trace_path == NULL) {
        int code = output_create(&run->output, session->output, error);
        run->trace_fd = code < 0 ? code : output_open_trace(&run->output, error);
    } else {
        struct output_file file;
        int code = output_file_open(&file, session->trace_path, OUTPUT_FILE_AT_ONCE, error);
        run->trace_fd = code < 0 ? code : file.fd;
    }
    return run->trace_fd < 0 ? run->trace_fd : 0;
}

/* --- the session --- */

/* Wait for the end, and save the snapshots that become due until then. */
static int wait_and_save(struct service_run *run, uint64_t deadline_ms, struct error *error)
{
    int code;
    do {
        run->waits_for_snapshots = run->takes_snapshots;
        code = consumer_wait_for_end(&run->consumer, deadline_ms, error);
        run->waits_for_snapshots = false;
        if (code < 0 || run->snapshots.snapshots.due_count == 0)
            return code;
        service_end_progress();
        code =
            service_snapshots_save(&run->snapshots, &run->config, &run->socket, &run->user, error);
    } while (code == 0);
    return code;
}

/* Wait for the end, by the configuration or by the user. */
static int wait_for_end(struct service_run *run, struct error *error)
{
    uint64_t duration_ms = session_config_duration_ms(&run->config);
    uint64_t stop_ms = session_config_stop_ms(&run->config);
    uint64_t deadline_ms =
        duration_ms == 0 ? UINT64_MAX : run->start_ms + duration_ms + stop_ms + LATE_MS;
    int code = run->session->stops ? 1 : wait_and_save(run, deadline_ms, error);
    /* From here on only a second request ends a wait. */
    run->requests_allowed =
        end_signals_count() > 0 || run->session->stops ? end_signals_count() : 1;
    if (code <= 0)
        return code;
    bool flushed = true;
    service_tell_ending();
    code = consumer_stop(&run->consumer, stop_ms, &flushed, error);
    if (code == 0 && !flushed)
        service_tell_not_flushed();
    return code;
}

/* Read what the service did not write itself, its statistics, and end the session there. */
static int collect(struct service_run *run, struct error *error)
{
    int code = 0;
    if (run->config.fields->write_into_file)
        code = consumer_check_written(run->trace_fd, error);
    else if (!run->takes_snapshots)
        code = consumer_read(&run->consumer, &run->config, run->trace_fd, error);
    if (code == 0)
        code = consumer_read_stats(&run->consumer, error);
    if (code == 0)
        service_tell_losses(&run->consumer.stats);
    if (code == 0)
        consumer_free_buffers(&run->consumer);
    return code;
}

static int service_session_start(struct service_run *run, struct error *error)
{
    int code = service_check_sources(&run->consumer, &run->config, error);
    if (code == 0)
        code = open_trace(run, error);
    if (code == 0 && run->takes_snapshots)
        code = snapshots_observe(&run->snapshots.snapshots, &run->consumer, error);
    if (code == 0)
        code = consumer_enable(&run->consumer, &run->config, run->trace_fd, error);
    run->start_ms = clock_read_ms(CLOCK_MONOTONIC);
    return code;
}

static int attach(struct service_run *run, struct error *error)
{
    int code = consumer_attach(&run->consumer, run->session->attach_key, &run->config, error);
    if (code == 0 && !run->config.fields->write_into_file)
        code = open_trace(run, error);
    run->start_ms = clock_read_ms(CLOCK_MONOTONIC);
    return code;
}

static int record(struct service_run *run, struct error *error)
{
    const struct service_session *session = run->session;
    run->socket = tracing_socket_choose(TRACING_CONSUMER_PORT, NULL);
    int code = consumer_open(&run->consumer, &run->socket, &run->user, error);
    if (code == 0)
        code = session->attach_key != NULL ? attach(run, error) : service_session_start(run, error);
    if (code == 0 && session->detach_key != NULL)
        return consumer_detach(&run->consumer, session->detach_key, error);
    if (code == 0) {
        run->recorded = true;
        if (!session->finish.quiet && !session->stops)
            service_tell_started(&run->config, run->socket.name);
        code = wait_for_end(run, error);
    }
    return code == 0 ? collect(run, error) : code;
}

/* --- after the end --- */

/* What the service itself writes into a pipe is not known, and taken for a trace. */
static bool wrote_trace(const struct service_run *run)
{
    struct stat status;
    if (run->trace_fd < 0 || fstat(run->trace_fd, &status) < 0)
        return false;
    if (S_ISREG(status.st_mode))
        return status.st_size > 0;
    return run->consumer.bytes_read > 0 || (run->recorded && run->config.fields->write_into_file);
}

/* Remove what was made for a trace that did not come. The user's path may be a device. */
static void discard_empty(struct service_run *run)
{
    const char *path = run->session->trace_path;
    struct stat ours, named;
    if (path == NULL)
        output_discard(&run->output);
    else if (fstat(run->trace_fd, &ours) == 0 && lstat(path, &named) == 0 &&
             S_ISREG(named.st_mode) && named.st_size == 0 && named.st_ino == ours.st_ino &&
             named.st_dev == ours.st_dev)
        unlink(path);
}

/* Return the exit code for a number of profiled heaps, or an error. */
static int judge_profiled(const struct service_run *run, int profiled, const struct error *error)
{
    if (profiled > 0)
        return RECORD_SESSION_DONE;
    if (profiled < 0)
        verb_fail(error);
    else if (!run->failed)
        service_tell_nothing_profiled();
    return profiled < 0 || session_config_names_pids(&run->config) ? RECORD_SESSION_FAILED
                                                                   : RECORD_SESSION_EMPTY;
}

/* Write the files beside the trace, and return the exit code. */
static int finish_directory(struct service_run *run, bool has_heaps)
{
    struct error error = {0};
    if (!has_heaps) {
        service_tell_trace(run->output.trace);
        return RECORD_SESSION_DONE;
    }
    int profiled = finish_profile(&run->output, &run->session->finish, &error);
    if (profiled > 0)
        output_publish(&run->output); /* else the link stays on the latest profile with data */
    return judge_profiled(run, profiled, &error);
}

static int finish_trace(const struct service_run *run, bool has_heaps)
{
    const char *trace = run->session->trace_path;
    struct error error = {0};
    struct stat status;
    bool can_be_read = fstat(run->trace_fd, &status) == 0 && S_ISREG(status.st_mode);
    if (can_be_read)
        service_tell_trace(trace);
    if (!can_be_read || !has_heaps)
        return RECORD_SESSION_DONE;
    int profiled = finish_profile_count(trace, run->session->finish.quiet, &error);
    if (profiled > 0)
        output_publish_trace(trace);
    return judge_profiled(run, profiled, &error);
}

static int service_session_finish(struct service_run *run)
{
    const struct service_session *session = run->session;
    if (run->takes_snapshots) {
        if (run->snapshots.snapshots.missed > 0)
            service_tell_missed(run->snapshots.snapshots.missed);
        return run->snapshots.count > 0 || !service_tell_empty(&run->config) ? RECORD_SESSION_DONE
                                                                             : RECORD_SESSION_EMPTY;
    }
    if (run->trace_fd < 0) {
        if (run->config.fields != NULL && !session->finish.quiet)
            service_tell_written(&run->config);
        return RECORD_SESSION_DONE;
    }
    if (!wrote_trace(run)) {
        discard_empty(run);
        return service_tell_empty(&run->config) ? RECORD_SESSION_EMPTY : RECORD_SESSION_FAILED;
    }
    bool has_heaps = session_config_has_heaps(&run->config);
    return session->trace_path == NULL ? finish_directory(run, has_heaps)
                                       : finish_trace(run, has_heaps);
}

/* After a failure keep what was read: it is a readable trace. */
static int finish_failed(struct service_run *run, const struct error *error)
{
    run->failed = true;
    service_tell_failed(error, wrote_trace(run));
    if (run->recorded && wrote_trace(run))
        service_session_finish(run);
    else if (run->trace_fd >= 0)
        discard_empty(run);
    return RECORD_SESSION_FAILED;
}

int service_session_run(const struct service_session *session)
{
    struct error error = {0};
    struct service_run run = {.session = session, .trace_fd = -1};
    if (session->config != NULL && read_config(&run, &error) < 0)
        return RECORD_SESSION_USAGE;
    if (session->config != NULL && (check_detach(&run) < 0 || check_snapshots(&run) < 0)) {
        session_config_clear(&run.config);
        return RECORD_SESSION_USAGE;
    }
    /* The trace may show all processes of the machine: its files are for their owner. */
    umask(077);
    run.shows_progress = service_messages_begin(session->finish.quiet);
    int signals = end_signals_take(false);
    run.user = (struct consumer_user){.wake_fd = signals,
                                      .interrupts = interrupts,
                                      .tick = run.shows_progress ? tick : NULL,
                                      .context = &run};
    int code = record(&run, &error);
    consumer_close(&run.consumer);
    end_signals_restore(end_signals_count() > 0);
    service_end_progress();
    int exit_code;
    if (code < 0)
        exit_code = finish_failed(&run, &error);
    else if (session->detach_key != NULL)
        exit_code = service_tell_detached(
            session->detach_key, &run.config,
            session->trace_path == NULL && run.trace_fd >= 0 ? run.output.trace : NULL);
    else
        exit_code = service_session_finish(&run);
    if (run.trace_fd >= 0)
        close(run.trace_fd);
    if (run.config.fields != NULL)
        session_config_clear(&run.config);
    return exit_code;
}
