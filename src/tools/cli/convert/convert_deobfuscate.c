/* SPDX-License-Identifier: Apache-2.0 */
/* Adds names for a trace's obfuscated Java code: parses the options, and prints what each map named
 * and what to do if it named nothing. profile/deobfuscate/deobfuscate.h does the work. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/deobfuscate/deobfuscate.h"
#include "tools/cli/convert/conversions.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/options/options.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "tools/print/wait_notice.h"
#include "util/json_writer.h"

static const char help[] =
    "usage: traceconv deobfuscate [options] [TRACE] [OUT]\n"
    "\n"
    "  Writes the names that ProGuard or R8 maps contain for a trace's Java code, as packets\n"
    "  that can be appended to it: traceconv deobfuscate raw-trace names;\n"
    "  cat raw-trace names > named-trace.\n"
    "\n" CONVERSION_INPUT_HELP CONVERSION_OUTPUT_HELP "\n"
    "  --proguard-map [PACKAGE=]FILE   the map of a package, or of all code; repeatable; in\n"
    "                                  addition to PERFETTO_PROGUARD_MAP\n"
    "  --whole-maps                    write the whole maps, not only the names that this trace\n"
    "                                  needs\n"
    "  --json FILE                     write the summary as JSON ('-': standard error)\n"
    "  -q, --quiet                     no summary\n"
    "      --help, --version\n"
    "\n"
    "  PERFETTO_PROGUARD_MAP=package=file:package=file   the maps\n";

struct request {
    const char *trace, *out, *json;
    struct deobfuscate_maps maps;
    bool whole, quiet;
};

static bool take_map(void *member, const char *name, const char *value)
{
    (void)name;
    struct error error;
    const char *equals = strchr(value, '=');
    wait_notice_announce_input(equals != NULL ? equals + 1 : value);
    if (deobfuscate_maps_add(member, value, &error) == 0)
        return true;
    verb_fail(&error);
    return false;
}

static const struct option_entry options[] = {
    OPTION_ENTRY_CALL("proguard-map", 0, struct request, maps, take_map),
    OPTION_ENTRY("whole-maps", 0, OPTION_SET, struct request, whole),
    OPTION_ENTRY("json", 0, OPTION_TEXT, struct request, json),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct request, quiet),
    OPTIONS_END,
};

/* --- summary --- */

static void print_known_packages(const struct trace_names *names)
{
    static const size_t most = 5;
    for (size_t i = 0; i < names->package_count && i < most; i++)
        format_printf(stderr, "%s%.60s", i == 0 ? "    the trace has " : ", ", names->packages[i]);
    if (names->package_count > most)
        fprintf(stderr, " and %zu more", names->package_count - most);
    if (names->package_count > 0)
        fputc('\n', stderr);
}

static void print_summary(const struct deobfuscate_report *report, const struct trace_names *names)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct deobfuscate_result *result = &report->results[i];
        const char *remedy = deobfuscate_remedy(result);
        format_printf(stderr, "%s (%s): %zu of the trace's %zu names belong to its %zu classes; ",
                      *result->package != '\0' ? result->package : "all packages", result->path,
                      result->names, report->trace_names, result->classes);
        fprintf(stderr, "%zu classes and %zu methods written\n", result->written_classes,
                result->written_methods);
        if (result->unknown_lines > 0)
            fprintf(stderr, "  %zu of %zu lines are unknown and were skipped\n",
                    result->unknown_lines, result->lines);
        if (remedy != NULL)
            format_printf(stderr, "  it names nothing: %s\n", remedy);
        if (!result->package_in_trace)
            print_known_packages(names);
    }
}

static void print_json_result(struct json_writer *json, const struct deobfuscate_result *result)
{
    json_line(json);
    json_object(json, NULL);
    json_string(json, "package", result->package);
    json_string(json, "path", result->path);
    json_unsigned(json, "lines", result->lines);
    json_unsigned(json, "unknown_lines", result->unknown_lines);
    json_unsigned(json, "classes", result->classes);
    json_unsigned(json, "methods", result->methods);
    json_unsigned(json, "fields", result->fields);
    json_unsigned(json, "written_classes", result->written_classes);
    json_unsigned(json, "written_methods", result->written_methods);
    json_unsigned(json, "written_fields", result->written_fields);
    json_unsigned(json, "names", result->names);
    json_unsigned(json, "unlisted_names", result->unlisted);
    json_bool(json, "package_in_trace", result->package_in_trace);
    json_string(json, "remedy", deobfuscate_remedy(result));
    json_end_object(json);
}

static int write_json(const char *path, const struct deobfuscate_report *report)
{
    struct output_file file;
    struct error error;
    FILE *out = conversion_open_details(&file, path, &error);
    if (out == NULL)
        return verb_fail(&error);
    struct json_writer json = json_begin(out);
    json_object(&json, NULL);
    json_unsigned(&json, "trace_names", report->trace_names);
    json_array(&json, "maps");
    for (size_t i = 0; i < report->count; i++)
        print_json_result(&json, &report->results[i]);
    json_end_array(&json);
    json_end_object(&json);
    fputc('\n', out);
    return output_file_close(&file, 0, &error) < 0 ? verb_fail(&error) : 0;
}

/* --- the work --- */

static int convert_deobfuscate_run(struct request *request)
{
    char path[PATH_MAX];
    struct trace_names names = {0};
    struct deobfuscate_report report = {0};
    struct error error = {0};
    struct output_file file = {.fd = -1};
    int status, result = conversion_find_input(request->trace, path, &error);
    struct progress shown = result == 0 ? progress_begin(path, false) : (struct progress){0};
    if (result == 0 && conversion_is_no_trace(path, &error))
        result = error.code;
    if (result == 0)
        result = trace_names_read(&names, path, progress_show_bytes, &shown, &error);
    progress_end(&shown);
    if (names.warning[0] != '\0')
        conversion_warn("%s", names.warning);
    if (result == 0)
        result = conversion_open_output(&file, request->out, path, false, &error);
    if (result >= 0) {
        names.has_heap_graph |= request->whole;
        shown = progress_begin(path, isatty(file.fd));
        request->maps.tell = progress_show_lines;
        request->maps.tell_context = &shown;
        result = deobfuscate_write(&request->maps, &names, file.fd, &report, &error);
        progress_end(&shown);
        result = output_file_close(&file, result, &error);
    }
    if (result < 0) {
        status = verb_fail(&error);
    } else {
        status = 0;
        if (!request->quiet)
            print_summary(&report, &names);
        if (request->json != NULL)
            status = write_json(request->json, &report);
    }
    deobfuscate_report_clear(&report);
    trace_names_clear(&names);
    return status;
}

int convert_deobfuscate(int argc, char **argv)
{
    struct request request = {0};
    struct error error;
    int code = deobfuscate_maps_add_list(&request.maps, getenv("PERFETTO_PROGUARD_MAP"), &error);
    if (code < 0) {
        verb_fail(&error);
        code = VERB_USAGE;
    } else {
        code = conversion_parse(argc, argv, help, options, 2, &request);
    }
    if (code < 0 && request.maps.count == 0) {
        format_printf(stderr,
                      "%s: no map: give PERFETTO_PROGUARD_MAP=package=FILE or --proguard-map "
                      "[PACKAGE=]FILE\n",
                      program_invocation_short_name);
        code = VERB_USAGE;
    } else if (code < 0) {
        request.trace = argc > optind ? argv[optind] : NULL;
        request.out = argc > optind + 1 ? argv[optind + 1] : NULL;
        code = convert_deobfuscate_run(&request);
    }
    deobfuscate_maps_clear(&request.maps);
    return code;
}
