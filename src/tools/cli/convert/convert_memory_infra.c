/* SPDX-License-Identifier: Apache-2.0 */
/* Writes dumps of a profile as Chrome's MemoryInfra JSON, gzipped or not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/convert/conversions.h"
#include "tools/cli/convert/memory_infra_file.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/options/heap_options.h"
#include "tools/cli/options/options.h"
#include "tools/cli/options/parse.h"
#include "tools/cli/options/profile_options.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "util/packed_file.h"

static const char help[] =
    "usage: traceconv memory_infra [options] [DIR|TRACE] [OUT.json[.gz]]\n"
    "\n"
    "  Writes the JSON of Chrome's memory dumps (MemoryInfra, heaps_v2), for the trace viewer's\n"
    "  memory columns and heap details, symbolize_trace and diff_heap_profiler: every dump of\n"
    "  each process, one allocator for each heap, by backtrace and by type. TRACE '-', or none\n"
    "  unless on a terminal, is standard input. OUT '-', or none, is standard output; OUT is\n"
    "  gzipped if its name ends in .gz.\n"
    "\n"
    "  --pid PID, --heap NAME   only these\n"
    "  --dump N      the N-th dump of each heap, from 1, 'final', the last, or 'all' (default)\n"
    "  --max         live memory at the heap's peak (always, if recorded with dump_at_max)\n"
    "  --prune BYTES,COUNT   sum up sites below both limits in nodes named <other>\n"
    "  --stack-mode MODE     native (default), native-with-thread-names, pseudo (the contexts\n"
    "                that the program named) or mixed (stacks below these)\n"
    "  --demangle full|simple|none   functions' names in full (default),\n"
    "                without parameters and template arguments, or mangled\n"
    "      --help, --version\n";

/* The values of the options. */
struct choice {
    struct dump_choice which;
    struct memory_infra_write_options writing;
    struct profile_read_options reading;
};

static int64_t list_dumps(const struct profile *profile, const struct choice *choice,
                          const char *path, struct export_dump **dumps, struct error *error)
{
    size_t count = dump_choice_list(&choice->which, profile, dumps), heaps = 0;
    if (count != 0)
        return (int64_t)count;
    for (size_t i = 0; i < profile->heap_count; i++)
        heaps += profile->heaps[i].dump_count > 0;
    if (heaps == 0)
        return profile_options_explain_empty(profile, path, error);
    return error_set(
        error, -ENOENT,
        "%.200s: it has none of the requested dumps; heap_profile report lists its dumps", path);
}

/* --- the conversion --- */

static int64_t write_file(const struct profile *profile, const struct choice *choice,
                          const char *path, const char *out, struct error *error)
{
    struct export_dump *dumps = NULL;
    int64_t count = list_dumps(profile, choice, path, &dumps, error);
    struct output_file output;
    if (count >= 0) {
        int code = conversion_open_output(&output, out, path, true, error);
        count = code < 0 ? code : count;
    }
    if (count >= 0) {
        struct progress shown = progress_begin("-", isatty(output.fd));
        const struct memory_infra_file file = {.fd = output.fd,
                                               .packed = out != NULL && packed_file_is_name(out),
                                               .tell = progress_show_written,
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
    return result < 0 ? verb_fail(&error) : 0;
}

/* --- options --- */

/* Parse BYTES,COUNT. Neither has a default. */
static bool take_prune(void *member, const char *name, const char *text)
{
    (void)name;
    struct memory_infra_write_options *writing = member;
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

static const struct option_entry options[] = {
    OPTION_ENTRY("pid", 0, OPTION_PID, struct choice, which.pid),
    OPTION_ENTRY("heap", 0, OPTION_TEXT, struct choice, which.heap),
    OPTION_ENTRY_CALL("dump", 0, struct choice, which.dump, take_dump_or_all),
    OPTION_ENTRY_CALL("prune", 0, struct choice, writing, take_prune),
    OPTION_ENTRY_CHOICE("stack-mode", struct choice, writing.stack_mode, stack_mode_names),
    OPTION_ENTRY("max", 0, OPTION_SET, struct choice, writing.at_peak),
    OPTION_ENTRY_CHOICE("demangle", struct choice, reading.demangling, demangle_option_names),
    OPTIONS_END,
};

int convert_memory_infra(int argc, char **argv)
{
    struct choice choice = {.which.dump = DUMP_ALL};
    int code = conversion_parse(argc, argv, help, options, 2, &choice);
    if (code >= 0)
        return code;
    return convert(&choice, argv[optind], argv[optind] == NULL ? NULL : argv[optind + 1]);
}
