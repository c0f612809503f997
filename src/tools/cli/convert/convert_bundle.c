/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one file of a trace and all names that can be found for it, appended as packets. The result
 * is a trace that every tool reads. (Perfetto's traceconv makes a tar archive of the same parts.)
 * Names that the trace already has are not added again.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/builder/profile_read.h"
#include "profile/deobfuscate/deobfuscate.h"
#include "profile/symbolize/known_symbols.h"
#include "tools/cli/convert/conversions.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/files/symbol_options.h"
#include "tools/cli/options/options.h"
#include "tools/cli/report/unnamed_frames.h"
#include "tools/print/format.h"
#include "trace/read/trace_source.h"
#include "util/write_all.h"
#include "util/xmalloc.h"

static const char help[] =
    "usage: traceconv bundle [options] TRACE OUT\n"
    "\n"
    "  Writes one trace that contains TRACE, the functions, files and lines of its code\n"
    "  addresses, and the names of obfuscated Java code. Then prints what is missing, why, and\n"
    "  the remedy. TRACE '-': standard input; OUT '-': standard output.\n"
    "\n"
    "  --symbol-paths DIR,...      directories with the executed files, or their debug files, at\n"
    "                              any depth and under any name; searched before the usual\n"
    "                              places (default: PERFETTO_BINARY_PATH, searched in the way\n"
    "                              that PERFETTO_SYMBOLIZER_MODE selects)\n"
    "  --no-auto-symbol-paths      search no other place\n"
    "  --breakpad-symbols DIR,...  directories with Breakpad symbol files, searched first\n"
    "  --proguard-map [PKG=]FILE   a ProGuard or R8 map for the code of a package, or for all\n"
    "                              code; repeatable; an unreadable map is an error\n"
    "  --no-auto-proguard-maps     do not use the maps of PERFETTO_PROGUARD_MAP and gradle's\n"
    "                              app/build/outputs/mapping/*/mapping.txt\n"
    "  --verbose                   print the file that each module's symbols come from\n"
    "  -q, --quiet                 no summary\n"
    "      --help, --version\n"
    "\n"
    "Exit code: 0, even if names are missing; 1 if a file cannot be read or written; 2 for wrong\n"
    "usage.\n";

struct request {
    const char *trace, *out;
    struct symbol_places places;
    struct deobfuscate_maps maps;      /* named by the user: each must be readable */
    struct deobfuscate_maps automatic; /* found without options: may be unreadable */
    bool automatic_places, automatic_maps, verbose, quiet;
};

static bool take_directories(void *member, const char *name, const char *value)
{
    struct symbol_places *places = member;
    places->by_build_id = true;
    return take_symbol_paths(member, name, value);
}

static bool take_map(void *member, const char *name, const char *value)
{
    (void)name;
    struct error error;
    return deobfuscate_maps_add(member, value, &error) == 0 || verb_fail(&error) == 0;
}

static const struct option_entry options[] = {
    OPTION_ENTRY_CALL("symbol-paths", 0, struct request, places, take_directories),
    OPTION_ENTRY("no-auto-symbol-paths", 0, OPTION_CLEAR, struct request, automatic_places),
    OPTION_ENTRY_CALL("breakpad-symbols", 0, struct request, places, take_breakpad_symbols),
    OPTION_ENTRY_CALL("proguard-map", 0, struct request, maps, take_map),
    OPTION_ENTRY("no-auto-proguard-maps", 0, OPTION_CLEAR, struct request, automatic_maps),
    OPTION_ENTRY("verbose", 0, OPTION_SET, struct request, verbose),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct request, quiet),
    OPTIONS_END,
};

/* --- the summary --- */

/* What making the bundle found. */
struct outcome {
    struct trace_addresses addresses;
    struct symbolize_report symbols; /* points into `addresses` */
    struct trace_names names;
    struct deobfuscate_report maps; /* the maps that the user named */
    int64_t added;                  /* number of names that the trace did not have */
};

