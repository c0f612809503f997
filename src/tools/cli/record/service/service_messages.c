/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences for people. */
#include "tools/cli/record/service/service_messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/options/options.h"
#include "tools/print/format.h"
#include "trace/config/trace_config.h"
#include "util/xmalloc.h"

static bool is_quiet, shows_progress;

typedef Perfetto__Protos__TraceConfig__TriggerConfig TriggerConfig;

bool service_messages_begin(bool quiet)
{
    is_quiet = quiet;
    shows_progress = !quiet && isatty(STDERR_FILENO);
    return shows_progress;
}

void service_end_progress(void)
{
    if (shows_progress)
        fputs("\r\033[K", stderr);
}

/* --- before the start --- */

static int check_source(const char *name, bool is_offered, const char *socket, struct error *error)
{
    if (is_offered)
        return 0;
    if (heap_config_is_source(name, strlen(name)))
        return error_set(error, -ENOENT,
                         "%s: no heapprofd is connected to the tracing service: start `heapprofd "
                         "--producer`, as root for the programs of all users",
                         socket);
    if (!is_quiet)
        format_printf(
            stderr, "heap_profile: warning: no producer offers the data source '%s' now%s\n", name,
            strncmp(name, "linux.", 6) == 0 ? "; traced_probes has those of Linux" : "");
    return 0;
}

int service_check_sources(struct consumer *consumer, const struct session_config *config,
                          struct error *error)
{
    size_t count = config->fields->n_data_sources;
    const char **names = xcalloc(count + 1, sizeof(*names));
    bool *found = xcalloc(count + 1, sizeof(*found));
    for (size_t i = 0; i < count; i++) {
        const Perfetto__Protos__DataSourceConfig *source = config->fields->data_sources[i]->config;
        names[i] = source != NULL && source->name != NULL ? source->name : "";
    }
    int code = consumer_find_sources(consumer, names, count, found, error);
    for (size_t i = 0; code == 0 && i < count; i++)
        code =
            check_source(names[i], found[i], tracing_connection_name(consumer->connection), error);
    free(names);
    free(found);
    return code == -ENOSYS ? 0 : code;
}

static void print_trigger_names(const TriggerConfig *triggers)
{
    for (size_t i = 0; i < triggers->n_triggers; i++)
        format_printf(stderr, "%s'%s'", i == 0 ? "" : ", ",
                      triggers->triggers[i]->name != NULL ? triggers->triggers[i]->name : "");
}

void service_tell_started(const struct session_config *config, const char *socket)
{
    const TriggerConfig *triggers = config->fields->trigger_config;
    if (session_config_trigger_mode(config) == 0) {
        uint64_t duration_ms = session_config_duration_ms(config);
        char duration[64] = "";
        if (duration_ms > 0)
            snprintf(duration, sizeof(duration), " for %.1f s", (double)duration_ms / 1000);
        format_printf(stderr,
                      "Recording%s through the tracing service at %s; Ctrl-C ends it%s and writes "
                      "the trace.\n",
                      duration, socket, duration_ms > 0 ? " earlier" : "");
        return;
    }
    fprintf(stderr, "Waiting up to %.1f s for the trigger ", triggers->trigger_timeout_ms / 1e3);
    print_trigger_names(triggers);
    static const char *const effects[] = {
        [1] = "begin recording", [2] = "keep what was recorded", [4] = "save a snapshot"};
    unsigned mode = session_config_trigger_mode(config);
    fprintf(stderr, " to %s; Ctrl-C ends the session.\n",
            mode < 5 && effects[mode] != NULL ? effects[mode] : "act");
}

/* --- while it runs --- */

void service_show_progress(const struct session_config *config, const struct consumer_stats *stats,
                           uint64_t elapsed_ms)
{
    if (!shows_progress)
        return;
    fprintf(stderr, "\r\033[K%.1f s", (double)elapsed_ms / 1000);
    if (stats->is_known)
        fprintf(stderr, ", %s recorded, %llu chunks lost",
                format_bytes((double)stats->bytes_written).bytes,
                (unsigned long long)(stats->chunks_overwritten + stats->chunks_discarded));
    if (session_config_trigger_mode(config) != 0)
        fputs(", waiting for a trigger", stderr);
}

void service_tell_ending(void)
{
    if (shows_progress)
        fputs("\r\033[Kwaiting for the last data", stderr);
}

