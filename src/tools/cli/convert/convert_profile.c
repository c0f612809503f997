/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the pprof files of a trace: chooses dumps and the directory, and warns of each incomplete
 * profile. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "profile/view.h"
#include "tools/cli/convert/conversions.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/parse.h"
#include "tools/cli/options/profile_options.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "util/safe_directory.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: traceconv profile [options] [DIR|TRACE]\n"
    "\n"
    "  Writes one pprof file for each process, heap and dump of a trace, and prints the name of\n"
    "  their directory. Profiles that ended early, or never began because another session had the\n"
    "  process, are reported on standard error.\n"
    "\n" CONVERSION_INPUT_HELP "\n"
    "  --pid PID,...        only these processes\n"
    "  --timestamps T,...   only the dumps at these times of the trace, in nanoseconds\n"
    "  --no-annotations     do not append [jit], [interp] and the like to functions' names\n"
    "  -o, --output DIR     the directory; created if missing, and files of the same names are\n"
    "                       replaced (default: a new one in TMPDIR or /tmp)\n"
    "  --gzip               write gzipped files\n" FILTER_HELP DEMANGLE_FULL_HELP
    "      --help, --version\n";

struct request {
    const char *argument, *directory;
    struct output_pprof choice;
    struct profile_read_options reading;
    struct profile_filter filter;
    uint64_t *pids, *timestamps;
};

static bool take_pids(void *member, const char *name, const char *value)
{
    (void)name;
    struct request *request = member;
    return parse_pids(value, &request->pids, &request->choice.pid_count);
}

static bool take_timestamps(void *member, const char *name, const char *value)
{
    (void)name;
    struct request *request = member;
    return parse_numbers("--timestamps", "times of dumps", value, &request->timestamps,
                         &request->choice.timestamp_count);
}

static const struct option_entry options[] = {
    {.name = "pid", .kind = OPTION_CALL, .take = take_pids},
    {.name = "timestamps", .kind = OPTION_CALL, .take = take_timestamps},
    OPTION_ENTRY("no-annotations", 0, OPTION_CLEAR, struct request, choice.options.annotated),
    OPTION_ENTRY("gzip", 0, OPTION_SET, struct request, choice.options.gzip),
    OPTION_ENTRY_CHOICE("demangle", struct request, reading.demangling, demangle_option_names),
    FILTER_OPTIONS(struct request, filter),
    OPTION_ENTRY("output", 'o', OPTION_TEXT, struct request, directory),
    OPTIONS_END,
};

/* --- warnings --- */

static bool is_selected(int32_t pid, const struct output_pprof *choice)
{
    for (size_t i = 0; i < choice->pid_count; i++)
        if (choice->pids[i] == (uint64_t)pid)
            return true;
    return choice->pid_count == 0;
}

static void warn_of_loss(const struct profile_process *process, enum trace_loss_id id)
{
    const struct trace_loss *loss = &trace_losses[id];
    conversion_warn("process %d (%s): %s: %s%s%s", process->pid, process->name, loss->label,
                    loss->words, loss->remedy != NULL ? "; " : "",
                    loss->remedy != NULL ? loss->remedy : "");
}

/* Warn of profiles that ended early or never began, once for each process: each of its heaps has
 * the flag. */
static void warn_of_losses(const struct profile *profile, const struct output_pprof *choice)
{
    uint32_t *flags = xcalloc(profile->process_count + 1, sizeof(*flags)); /* bits TRACE_LOSS_* */
    _Static_assert(TRACE_LOSS_IDS <= 32, "a bit for each loss");
    for (size_t i = 0; i < profile->heap_count; i++)
        for (enum trace_loss_id id = TRACE_LOSS_FIRST_FLAG; id < TRACE_LOSS_IDS; id++)
            if (trace_losses[id].label != NULL &&
                trace_loss_amount(&profile->heaps[i].status, id) != 0)
                flags[profile->heaps[i].process] |= UINT32_C(1) << id;
    for (size_t i = 0; i < profile->process_count; i++)
        for (enum trace_loss_id id = TRACE_LOSS_FIRST_FLAG; id < TRACE_LOSS_IDS; id++)
            if ((flags[i] >> id & 1) != 0 && is_selected(profile->processes[i].pid, choice))
                warn_of_loss(&profile->processes[i], id);
    free(flags);
    if (profile->warning[0] != '\0')
        conversion_warn("%s", profile->warning);
}

/* Warn that the sums in the files are not the heaps' totals. Each file's comments repeat it. */
static void warn_of_filter(const struct profile *profile, const struct output_pprof *choice)
{
    double part = 0, whole = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++) {
            if (!output_has_pprof(profile, heap, &heap->dumps[j], choice))
                continue;
            part += heap->dumps[j].left_out.sum.figures.allocated_bytes;
            whole += heap->dumps[j].total.allocated_bytes;
        }
    }
    if (*profile->filter != '\0')
        conversion_warn("%.300s leaves out %s: bytes ever allocated", profile->filter,
                        profile_options_share(part, whole, false).bytes);
}

/* --- missing pids and times --- */

/* Room for the list of numbers that exist. */
#define LISTED_BYTES 300