static void outcome_clear(struct outcome *outcome)
{
    symbolize_report_clear(&outcome->symbols);
    trace_addresses_clear(&outcome->addresses);
    deobfuscate_report_clear(&outcome->maps);
    trace_names_clear(&outcome->names);
}

static void print_maps(const struct deobfuscate_report *maps)
{
    for (size_t i = 0; i < maps->count; i++) {
        const struct deobfuscate_result *result = &maps->results[i];
        const char *remedy = deobfuscate_remedy(result);
        format_printf(stderr, "%s: %zu of %zu Java names belong to its classes%s%s\n", result->path,
                      result->names, maps->trace_names,
                      remedy != NULL ? "; it names nothing: " : "", remedy != NULL ? remedy : "");
    }
}

static void print_files(const struct symbolize_report *symbols)
{
    static const char *const sources[] = {"no symbols", "what it exports", "its symbol table",
                                          "debug information"};
    for (size_t i = 0; i < symbols->count; i++) {
        const struct symbolized_module *module = &symbols->modules[i];
        format_printf(stderr, "  %s (build id %s): ", module->path,
                      module->build_id[0] != '\0' ? module->build_id : "none");
        if (module->breakpad != NULL)
            format_printf(stderr, "%s%s", module->breakpad,
                          module->found.path != NULL ? ", then " : "\n");
        if (module->found.path != NULL)
            format_printf(stderr, "%s: %s\n", module->found.path, sources[module->found.quality]);
        else if (module->breakpad == NULL)
            fputs("no file\n", stderr);
    }
}

/* Return the reasons by mapping of the profile. */
static uint8_t *find_reasons(const struct profile *profile, const struct symbolize_report *symbols)
{
    uint8_t *reasons = xcalloc(profile->mapping_count + 1, sizeof(*reasons));
    for (size_t i = 0; i < profile->mapping_count; i++) {
        const struct profile_mapping *mapping = &profile->mappings[i];
        for (size_t j = 0; j < symbols->count && reasons[i] == 0; j++)
            if (strcmp(symbols->modules[j].path, mapping->path) == 0 &&
                strcmp(symbols->modules[j].build_id, mapping->build_id) == 0)
                reasons[i] = symbol_options_main_reason(&symbols->modules[j]);
    }
    return reasons;
}

/* Read the bundle again and print the frames that still have no name. Return false if it cannot be
 * read, or is not a heap profile. */
static bool print_missing(const struct outcome *outcome, const char *path)
{
    struct error error;
    struct unnamed_modules unnamed = {0};
    const struct report_options all = {.view = EXPORT_ALLOC_SPACE};
    static const struct profile_read_options alone = {.demangling = DEMANGLE_FULL, .alone = true};
    struct profile *profile = strcmp(path, "-") == 0 ? NULL : profile_read(path, &alone, &error);
    bool done = profile != NULL && profile->heap_count > 0;
    if (done) {
        uint8_t *reasons = find_reasons(profile, &outcome->symbols);
        unnamed_collect(&unnamed, profile, &all, reasons);
        unnamed_print_text(stderr, &unnamed, &all, 0);
        if (unnamed.count == 0)
            fputs("every frame has a name\n", stderr);
        unnamed_clear(&unnamed);
        free(reasons);
    }
    profile_free(profile);
    return done;
}

/* Print the summary to standard error. If the bundle is a file, read it again, so that the summary
 * describes what the bundle contains. */
static void print_summary(const struct outcome *outcome, const char *path, bool verbose)
{
    size_t addresses = 0, lines = 0;
    for (size_t i = 0; i < outcome->symbols.count; i++) {
        addresses += outcome->symbols.modules[i].addresses;
        lines += outcome->symbols.modules[i].with_lines;
    }
    format_printf(stderr,
                  "%s: %zu code addresses in %zu modules, %zu of them with lines in local files; ",
                  path, addresses, outcome->symbols.count, lines);
    fprintf(stderr, "%lld names were added\n", (long long)outcome->added);
    if (verbose)
        print_files(&outcome->symbols);
    print_maps(&outcome->maps);
    if (!print_missing(outcome, path))
        symbol_options_print_report(stderr, &outcome->symbols);
}

