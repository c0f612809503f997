/* SPDX-License-Identifier: Apache-2.0 */
/* Chrome's MemoryInfra JSON: which dumps of a profile, to where, packed or not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/convert/conversions.h"
#include "cli/convert/memory_infra_file.h"
#include "cli/files/conversion_io.h"
#include "cli/options/parse.h"
#include "cli/print/format.h"
#include "cli/print/progress.h"
#include "cli/report/report.h"

static const char help[] =
    "usage: traceconv memory_infra [options] [DIR|TRACE] [OUT.json[.gz]]\n"
    "\n"
    "  Writes the JSON of Chrome's memory dumps (MemoryInfra, heaps_v2), for the trace viewer's\n"
    "  memory columns and heap details, symbolize_trace and diff_heap_profiler: every dump of\n"
    "  each process, one allocator for each heap, by backtrace and by type. TRACE: '-', or none\n"
    "  where it is not a terminal: standard input. OUT: '-' or none: standard output; gzipped\n"
    "  where its name ends in .gz.\n"
    "\n"
    "  --pid PID, --heap NAME   only these\n"
    "  --dump N      the N-th dump of each heap, from 1, 'final', the last, or 'all' (default)\n"
    "  --max         what was live when the heap was largest (of one with dump_at_max: always)\n"
    "  --prune BYTES,COUNT   what a site holds that is under both goes into nodes named <other>\n"
    "  --stack-mode MODE     native (default), native-with-thread-names, pseudo (the contexts\n"
    "                that the program named) or mixed (stacks below these)\n"
    "  --v1          as Chrome wrote it until 2017: heaps, stackFrames and typeNames\n"
    "  --demangle full|simple|none   functions' names with all that is in them (default),\n"
    "                without parameters and template arguments, or mangled\n"
    "      --help, --version\n";

enum {
    OPTION_PID = 256,
    OPTION_HEAP,
    OPTION_DUMP,
    OPTION_PRUNE,
    OPTION_STACK_MODE,
    OPTION_MAX,
    OPTION_V1,
    OPTION_DEMANGLE
};

static const struct option options[] = {
    {"pid", required_argument, NULL, OPTION_PID},
    {"heap", required_argument, NULL, OPTION_HEAP},
    {"dump", required_argument, NULL, OPTION_DUMP},
    {"prune", required_argument, NULL, OPTION_PRUNE},
    {"stack-mode", required_argument, NULL, OPTION_STACK_MODE},
    {"max", no_argument, NULL, OPTION_MAX},
    {"v1", no_argument, NULL, OPTION_V1},
    {"demangle", required_argument, NULL, OPTION_DEMANGLE},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {0},
};

#define DUMP_ALL UINT64_MAX
#define DUMP_FINAL 0

/* What the options ask for. */
struct choice {
    int32_t pid;      /* 0: all */
    const char *heap; /* NULL: all */
    uint64_t dump;    /* from 1, or one of the above */
    struct memory_infra_write_options writing;
    struct profile_read_options reading;
};

/* --- which dumps --- */

static bool is_wanted(const struct profile *profile, const struct profile_heap *heap, size_t index,
                      const struct choice *choice)
{
    if (choice->pid != 0 && profile->processes[heap->process].pid != choice->pid)
        return false;
    if (choice->heap != NULL && strcmp(choice->heap, heap->name) != 0)
        return false;
    if (choice->dump != DUMP_ALL &&
        index + 1 != (choice->dump == DUMP_FINAL ? heap->dump_count : choice->dump))
        return false;
    return !heap->unseen;
}

/* malloc'd. How many, or a negative errno. */
static int64_t take_dumps(const struct profile *profile, const struct choice *choice,
                          const char *path, struct export_dump **dumps, struct error *error)
{
    size_t most = 0, heaps = 0;
    int64_t count = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        most += profile->heaps[i].dump_count;
        heaps += profile->heaps[i].dump_count > 0;
    }
    *dumps = malloc((most + 1) * sizeof(**dumps));
    if (*dumps == NULL)
        return error_set(error, -ENOMEM, "no memory for a list of dumps");
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            if (is_wanted(profile, &profile->heaps[i], j, choice))
                (*dumps)[count++] =
                    (struct export_dump){&profile->heaps[i], &profile->heaps[i].dumps[j]};
    if (count > 0)
        return count;
    if (heaps == 0)
        return error_set(error, -ENOENT, "%.150s: there is no heap profile in it%s%.200s", path,
                         profile->warning[0] != '\0' ? ": " : "", profile->warning);
    return error_set(error, -ENOENT,
                     "%.200s: none of the dumps that were asked for is in it; heap_profile report "
                     "says what is",
                     path);
}

