/* SPDX-License-Identifier: Apache-2.0 */
/* Adds names for the code addresses of a trace or of MemoryInfra JSON: parses the options, and
 * prints what has no name and what to do about it. profile/symbolize/symbolize.h does the work. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "profile/symbolize/symbolize.h"
#include "tools/cli/convert/conversions.h"
#include "tools/cli/convert/symbolize_file.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/files/symbol_options.h"
#include "tools/cli/options/options.h"
#include "util/json_writer.h"

static const char help[] =
    "usage: traceconv symbolize [options] [TRACE] [OUT]\n"
    "\n"
    "  Writes the functions, files and lines of a trace's code addresses, as packets that can\n"
    "  be appended to it: traceconv symbolize raw-trace symbols;\n"
    "  cat raw-trace symbols > symbolized-trace.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP "\n"
    "  In Chrome's memory dumps (JSON, gzipped or not) the frames themselves get the names. The\n"
    "  file is rewritten in place, and the original kept as FILE.BACKUP; with OUT it is "
    "unchanged.\n"
    "\n"
    "  --symbol-paths DIR,...   directories to search before the usual places (default:\n"
    "                           PERFETTO_BINARY_PATH, a colon-separated list)\n"
    "  --no-auto-symbol-paths   do not search the usual places of this machine\n"
    "  --breakpad-symbols DIR,...  directories with Breakpad symbol files (.sym), searched\n"
    "                           first\n"
    "  --no-backup              do not keep the original of a file that is rewritten in place\n"
    "  --json FILE              write the summary as JSON ('-': standard error)\n"
    "  --no-cache               neither read nor write the cache of found names in\n"
    "                           $XDG_CACHE_HOME/heapprofd or ~/.cache/heapprofd\n"
    "  -q, --quiet              no summary\n"
    "      --help, --version\n"
    "\n"
    "  PERFETTO_SYMBOLIZER_MODE=find   search each file by the path that it had (default)\n"
    "  PERFETTO_SYMBOLIZER_MODE=index  read the build ids of all files in the directories\n"
    "  DEBUGINFOD_URLS                 servers to ask for files found nowhere else\n";

struct request {
    const char *trace, *out, *json;
    struct symbol_places places;
    bool automatic, quiet, backup;
    struct symbolize_options symbolizing;
};

static const struct option_entry options[] = {
    OPTION_ENTRY_CALL("symbol-paths", 0, struct request, places, take_symbol_paths),
    OPTION_ENTRY("no-auto-symbol-paths", 0, OPTION_CLEAR, struct request, automatic),
    OPTION_ENTRY_CALL("breakpad-symbols", 0, struct request, places, take_breakpad_symbols),
    OPTION_ENTRY("no-backup", 0, OPTION_CLEAR, struct request, backup),
    OPTION_ENTRY("json", 0, OPTION_TEXT, struct request, json),
    OPTION_ENTRY("no-cache", 0, OPTION_SET, struct request, symbolizing.no_cache),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct request, quiet),
    OPTIONS_END,
};

/* --- summary --- */

static void print_json_module(struct json_writer *json, const struct symbolized_module *module)
{
    static const char *const sources[] = {"none", "dynsym", "symtab", "dwarf"};
    const struct symbol_found *found = &module->found;
    json_line(json);
    json_object(json, NULL);
    json_string(json, "path", module->path);
    json_string(json, "build_id", module->build_id);
    json_string(json, "file", found->path);
    json_string(json, "source", found->path == NULL ? NULL : sources[found->quality]);
    json_string(json, "other_build", found->other_build);
    json_string(json, "breakpad", module->breakpad);
    json_string(json, "problem", module->problem);
    json_unsigned(json, "addresses", module->addresses);
    json_unsigned(json, "with_lines", module->with_lines);
    json_unsigned(json, "with_names", module->with_names);
    json_unsigned(json, "frames", module->frames);
    json_unsigned(json, "damaged_units", module->damaged_units);
    json_unsigned(json, "missing_units", module->missing_units);
    json_object(json, "without");
    for (int reason = 0; reason < SYMBOL_REASONS; reason++)
        json_unsigned(json, symbol_reasons[reason].name, module->without[reason]);
    json_end_object(json);
    json_end_object(json);
}