void service_tell_no_dump(void)
{
    service_end_progress();
    fputs("heap_profile: SIGUSR1 takes no dump of a session of the tracing service; "
          "continuous_dump_config (-c) takes dumps at intervals\n",
          stderr);
}

void service_tell_not_flushed(void)
{
    service_end_progress();
    fputs("heap_profile: a producer did not deliver its last data in time: the trace may lack the "
          "end (flush_timeout_ms in the configuration)\n",
          stderr);
}

/* --- losses --- */

void service_tell_losses(const struct consumer_stats *stats)
{
    service_end_progress();
    if (!stats->is_known) {
        fputs("heap_profile: the tracing service has no statistics: what it lost is unknown\n",
              stderr);
        return;
    }
    if (stats->chunks_overwritten > 0)
        fprintf(stderr,
                "heap_profile: the trace is incomplete: a buffer of the tracing service was full, "
                "and %llu chunks (%s) were overwritten: enlarge size_kb of buffers, or shorten "
                "file_write_period_ms\n",
                (unsigned long long)stats->chunks_overwritten,
                format_bytes((double)stats->bytes_overwritten).bytes);
    if (stats->chunks_discarded > 0)
        fprintf(stderr,
                "heap_profile: the trace is incomplete: a buffer of the tracing service was full, "
                "and %llu chunks were discarded: enlarge size_kb of buffers\n",
                (unsigned long long)stats->chunks_discarded);
    if (stats->packets_lost > 0)
        fprintf(stderr,
                "heap_profile: the trace is incomplete: producers lost data %llu times before the "
                "tracing service had it: enlarge their shared memory (producers.shm_size_kb)\n",
                (unsigned long long)stats->packets_lost);
    if (stats->patches_failed > 0)
        fprintf(stderr,
                "heap_profile: the trace is incomplete: %llu packets of the tracing service stay "
                "unfinished\n",
                (unsigned long long)stats->patches_failed);
    if (stats->violations > 0)
        fprintf(stderr,
                "heap_profile: the trace is incomplete: the tracing service refused data of "
                "producers %llu times; see its log\n",
                (unsigned long long)stats->violations);
    if (stats->last_flush_failed)
        service_tell_not_flushed();
}

void service_tell_failed(const struct error *error, bool has_trace)
{
    verb_fail(error);
    if (has_trace)
        fputs("heap_profile: the trace has what came before\n", stderr);
}

/* --- after the end --- */

void service_tell_trace(const char *path)
{
    if (is_quiet)
        return;
    format_printf(stderr, "Trace in %s\n", path);
    format_printf(stderr, "  %s report %s   prints a report\n", program_invocation_name, path);
    format_printf(stderr, "  https://ui.perfetto.dev   opens it\n");
}

void service_tell_written(const struct session_config *config)
{
    const char *path = config->fields->output_path;
    format_printf(stderr, "The session has ended. The tracing service wrote its trace%s%s.\n",
                  path != NULL ? " to " : "",
                  path != NULL ? path : " to the file that it was started with");
}

void service_tell_missed(unsigned snapshots)
{
    fprintf(stderr,
            "heap_profile: %u triggers came while others were saved: they have no snapshot\n",
            snapshots);
}

void service_tell_nothing_profiled(void)
{
    fputs("heap_profile: no process was profiled; heap_profile doctor -p PID shows what would "
          "work\n",
          stderr);
}

bool service_tell_empty(const struct session_config *config)
{
    const TriggerConfig *triggers = config->fields->trigger_config;
    if (session_config_trigger_mode(config) == 0) {
        fputs("heap_profile: the tracing service has recorded nothing; see its log\n", stderr);
        return false;
    }
    fprintf(stderr, "heap_profile: no trigger came in %.1f s, so there is no trace: waited for ",
            triggers->trigger_timeout_ms / 1e3);
    print_trigger_names(triggers);
    fputs(" (heap_profile trigger NAME activates one)\n", stderr);
    return true;
}

int service_tell_detached(const char *key, const struct session_config *config, const char *trace)
{
    if (is_quiet)
        return VERB_DONE;
    fputs("The session goes on in the tracing service.\n", stderr);
    if (trace != NULL)
        format_printf(stderr, "  %s   will have its trace\n", trace);
    format_printf(stderr, "  %s record --attach %s --stop%s   ends it\n", program_invocation_name,
                  key, config->fields->write_into_file ? "" : " -o TRACE");
    return VERB_DONE;
}
