/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile oom: lists the programs that died of memory, and what held it. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cmd.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/oom/oom.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/profile_options.h"
#include "tools/print/progress.h"
#include "util/xmalloc.h"

/* The files of ended processes in the directory of a sink (production/sinks/directory.c): the last
 * period of each heap. */

struct period_files {
    char **paths; /* the oldest first */
    size_t count;
};

#define PERIOD_SUFFIX ".pb.gz"
#define END_SUFFIX ".end.pb.gz"

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static int is_period(const struct dirent *entry)
{
    return ends_in(entry->d_name, PERIOD_SUFFIX);
}

/* Find them. Return 0; -ENOENT: this is no directory of periods; or another negative errno. Clear
 * the list in any case. */
static int period_files_find(struct period_files *files, const char *directory)
{
    struct dirent **entries = NULL;
    *files = (struct period_files){0};
    /* Names begin with the time. */
    int count = scandir(directory, &entries, is_period, alphasort);
    if (count < 0)
        return -errno;
    unsigned found = (unsigned)count;
    files->paths = xcalloc(found + 1, sizeof(*files->paths));
    for (unsigned i = 0; i < found; i++) {
        if (ends_in(entries[i]->d_name, END_SUFFIX))
            files->paths[files->count++] = xasprintf("%s/%s", directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return found == 0 ? -ENOENT : 0;
}

static void period_files_clear(struct period_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct period_files){0};
}

static const char help[] =
    "usage: heap_profile oom [options] [DIR|TRACE...]\n"
    "\n"
    "Lists the processes that died by the kernel's OOM killer: when, with which limit, what held\n"
    "their memory at the last dump, and what had grown since the dump before, with 95 % limits.\n"
    "DIR is a directory that heap_profile wrote or that a sink of continuous mode fills, TRACE a\n"
    "raw-trace, or a last period from such a sink. Without either, it reads the latest profile.\n"
    "\n"
    "  --all           also list processes that any signal ended, or whose end is unknown\n"
    "  --top N         rows of a table (10; 0: all)\n"
    "  --stacks        show whole stacks\n" FRAMES_HELP
    "  --demangle full|simple|none   form of functions' names (simple; with --json full)\n"
    "  --json          print one JSON object (docs/last-profile.md)\n"
    "\n"
    "Examples:\n"
    "  heap_profile oom\n"
    "  heap_profile oom --all profiles/*\n"
    "  heap_profile oom /var/lib/heapprofd/profiles\n";

struct request {
    struct oom_options oom;
    int demangling;
    bool json;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("all", 0, OPTION_SET, struct request, oom.all),
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct request, oom.top),
    OPTION_ENTRY("stacks", 0, OPTION_SET, struct request, oom.stacks),
    FRAMES_OPTION(struct request, oom.all_frames),
    DEMANGLE_OPTION(struct request, demangling),
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTIONS_END,
};

struct totals {
    size_t listed, ends;
};

static int print_deaths(const struct profile *profile, const char *path,
                        const struct request *request, struct json_writer *json,
                        struct totals *totals, struct error *error)
{
    bool whole_stacks = request->json || request->oom.stacks;
    int code = 0;
    for (size_t i = 0; i < profile->process_count && code == 0; i++) {
        struct oom_death death;
        totals->ends += profile->processes[i].has_end;
        if (!oom_is_wanted(&profile->processes[i], request->oom.all))
            continue;
        code = oom_death_make(profile, i, path, &request->oom, whole_stacks, &death, error);
        if (code == 0 && request->json) {
            oom_print_json(&death, &request->oom, json);
        } else if (code == 0) {
            fputs(totals->listed > 0 ? "\n\n" : "", stdout);
            oom_print_text(&death, &request->oom, stdout);
        }
        oom_death_clear(&death);
        totals->listed++;
    }
    return code;
}

/* Read one file and print its deaths. Return 0 or a negative errno with *error set. */
static int read_file(const char *path, const struct request *request, struct json_writer *json,
                     struct totals *totals, struct error *error)
{
    const struct profile_read_options reading = {
        .demangling = demangling_of(request->demangling, request->json)};
    struct profile *profile = progress_import(path, &reading, error);
    if (profile == NULL)
        return error->code;
    if (*profile->warning != '\0')
        format_printf(stderr, "heap_profile: %s: warning: %s\n", path, profile->warning);
    struct error problem;
    int code = print_deaths(profile, path, request, json, totals, &problem);
    if (code < 0)
        error_set(error, code, "%.200s: %.300s", path, problem.message);
    profile_free(profile);
    return code;
}

/* Read what an argument names: a trace, its directory, or the directory of a sink. Return 0 or a
 * negative errno with *error set. */
static int read_one(const char *argument, const struct request *request, struct json_writer *json,
                    struct totals *totals, struct error *error)
{
    struct period_files files = {0};
    char path[PATH_MAX];
    int code = output_find_trace(argument, path, error);
    if (code == 0)
        return read_file(path, request, json, totals, error);
    if (code != -ENOENT || argument == NULL || period_files_find(&files, argument) < 0) {
        period_files_clear(&files);
        return code;
    }
    code = 0;
    for (size_t i = 0; i < files.count && code == 0; i++)
        code = read_file(files.paths[i], request, json, totals, error);
    period_files_clear(&files);
    return code;
}

static void explain_nothing(const struct request *request, const struct totals *totals)
{
    printf("No process died %s: ", request->oom.all ? "of a signal" : "by the OOM killer");
    if (totals->ends == 0)
        puts("the profile has no end of a process. They still ran, or it is an older one.");
    else
        printf("%zu ended in another way%s.\n", totals->ends,
               request->oom.all ? "" : " (--all lists those that a signal ended)");
}

int cmd_oom(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile oom", help, options, false};
    struct request request = {
        .oom = {.top = 10, .colours = isatty(STDOUT_FILENO) && getenv("NO_COLOR") == NULL},
        .demangling = DEMANGLING_DEFAULT,
    };
    struct json_writer json = json_begin(stdout);
    struct totals totals = {0};
    int code = options_parse(&line, argc, argv, &request), last = VERB_DONE;
    if (code >= 0)
        return code;
    if (request.json) {
        json_object(&json, NULL);
        json_unsigned(&json, "version", 1);
        json_array(&json, "deaths");
    }
    for (int i = optind; i < argc || i == optind; i++) {
        struct error error = {0};
        if (read_one(i < argc ? argv[i] : NULL, &request, &json, &totals, &error) < 0)
            last = verb_fail(&error);
    }
    if (request.json) {
        json_end_array(&json);
        json_end_object(&json);
        fputc('\n', stdout);
    } else if (totals.listed == 0 && last == VERB_DONE) {
        explain_nothing(&request, &totals);
    }
    return verb_end_output("list", last);
}