/* Write the summary as JSON. `naming`: of a MemoryInfra file; NULL for a trace. */
static int write_json(const char *path, const struct symbolize_report *report,
                      const struct import_naming *naming)
{
    struct output_file file;
    struct error error;
    FILE *out = conversion_open_details(&file, path, &error);
    if (out == NULL)
        return verb_fail(&error);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    if (naming != NULL) {
        size_t named;
        json_unsigned(&json, "frames", symbolize_file_count(naming, &named));
        json_unsigned(&json, "named", named);
        json_unsigned(&json, "no_region", naming->strays[IMPORT_NO_REGION]);
        json_unsigned(&json, "no_maps", naming->strays[IMPORT_NO_MAPS]);
        json_unsigned(&json, "no_file", naming->strays[IMPORT_NO_FILE]);
    }
    json_array(&json, "modules");
    for (size_t i = 0; i < report->count; i++)
        print_json_module(&json, &report->modules[i]);
    json_end_array(&json);
    json_end_object(&json);
    fputc('\n', out);
    return output_file_close(&file, 0, &error) < 0 ? verb_fail(&error) : 0;
}

/* --- the work --- */

static int symbolize(const struct request *request, const char *path,
                     const struct trace_addresses *addresses, struct symbolize_report *report,
                     struct error *error)
{
    struct symbolize_options symbolizing = request->symbolizing;
    struct symbol_finder *finder = NULL;
    struct output_file file = {.fd = -1};
    int result = symbol_places_open(&request->places, request->automatic, &finder,
                                    &symbolizing.breakpad, error);
    if (result == 0)
        result = conversion_open_output(&file, request->out, path, false, error);
    if (result >= 0)
        result = symbol_options_symbolize(&symbolizing, addresses, finder, file.fd, report,
                                          request->quiet, error);
    result = output_file_close(&file, result, error);
    symbol_finder_close(finder);
    breakpad_store_close(symbolizing.breakpad);
    return result;
}

/* Symbolize MemoryInfra JSON. Return the exit code. */
static int rewrite(const struct request *request, const char *path, const char *out)
{
    struct symbolize_file file = {
        .path = path,
        .out = out,
        .backup = request->backup,
        .quiet = request->quiet,
        .naming.symbolizing = request->symbolizing,
    };
    struct import_naming *naming = &file.naming;
    struct error error;
    int result = symbol_places_open(&request->places, request->automatic, &naming->finder,
                                    &naming->symbolizing.breakpad, &error);
    if (result == 0)
        result = symbolize_file_run(&file, &error);
    int status = result < 0 ? verb_fail(&error) : 0;
    if (result == 0 && request->json != NULL)
        status = write_json(request->json, &naming->report, naming);
    import_naming_clear(naming);
    symbol_finder_close(naming->finder);
    breakpad_store_close(naming->symbolizing.breakpad);
    return status;
}

static int run(const struct request *request)
{
    char path[PATH_MAX];
    struct trace_addresses addresses = {0};
    struct symbolize_report report = {0};
    struct error error = {0};
    int status, result = conversion_find_input(request->trace, path, &error);
    bool is_input = result == 0 && strcmp(path, "-") == 0;
    if (is_input)
        result = conversion_keep_input(path, &error);
    if (result == 0 && symbolize_file_is_json(path))
        return rewrite(request, path, request->out == NULL && is_input ? "-" : request->out);
    if (result == 0 && conversion_is_no_trace(path, &error))
        result = error.code;
    if (result == 0)
        result = trace_addresses_read(&addresses, path, &error);
    if (addresses.warning[0] != '\0')
        conversion_warn("%s", addresses.warning);
    if (result == 0)
        result = symbolize(request, path, &addresses, &report, &error);
    if (result < 0) {
        status = verb_fail(&error);
    } else {
        status = 0;
        if (!request->quiet)
            symbol_options_print_report(stderr, &report);
        if (request->json != NULL)
            status = write_json(request->json, &report, NULL);
    }
    symbolize_report_clear(&report);
    trace_addresses_clear(&addresses);
    return status;
}

int convert_symbolize(int argc, char **argv)
{
    struct request request = {.automatic = true, .backup = true};
    struct error error;
    int code = symbol_places_read(&request.places, &error);
    if (code < 0) {
        verb_fail(&error);
        code = VERB_USAGE;
    } else {
        code = conversion_parse(argc, argv, help, options, 2, &request);
    }
    if (code < 0) {
        request.trace = argc > optind ? argv[optind] : NULL;
        request.out = argc > optind + 1 ? argv[optind + 1] : NULL;
        code = run(&request);
    }
    symbol_places_clear(&request.places);
    return code;
}
