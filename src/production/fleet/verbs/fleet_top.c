/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet top and flamegraph: the profile of a selection, as `report` prints it, or as a
 * file that other tools open. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "production/fleet/verbs/fleet.h"
#include "tools/cli/convert/conversions.h"
#include "tools/export/pprof.h"
#include "tools/export/trace.h"
#include "tools/print/format.h"
#include "util/output_file.h"
#include "util/packed_file.h"

static const char top_help[] =
    "usage: heap_profile fleet top [options]\n"
    "\n"
    "Shows which callsites of all machines hold most memory, or allocate most. Live memory is the\n"
    "mean over the time, of all processes together.\n"
    "\n" FLEET_SELECTION_HELP
    "  --view VIEW     space (default), objects, alloc_space, alloc_objects\n"
    "  --cumulative, --tree, --stacks, --top N   as for heap_profile report\n"
    "  --export FILE   write the profile instead: a pprof file if FILE ends in .pb, .pprof or\n"
    "                  .gz, else a trace\n" FILTER_HELP FRAMES_HELP DEMANGLE_FULL_HELP
    "  --json          print all figures as JSON (docs/report.md)\n" FLEET_SERVER_HELP;

static const struct option_entry top_options[] = {
    FLEET_SERVER_OPTIONS,
    FLEET_SELECTION_OPTIONS,
    VIEW_OPTION(struct fleet_request, report.view),
    OPTION_ENTRY("top", 0, OPTION_NUMBER, struct fleet_request, report.top),
    OPTION_ENTRY("cumulative", 0, OPTION_SET, struct fleet_request, report.cumulative),
    OPTION_ENTRY("tree", 0, OPTION_SET, struct fleet_request, report.tree),
    OPTION_ENTRY("stacks", 0, OPTION_SET, struct fleet_request, report.stacks),
    OPTION_ENTRY("export", 0, OPTION_TEXT, struct fleet_request, export),
    FILTER_OPTIONS(struct fleet_request, filter),
    FRAMES_OPTION(struct fleet_request, report.all_frames),
    DEMANGLE_OPTION(struct fleet_request, demangling),
    OPTION_ENTRY("json", 0, OPTION_SET, struct fleet_request, json),
    OPTIONS_END,
};

static bool ends_in(const char *path, const char *end)
{
    size_t length = strlen(path), end_length = strlen(end);
    return length > end_length && strcmp(path + length - end_length, end) == 0;
}

static bool is_pprof_name(const char *path)
{
    return ends_in(path, ".pb") || ends_in(path, ".pprof") || packed_file_is_name(path);
}

/* A pprof file has one heap: the one that holds most, which is the first. */
static int write_pprof(const struct profile *profile, bool gzip, int fd)
{
    const struct pprof_options options = {.gzip = gzip, .annotated = true};
    const struct profile_heap *heap = &profile->heaps[0];
    if (profile->heap_count > 1)
        format_printf(stderr,
                      "heap_profile: a pprof file has one heap: this one has %s; --label heap=NAME "
                      "chooses another\n",
                      heap->name);
    return pprof_write(profile, heap, &heap->dumps[0], &options, fd, NULL) < 0 ? -EIO : 0;
}

static int export(const struct profile *profile, const char *path)
{
    struct output_file file;
    struct error error = {0};
    int code = output_file_open(&file, path, 0, &error);
    if (code < 0)
        return verb_fail(&error);
    if (is_pprof_name(path))
        code = write_pprof(profile, packed_file_is_name(path), file.fd);
    else
        code = export_trace(profile, "fleet", file.fd, &error);
    code = output_file_close(&file, code, &error);
    return code < 0 ? verb_fail(&error) : VERB_DONE;
}

static int fleet_top_print(const struct profile *profile, const struct fleet_request *request)
{
    struct error error = {0};
    bool whole_stacks = request->json || request->report.stacks;
    if (report_check_size(profile, &request->report, whole_stacks, &error) < 0)
        return verb_fail(&error);
    int result = request->json ? report_print_json(profile, &request->report, stdout)
                               : report_print_text(profile, &request->report, stdout);
    return verb_end_output("report", result != 0 ? VERB_FAILED : VERB_DONE);
}

/* The default time of questions about the present. */
static void default_to_day(struct fleet_request *request)
{
    if (request->selection.since_s < 0)
        request->selection.since_s = request->now_s - FLEET_DAY_S;
    fleet_selection_round(&request->selection);
}

int fleet_top(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet top", top_help, top_options, false};
    struct fleet_request request = {0};
    struct fleet_facts facts;
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0) {
        code = VERB_FAILED;
        default_to_day(&request);
        struct clickhouse *server = fleet_connect(&request);
        struct profile *profile = NULL;
        if (server != NULL)
            profile = fleet_read(server, &request, &request.selection, 0, &facts);
        if (profile != NULL)
            code = request.export != NULL ? export(profile, request.export)
                                          : fleet_top_print(profile, &request);
        profile_free(profile);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}

/* --- flame graph --- */

static const char flamegraph_help[] = "usage: heap_profile fleet flamegraph [options] [OUT]\n"
                                      "\n"
                                      "Writes a web page with flame graphs of what all machines "
                                      "hold and allocate. OUT '-', or none,\n"
                                      "is standard output.\n"
                                      "\n" FLEET_SELECTION_HELP FLEET_SERVER_HELP;

static const struct option_entry flamegraph_options[] = {
    FLEET_SERVER_OPTIONS,
    FLEET_SELECTION_OPTIONS,
    OPTIONS_END,
};

/* The page is made of a pprof file, which, unlike a trace, has no peak that would be 0. */
static int write_page(const struct profile *profile, char *out)
{
    int fd = memfd_create("fleet", MFD_CLOEXEC);
    if (fd < 0 || write_pprof(profile, false, fd) < 0) {
        format_printf(stderr, "heap_profile: cannot make the flame graph: %s\n", strerror(errno));
        if (fd >= 0)
            close(fd);
        return VERB_FAILED;
    }
    char verb[] = "flamegraph", path[64];
    char *arguments[] = {verb, path, out, NULL};
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    optind = 0; /* begin anew */
    int code = conversion_find("flamegraph")->run(out == NULL ? 2 : 3, arguments);
    close(fd);
    return code;
}

int fleet_flamegraph(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile fleet flamegraph", flamegraph_help,
                                          flamegraph_options, false};
    struct fleet_request request = {0};
    struct fleet_facts facts;
    int code = fleet_parse(&line, argc, argv, &request);
    if (code < 0) {
        code = VERB_FAILED;
        char *out = optind < argc ? argv[optind] : NULL;
        default_to_day(&request);
        struct clickhouse *server = fleet_connect(&request);
        struct profile *profile = NULL;
        if (server != NULL)
            profile = fleet_read(server, &request, &request.selection, 0, &facts);
        if (profile != NULL)
            code = write_page(profile, out);
        profile_free(profile);
        clickhouse_close(server);
    }
    fleet_request_clear(&request);
    return code;
}
