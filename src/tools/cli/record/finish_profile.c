/* SPDX-License-Identifier: Apache-2.0 */
/* Adds names to a finished trace, writes its pprof files and prints the short report. */
#include "tools/cli/record/finish_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/builder/profile_read.h"
#include "profile/compare/turnover.h"
#include "tools/cli/convert/memory_infra_file.h"
#include "tools/cli/record/automatic_names.h"
#include "tools/cli/report/report.h"
#include "tools/cli/report/unnamed_frames.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "tools/print/stack_format.h"
#include "util/output_file.h"
#include "util/xmalloc.h"

#define UNNAMED_LINES 3
/* The files of a smaller profile are written in about the time that a thread takes to start. */
#define LARGE_CALLSITES 4096u

struct finished {
    const struct output *output;
    const struct finish_profile_options *options;
    struct profile *profile;
    struct automatic_names names;
    bool searched;      /* for names */
    bool is_symbolized; /* symbolized-trace was written */
    int files;          /* number of pprof files, or a negative errno */
    struct error error; /* set if `files` is negative */
    FILE *to;           /* where the report goes; NULL: none is wanted */
    FILE *report;       /* in memory, until the files are there; NULL: the same */
};

static void print_unnamed(const struct finished *finished, const struct report_options *options,
                          FILE *stream)
{
    struct unnamed_modules unnamed;
    unnamed_collect(&unnamed, finished->profile, options, finished->names.reasons);
    unnamed_print_text(stream, &unnamed, options, UNNAMED_LINES);
    unnamed_clear(&unnamed);
}

static struct report_options brief_report(FILE *to)
{
    return (struct report_options){
        .view = EXPORT_MAX,
        .brief = true,
        .colours = isatty(fileno(to)) && getenv("NO_COLOR") == NULL,
        .columns = stack_format_columns(to),
        .simple_names = true,
    };
}

/* Print what the profile says. */
static void print_report(const struct finished *finished, FILE *stream)
{
    struct report_options report = brief_report(finished->to);
    if (finished->profile->heap_count == 0) {
        format_printf(stream, "%s/raw-trace has no profile\n", finished->output->directory);
        report_print_unprofiled(finished->profile, stream);
        return;
    }
    report_print_text(finished->profile, &report, stream);
    print_unnamed(finished, &report, stream);
    fputc('\n', stream);
}

/* Return whether to name `leaks`: for a program that ran before the profile and goes on, whose live
 * memory is not leaked; and for one that ran long enough to tell growth. */
static bool may_tell_growth(const struct profile *profile)
{
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        if (!heap->status.from_startup && heap->status.exit_status < 0)
            return true;
        if (heap->dump_count == 0 || heap->start_boottime_ns == 0)
            continue;
        uint64_t end_ns = heap->dumps[heap->dump_count - 1].boottime_ns;
        if (end_ns > heap->start_boottime_ns + TURNOVER_TIME_LEAST_MS * UINT64_C(1000000))
            return true;
    }
    return false;
}

/* Print what was written, and who reads it. */
static void print_files(const struct finished *finished, FILE *stream)
{
    const struct output *output = finished->output;
    int files = finished->files;
    if (finished->profile->heap_count == 0)
        return;
    format_printf(stream, "Profile in %s: raw-trace%s", output->directory,
                  finished->is_symbolized ? ", symbolized-trace" : "");
    if (!finished->options->no_pprof)
        format_printf(stream, " and %d pprof file%s", files, files == 1 ? "" : "s");
    fputc('\n', stream);
    /* Print our name as the user typed it: it need not be in the PATH. */
    format_printf(stream, "  %s report %s   all callsites; --tree, --view max, --json\n",
                  program_invocation_name, output->directory);
    if (may_tell_growth(finished->profile))
        format_printf(stream, "  %s leaks %s   what grows, and what is a cache\n",
                      program_invocation_name, output->directory);
    format_printf(stream, "  %s view %s   timeline, flame graph and tables in the browser\n",
                  program_invocation_name, output->directory);
    /* Name one file: pprof adds up all files, even heaps that contain each other and dumps of one
     * heap. */
    if (files > 0)
        format_printf(stream, "  go tool pprof -http=: %s/%s.pb.gz   flame graph in a browser%s\n",
                      output->directory, files == 1 ? "*" : "FILE",
                      files == 1 ? "" : "; several FILEs become one sum");
    format_printf(stream, "  https://ui.perfetto.dev   opens %s/%s\n", output->directory,
                  finished->is_symbolized ? "symbolized-trace" : "raw-trace");
}

/* Show progress: thousands of processes take a while. */
static struct progress begin_progress(const char *path, bool quiet)
{
    struct progress progress = progress_begin(path, false);
    progress.is_shown &= !quiet;
    progress.doing = "reading the trace: ";
    return progress;
}

/* Continue the trace with names for its addresses. */
static int go_on_with_names(void *context, const struct profile *unfinished)
{
    struct finished *finished = context;
    if (!finished->searched)
        automatic_names_find(finished->output, unfinished, finished->options->quiet,
                             &finished->names);
    finished->searched = true;
    return automatic_names_next(finished->output, &finished->names);
}

/* Read a trace. `finished`: add names to it; NULL: none. */
static struct profile *read_trace(const char *path, bool quiet, struct finished *finished,
                                  struct error *error)
{
    struct progress shown = begin_progress(path, quiet);
    const struct profile_read_options reading = {.demangling = DEMANGLE_FULL,
                                                 .tell = progress_show_bytes,
                                                 .tell_context = &shown,
                                                 .go_on =
                                                     finished != NULL ? go_on_with_names : NULL,
                                                 .go_on_context = finished,
                                                 .alone = finished == NULL};
    struct profile *profile = profile_read(path, &reading, error);
    progress_end(&shown);
    return profile;
}