/* --- the conversion --- */

static int64_t write_file(const struct profile *profile, const struct choice *choice,
                          const char *path, const char *out, struct error *error)
{
    struct export_dump *dumps = NULL;
    int64_t count = take_dumps(profile, choice, path, &dumps, error);
    struct output_file output;
    if (count >= 0) {
        int code = conversion_open_output(&output, out, path, true, error);
        count = code < 0 ? code : count;
    }
    if (count >= 0) {
        struct progress shown = progress_begin("-", isatty(output.fd));
        const struct memory_infra_file file = {.fd = output.fd,
                                               .packed = memory_infra_file_is_packed(out),
                                               .tell = progress_tell_written,
                                               .tell_context = &shown};
        int code =
            memory_infra_file_write(profile, dumps, (size_t)count, &choice->writing, &file, error);
        progress_end(&shown);
        count = output_file_close(&output, code, error);
    }
    free(dumps);
    return count;
}

static int convert(const struct choice *choice, const char *argument, const char *out)
{
    char path[PATH_MAX];
    struct error error = {0};
    struct profile *profile = NULL;
    int64_t result = conversion_find_input(argument, path, &error);
    if (result == 0 && (profile = progress_import(path, &choice->reading, &error)) == NULL)
        result = error.code;
    if (result == 0)
        result = write_file(profile, choice, path, out, &error);
    if (result >= 0 && profile->warning[0] != '\0')
        conversion_warn("%s", profile->warning);
    profile_free(profile);
    return result < 0 ? conversion_fail(&error) : 0;
}

/* --- options --- */

static bool parse_dump(const char *text, uint64_t *dump)
{
    if (strcmp(text, "all") == 0 || strcmp(text, "final") == 0) {
        *dump = *text == 'a' ? DUMP_ALL : DUMP_FINAL;
        return true;
    }
    if (!parse_number("--dump", text, UINT32_MAX, dump))
        return false;
    if (*dump > 0)
        return true;
    format_printf(stderr, "%s: --dump counts from 1; there are 'final' and 'all', too\n",
                  program_invocation_short_name);
    return false;
}

/* BYTES,COUNT. Without the comma there would be a number that nobody gave. */
static bool parse_prune(const char *text, struct memory_infra_write_options *writing)
{
    char bytes[32];
    const char *comma = strchr(text, ',');
    size_t length = comma == NULL ? 0 : (size_t)(comma - text);
    if (comma == NULL || length >= sizeof(bytes)) {
        format_printf(stderr, "%s: --prune takes BYTES,COUNT, as in 16384,1024\n",
                      program_invocation_short_name);
        return false;
    }
    memcpy(bytes, text, length);
    bytes[length] = '\0';
    return parse_bytes("--prune", bytes, &writing->prune_bytes) &&
           parse_number("--prune", comma + 1, UINT32_MAX, &writing->prune_count);
}

static bool parse_stack_mode(const char *text, enum heap_stack_mode *mode)
{
    for (*mode = 0; *mode < HEAP_STACK_MODES; (*mode)++)
        if (strcmp(text, memory_infra_stack_modes[*mode]) == 0)
            return true;
    format_printf(stderr,
                  "%s: no stack mode '%s'; there are native, native-with-thread-names, pseudo and "
                  "mixed\n",
                  program_invocation_short_name, text);
    return false;
}

/* False, with a message. */
static bool parse_option(int option, const char *text, struct choice *choice)
{
    uint64_t number;
    switch (option) {
    case OPTION_HEAP:
        choice->heap = text;
        return true;
    case OPTION_DUMP:
        return parse_dump(text, &choice->dump);
    case OPTION_PRUNE:
        return parse_prune(text, &choice->writing);
    case OPTION_STACK_MODE:
        return parse_stack_mode(text, &choice->writing.stack_mode);
    case OPTION_MAX:
        choice->writing.at_peak = true;
        return true;
    case OPTION_V1:
        choice->writing.v1 = true;
        return true;
    case OPTION_DEMANGLE:
        return parse_demangling(text, &choice->reading.demangling);
    default:
        if (!parse_number("--pid", text, INT32_MAX, &number))
            return false;
        choice->pid = (int32_t)number;
        return true;
    }
}

int convert_memory_infra(int argc, char **argv)
{
    struct choice choice = {.dump = DUMP_ALL};
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option < OPTION_PID)
            return conversion_other_option(argv, option, options, help);
        if (!parse_option(option, optarg, &choice))
            return 2;
    }
    if (!conversion_takes(argc, argv, 2))
        return 2;
    return convert(&choice, argv[optind], argv[optind] == NULL ? NULL : argv[optind + 1]);
}
