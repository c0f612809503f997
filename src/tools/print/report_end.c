/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/print/report_end.h"

#include "tools/print/format.h"
#include "trace/process_end.h"

void report_end_print_text(const struct profile_process *process, const struct profile_dump *dump,
                           FILE *out)
{
    const struct process_end *end = &process->end;
    char words[PROCESS_END_WORDS], cause[DUMP_CAUSE_WORDS];
    dump_cause_words(dump->cause, dump->cause_used_bytes, dump->cause_limit_bytes, cause);
    if (cause[0] != '\0')
        fprintf(out, "  dumped        because %s\n", cause);
    /* That a program ended well is no news. */
    bool is_well = end->how == PROCESS_END_EXITED && end->code == 0;
    if (!process->has_end || !dump->final || is_well)
        return;
    fprintf(out, "  ended         %s", process_end_words(end, words));
    if (end->limit_bytes > 0 && process_end_is_oom(end))
        fprintf(out, ", with a limit of %s", format_bytes((double)end->limit_bytes).bytes);
    fputc('\n', out);
}

/* Print a size; null: unknown, or unlimited. */
static void print_size(struct json_writer *json, const char *name, uint64_t bytes)
{
    if (bytes == 0)
        json_null(json, name);
    else
        json_unsigned(json, name, bytes);
}

void report_end_print_json(const struct profile_process *process, struct json_writer *json)
{
    const struct process_end *end = &process->end;
    char words[PROCESS_END_WORDS];
    if (!process->has_end) {
        json_null(json, "end");
        return;
    }
    json_object(json, "end");
    json_string(json, "words", process_end_words(end, words));
    json_string(json, "how", process_end_how_name(end));
    if (end->how == PROCESS_END_UNKNOWN)
        json_null(json, "code");
    else
        json_signed(json, "code", end->code);
    json_string(json, "signal_name", process_end_signal_name(end));
    json_bool(json, "core_dumped", end->core_dumped);
    json_bool(json, "oom_killer", process_end_is_oom(end));
    json_string(json, "oom_kills", process_end_oom_kills_name(end));
    json_string(json, "cgroup", end->cgroup);
    print_size(json, "limit_bytes", end->limit_bytes);
    print_size(json, "used_bytes", end->used_bytes);
    print_size(json, "peak_bytes", end->peak_bytes);
    print_size(json, "rss_bytes", end->rss_bytes);
    print_size(json, "profiler_rss_bytes", end->profiler_rss_bytes);
    print_size(json, "most_rss_bytes", end->most_rss_bytes);
    json_end_object(json);
}

void report_cause_print_json(const struct profile_dump *dump, struct json_writer *json)
{
    if (dump_cause_name(dump->cause) == NULL) {
        json_null(json, "cause");
        return;
    }
    json_object(json, "cause");
    json_string(json, "kind", dump_cause_name(dump->cause));
    print_size(json, "used_bytes", dump->cause_used_bytes);
    print_size(json, "limit_bytes", dump->cause_limit_bytes);
    json_end_object(json);
}