static void write_pprof(struct finished *finished)
{
    if (finished->options->no_pprof)
        return;
    struct progress shown = begin_progress("-", finished->options->quiet);
    const struct output_pprof all = {.options = {.gzip = true, .annotated = true},
                                     .tell = progress_show_profiles,
                                     .tell_context = &shown};
    finished->files = output_write_pprof(finished->output->fd, finished->output->directory,
                                         finished->profile, &all, &finished->error);
    progress_end(&shown);
}

/* Make what needs no pprof files: the trace with names, first, for Ctrl-C may come, and the report.
 */
static void *make_rest(void *context)
{
    struct finished *finished = context;
    finished->is_symbolized = automatic_names_write(finished->output, &finished->names);
    if (finished->report != NULL)
        print_report(finished, finished->report);
    return NULL;
}

/* Write and print everything. The pprof files of a large profile take a while, in which a thread
 * makes the rest. Not the other way round: a new thread's memory is new, too, and pprof needs much
 * of it. */
static int write_all(struct finished *finished, struct error *error)
{
    char *text = NULL;
    size_t length = 0;
    pthread_t rest;
    finished->report = finished->to == NULL ? NULL : xopen_memstream(&text, &length);
    bool has_thread = !finished->options->no_pprof &&
                      finished->profile->callsite_count >= LARGE_CALLSITES &&
                      pthread_create(&rest, NULL, make_rest, finished) == 0;
    write_pprof(finished);
    if (has_thread)
        pthread_join(rest, NULL);
    else
        make_rest(finished);
    if (finished->report != NULL) {
        print_files(finished, finished->report);
        xclose_memstream(finished->report);
    }
    if (finished->files < 0)
        *error = finished->error;
    else if (text != NULL)
        fwrite(text, 1, length, finished->to);
    free(text);
    return finished->files < 0 ? finished->files : 0;
}

static int write_memory_infra(const struct finished *finished, struct error *error)
{
    static const char name[] = "memory_infra.json.gz";
    struct output_file file;
    const char *directory = finished->output->directory;
    int code = output_file_open_in(&file, finished->output->fd, directory, name, 0, error);
    if (code < 0)
        return code;
    code = memory_infra_file_write_all(finished->profile, file.fd, true, error);
    code = output_file_close(&file, code, error);
    if (code == 0 && finished->to != NULL)
        format_printf(finished->to, "  %s/%s   for the memory columns of Chromium's trace viewer\n",
                      directory, name);
    return code;
}

static int count_profiled(const struct profile *profile)
{
    int count = 0;
    for (size_t i = 0; i < profile->heap_count && count < INT_MAX; i++)
        count += !profile->heaps[i].unseen;
    return count;
}

static int refuse_summary(const char *path, struct error *error)
{
    return error_set(error, -errno, "--summary: %s cannot be written: %s", path, strerror(errno));
}

int finish_profile_check(const struct finish_profile_options *options, struct error *error)
{
    const char *path = options->summary;
    struct stat status;
    /* To open a pipe and close it would be its end for the reader. */
    if (path == NULL || strcmp(path, "-") == 0 ||
        (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return refuse_summary(path, error);
    close(fd);
    return 0;
}

/* Open what the report is written to. Return 0 with *to (NULL: nothing), or a negative errno. */
static int open_summary(const struct finish_profile_options *options, FILE **to,
                        struct error *error)
{
    const char *path = options->summary;
    *to = options->quiet ? NULL : stderr;
    if (path == NULL)
        return 0;
    *to = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    return *to != NULL ? 0 : refuse_summary(path, error);
}

static int close_summary(FILE *to, const char *path, int code, struct error *error)
{
    bool failed = to != NULL && to != stderr && (fflush(to) != 0 || ferror(to));
    if (to != NULL && to != stderr && to != stdout)
        failed |= fclose(to) != 0;
    if (code >= 0 && failed)
        return error_set(error, -EIO, "--summary: %s cannot be written", path);
    return code;
}

int finish_profile(const struct output *output, const struct finish_profile_options *options,
                   struct error *error)
{
    struct finished finished = {.output = output, .options = options};
    int opened = open_summary(options, &finished.to, error);
    if (opened < 0)
        return opened;
    finished.profile =
        read_trace(output->trace, options->quiet, options->no_symbols ? NULL : &finished, error);
    if (finished.profile == NULL) {
        automatic_names_clear(&finished.names);
        return close_summary(finished.to, options->summary, error->code, error);
    }
    int code = write_all(&finished, error);
    if (code == 0 && options->memory_infra)
        code = write_memory_infra(&finished, error);
    if (code == 0)
        code = count_profiled(finished.profile);
    code = close_summary(finished.to, options->summary, code, error);
    profile_free(finished.profile);
    automatic_names_clear(&finished.names);
    return code;
}

int finish_profile_count(const char *trace, bool quiet, struct error *error)
{
    struct profile *profile = read_trace(trace, quiet, NULL, error);
    if (profile == NULL)
        return error->code;
    int count = count_profiled(profile);
    struct report_options report = brief_report(stderr);
    if (count == 0 && profile->heap_count > 0)
        report_print_text(profile, &report, stderr);
    else if (count == 0)
        report_print_unprofiled(profile, stderr);
    profile_free(profile);
    return count;
}