/* --- default places --- */

/* Add the directories in which Android's builds keep symbols. */
static void add_build_directories(struct request *request)
{
    static const char *const built[] = {"app/build/intermediates/cmake",
                                        "app/build/intermediates/merged_native_libs", ".build-id"};
    const char *product = getenv("ANDROID_PRODUCT_OUT");
    char symbols[PATH_MAX];
    for (size_t i = 0; i < sizeof(built) / sizeof(built[0]); i++) {
        if (access(built[i], R_OK | X_OK) != 0)
            continue;
        request->places.by_build_id = true;
        symbol_places_add(&request->places, built[i]);
    }
    if (product != NULL && *product != '\0' &&
        snprintf(symbols, sizeof(symbols), "%s/symbols", product) < (int)sizeof(symbols) &&
        access(symbols, R_OK | X_OK) == 0)
        symbol_places_add(&request->places, symbols);
}

/* Where a build of Android's leaves a map for each of its variants. */
#define BUILT_MAPS "app/build/outputs/mapping"

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int find_maps(struct request *request, struct error *error)
{
    char path[PATH_MAX];
    struct dirent **variants = NULL;
    int result =
        deobfuscate_maps_add_list(&request->automatic, getenv("PERFETTO_PROGUARD_MAP"), error);
    int count = scandir(BUILT_MAPS, &variants, is_shown, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), BUILT_MAPS "/%s/mapping.txt", variants[i]->d_name);
        if (result == 0 && access(path, F_OK) == 0)
            result = deobfuscate_maps_add(&request->automatic, path, error);
        free(variants[i]);
    }
    free(variants);
    return result;
}

/* --- the parts --- */

/* Copy the complete packets of the trace, unpacked if the whole file is packed. */
static int copy_trace(const char *path, uint64_t length, int fd, struct error *error)
{
    static uint8_t buffer[256 * 1024];
    struct trace_source *source = trace_source_open(path, error);
    ssize_t got = 1;
    if (source == NULL)
        return error->code;
    while (length > 0 && got > 0) {
        size_t wanted = length < sizeof(buffer) ? (size_t)length : sizeof(buffer);
        got = trace_source_read(source, buffer, wanted, error);
        int code = got > 0 ? write_all(fd, buffer, (size_t)got) : 0;
        if (code < 0)
            got = error_set(error, code, "the bundle cannot be written: %s", strerror(-code));
        length -= got > 0 ? (uint64_t)got : 0;
    }
    trace_source_close(source);
    return got < 0 ? (int)got : 0;
}

static int find_symbols(const struct request *request, const char *path, int fd,
                        struct outcome *outcome, struct error *error)
{
    struct symbol_finder *finder = NULL;
    struct symbolize_options symbolizing = {0};
    int result = trace_addresses_read(&outcome->addresses, path, error);
    if (result == 0)
        result = symbol_places_open(&request->places, request->automatic_places, &finder,
                                    &symbolizing.breakpad, error);
    if (result == 0)
        result = symbol_options_symbolize(&symbolizing, &outcome->addresses, finder, fd,
                                          &outcome->symbols, request->quiet, error);
    symbol_finder_close(finder);
    breakpad_store_close(symbolizing.breakpad);
    return result;
}

/* Apply the maps one by one, so that an unreadable default map does not stop the others. */
static int find_names(struct request *request, const char *path, int fd, struct outcome *outcome,
                      struct error *error)
{
    if (request->maps.count + request->automatic.count == 0)
        return 0;
    int result = trace_names_read(&outcome->names, path, NULL, NULL, error);
    if (result == 0 && request->maps.count > 0)
        result = deobfuscate_write(&request->maps, &outcome->names, fd, &outcome->maps, error);
    for (size_t i = 0; i < request->automatic.count && result == 0; i++) {
        struct deobfuscate_maps one = {.items = &request->automatic.items[i], .count = 1};
        struct deobfuscate_report report = {0};
        struct error problem;
        if (deobfuscate_write(&one, &outcome->names, fd, &report, &problem) < 0)
            conversion_warn("%s", problem.message);
        else if (!request->quiet)
            print_maps(&report);
        deobfuscate_report_clear(&report);
    }
    return result;
}