/* Append a number to the list, unless it is the last one already or the list is full. */
static void list_number(char list[LISTED_BYTES], uint64_t number)
{
    static const char more[] = " ...";
    char text[24];
    size_t length = strlen(list);
    int digits = snprintf(text, sizeof(text), "%" PRIu64, number);
    const char *last = strrchr(list, ' ');
    if (strcmp(last == NULL ? list : last + 1, text) == 0)
        return;
    if (length + (size_t)digits + sizeof(more) + 2 < LISTED_BYTES)
        snprintf(list + length, LISTED_BYTES - length, "%s%s", length > 0 ? ", " : "", text);
    else if (length < sizeof(more) || strcmp(list + length - strlen(more), more) != 0)
        snprintf(list + length, LISTED_BYTES - length, "%s", more);
}

/* Check that the profile has all requested pids, or times. Return 0, or -ENOENT with an error that
 * lists those that it has. */
static int check_numbers(const struct profile *profile, const struct output_pprof *choice,
                         bool are_pids, struct error *error)
{
    const uint64_t *numbers = are_pids ? choice->pids : choice->timestamps;
    size_t count = are_pids ? choice->pid_count : choice->timestamp_count;
    for (size_t i = 0; i < count; i++) {
        struct output_pprof one = {.pids = choice->pids, .pid_count = choice->pid_count};
        char there[LISTED_BYTES] = "";
        bool found = false;
        if (are_pids)
            one.pid_count = 0;
        for (size_t j = 0; j < profile->heap_count; j++) {
            const struct profile_heap *heap = &profile->heaps[j];
            for (size_t k = 0; k < heap->dump_count; k++) {
                const struct profile_dump *dump = &heap->dumps[k];
                if (!output_has_pprof(profile, heap, dump, &one))
                    continue;
                uint64_t number =
                    are_pids ? (uint64_t)profile->processes[heap->process].pid : dump->boottime_ns;
                found |= number == numbers[i];
                list_number(there, number);
            }
        }
        if (!found && there[0] == '\0')
            return error_set(error, -ENOENT, "there is no dump in it");
        if (!found)
            return error_set(error, -ENOENT,
                             are_pids ? "there is no heap profile of process %" PRIu64
                                        " in it, but of: %s"
                                      : "no dump is at %" PRIu64 "; there are: %s",
                             numbers[i], there);
    }
    return 0;
}

/* --- the conversion --- */

static int convert_profile_check(const struct profile *profile, const char *path,
                                 const struct output_pprof *choice, struct error *error)
{
    struct error found = {0};
    if (profile->heap_count == 0)
        return profile_options_explain_empty(profile, path, error);
    uint64_t frames = 0;
    int code = check_numbers(profile, choice, true, &found);
    if (code == 0)
        code = check_numbers(profile, choice, false, &found);
    for (size_t i = 0; i < profile->heap_count && code == 0; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count && code == 0; j++) {
            const struct profile_dump *dump = &profile->heaps[i].dumps[j];
            frames = 0; /* each is a file of its own */
            if (output_has_pprof(profile, &profile->heaps[i], dump, choice))
                code = export_count_frames(profile, dump, &frames, &found);
        }
    return code == 0 ? 0 : error_set(error, code, "%.100s: %.400s", path, found.message);
}

static int write_files(struct request *request)
{
    char path[PATH_MAX], made[PATH_MAX];
    const char *directory = request->directory != NULL ? request->directory : made;
    struct error error = {0};
    struct profile *profile = NULL;
    struct progress shown = {0};
    int fd = -1, files = conversion_find_input(request->argument, path, &error);
    if (files == 0) {
        shown = progress_begin(path, false);
        request->reading.tell = progress_show_bytes;
        request->choice.tell = progress_show_files;
        request->reading.tell_context = request->choice.tell_context = &shown;
        profile = import_profile(path, &request->reading, &error);
        files = profile == NULL ? error.code : 0;
    }
    if (files == 0)
        files = convert_profile_check(profile, path, &request->choice, &error);
    if (files == 0)
        files = fd = request->directory == NULL ? output_make_temporary(made, &error)
                                                : safe_directory_make(directory, &error);
    if (fd >= 0) {
        files = output_write_pprof(fd, directory, profile, &request->choice, &error);
        close(fd);
    }
    progress_end(&shown);
    if (files >= 0) {
        warn_of_losses(profile, &request->choice);
        warn_of_filter(profile, &request->choice);
    }
    profile_free(profile);
    if (files < 0)
        return verb_fail(&error);
    format_printf(stderr, "%d pprof file%s in\n", files, files == 1 ? "" : "s");
    /* Escape the name only on a terminal; a script needs its bytes. */
    if (isatty(STDOUT_FILENO))
        format_printf(stdout, "%s\n", directory);
    else
        puts(directory);
    return 0;
}

int convert_profile(int argc, char **argv)
{
    struct request request = {.choice.options.annotated = true};
    request.reading.filter = &request.filter;
    int code = conversion_parse(argc, argv, help, options, 1, &request);
    request.argument = code < 0 ? argv[optind] : NULL;
    request.choice.pids = request.pids;
    request.choice.timestamps = request.timestamps;
    if (code < 0)
        code = write_files(&request);
    profile_filter_clear(&request.filter);
    free(request.pids);
    free(request.timestamps);
    return code;
}
