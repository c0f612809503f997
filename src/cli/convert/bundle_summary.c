/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what a bundle added: names for addresses, and for obfuscated Java code. */
#include "cli/convert/bundle_summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/files/symbol_options.h"
#include "cli/print/format.h"
#include "cli/report/unnamed_frames.h"
#include "profile/builder/profile_read.h"

void bundle_outcome_clear(struct bundle_outcome *outcome)
{
    symbolize_report_clear(&outcome->symbols);
    trace_addresses_clear(&outcome->addresses);
    deobfuscate_report_clear(&outcome->maps);
    trace_names_clear(&outcome->names);
}

void bundle_summary_print_maps(const struct deobfuscate_report *maps)
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

/* Return the reasons by mapping of the profile; NULL: no memory. */
static uint8_t *find_reasons(const struct profile *profile, const struct symbolize_report *symbols)
{
    uint8_t *reasons = calloc(profile->mapping_count + 1, sizeof(*reasons));
    for (size_t i = 0; reasons != NULL && i < profile->mapping_count; i++) {
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
static bool print_missing(const struct bundle_outcome *outcome, const char *path)
{
    struct error error;
    struct unnamed_modules unnamed = {0};
    const struct report_options options = {.view = EXPORT_ALLOC_SPACE};
    struct profile *profile = strcmp(path, "-") == 0 ? NULL : profile_read(path, NULL, &error);
    bool done = profile != NULL && profile->heap_count > 0;
    if (done) {
        uint8_t *reasons = find_reasons(profile, &outcome->symbols);
        if (unnamed_collect(&unnamed, profile, &options, reasons) == 0) {
            unnamed_print_text(stderr, &unnamed, &options, 0);
            if (unnamed.count == 0)
                fputs("every frame has a name\n", stderr);
        }
        unnamed_clear(&unnamed);
        free(reasons);
    }
    profile_free(profile);
    return done;
}

void bundle_summary_print(const struct bundle_outcome *outcome, const char *path, bool verbose)
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
    bundle_summary_print_maps(&outcome->maps);
    if (!print_missing(outcome, path))
        symbol_options_print_report(stderr, &outcome->symbols);
}