/* Write the packets with names that are new to the trace to `fd`. */
static int add_new(struct known_symbols *known, int parts, int fd, int64_t *added,
                   struct error *error)
{
    struct stat status;
    if (fstat(parts, &status) != 0 || status.st_size == 0)
        return 0;
    void *packets = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, parts, 0);
    if (packets == MAP_FAILED)
        return error_set(error, -errno, "no memory for the symbols: %s", strerror(errno));
    *added = known_symbols_write_new(known, packets, (size_t)status.st_size, fd, error);
    munmap(packets, (size_t)status.st_size);
    return *added < 0 ? (int)*added : 0;
}

static int make_bundle(struct request *request, const char *path, struct outcome *outcome,
                       struct error *error)
{
    struct known_symbols known;
    struct output_file file = {.fd = -1};
    int parts = memfd_create("symbols", MFD_CLOEXEC);
    int result = known_symbols_read(&known, path, error);
    if (result == 0 && known.warning[0] != '\0')
        conversion_warn("%s; the part before that is bundled", known.warning);
    if (result == 0 && parts < 0)
        result = error_set(error, -errno, "no memory for the symbols: %s", strerror(errno));
    if (result == 0)
        result = find_symbols(request, path, parts, outcome, error);
    if (result == 0)
        result = find_names(request, path, parts, outcome, error);
    /* Open the output only now: if a map cannot be read, nothing is written. */
    if (result == 0)
        result = conversion_open_output(&file, request->out, path, false, error);
    if (result == 0)
        result = copy_trace(path, known.good_bytes, file.fd, error);
    if (result == 0)
        result = add_new(&known, parts, file.fd, &outcome->added, error);
    result = output_file_close(&file, result, error);
    if (parts >= 0)
        close(parts);
    known_symbols_clear(&known);
    return result;
}

static int convert_bundle_run(struct request *request)
{
    char path[PATH_MAX];
    struct outcome outcome = {0};
    struct error error = {0};
    int result = conversion_find_input(request->trace, path, &error);
    if (result == 0 && strcmp(path, "-") == 0)
        result = conversion_keep_input(path, &error);
    if (result == 0 && conversion_is_no_trace(path, &error))
        result = error.code;
    if (result == 0 && request->automatic_places)
        add_build_directories(request);
    if (result == 0 && request->automatic_maps)
        result = find_maps(request, &error);
    if (result == 0)
        result = make_bundle(request, path, &outcome, &error);
    if (result == 0 && !request->quiet)
        print_summary(&outcome, request->out, request->verbose);
    outcome_clear(&outcome);
    return result < 0 ? verb_fail(&error) : 0;
}

static int take_arguments(struct request *request, int argc, char **argv)
{
    if (argc - optind < 2) {
        format_printf(stderr,
                      "%s: which trace, and where to? As in: %s bundle raw-trace bundled-trace\n",
                      program_invocation_short_name, program_invocation_short_name);
        return VERB_USAGE;
    }
    request->trace = argv[optind];
    request->out = argv[optind + 1];
    return convert_bundle_run(request);
}

int convert_bundle(int argc, char **argv)
{
    struct request request = {.automatic_places = true, .automatic_maps = true};
    struct error error;
    int code = symbol_places_read(&request.places, &error);
    if (code < 0) {
        verb_fail(&error);
        code = VERB_USAGE;
    } else {
        code = conversion_parse(argc, argv, help, options, 2, &request);
    }
    if (code < 0)
        code = take_arguments(&request, argc, argv);
    deobfuscate_maps_clear(&request.maps);
    deobfuscate_maps_clear(&request.automatic);
    symbol_places_clear(&request.places);
    return code;
}
