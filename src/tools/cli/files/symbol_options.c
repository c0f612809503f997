/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the places of symbol files from options and environment, and prints which addresses have no
 * names. */
#include "tools/cli/files/symbol_options.h"

#include <stdlib.h>
#include <unistd.h>

#include "profile/symbols/live_files.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/options/options.h"
#include "tools/print/format.h"
#include "util/base_name.h"
#include "util/xmalloc.h"

/* --- places --- */

/* Replace all directories by a list. */
static void set_places(struct symbol_places *places, const char *list, char separator)
{
    char *copy = xstrdup(list);
    free(places->directories);
    places->directories = copy;
    for (char *at = copy; separator != ':' && *at != '\0'; at++)
        *at = *at == separator ? ':' : *at;
}

void symbol_places_add(struct symbol_places *places, const char *directory)
{
    char *before = places->directories;
    places->directories =
        before == NULL ? xstrdup(directory) : xasprintf("%s:%s", before, directory);
    free(before);
}

int symbol_places_read(struct symbol_places *places, struct error *error)
{
    struct symbol_finder_options options = {0};
    int code = symbol_finder_options_from_environment(&options, error);
    *places = (struct symbol_places){.by_build_id = options.by_build_id};
    if (code == 0 && options.directories != NULL)
        set_places(places, options.directories, ':');
    return code;
}

/* Append a list of directories of Breakpad symbol files, separated by commas or colons. */
static void add_breakpad(struct symbol_places *places, const char *list)
{
    const char *before = places->breakpad == NULL ? "" : places->breakpad;
    char *joined = xasprintf("%s%s%s", before, *before == '\0' ? "" : ":", list);
    for (char *at = joined; *at != '\0'; at++)
        *at = *at == ',' ? ':' : *at;
    free(places->breakpad);
    places->breakpad = joined;
}

int symbol_places_open(const struct symbol_places *places, bool automatic,
                       struct symbol_finder **finder, struct breakpad_store **breakpad,
                       struct error *error)
{
    const struct symbol_finder_options options = {
        .directories = places->directories,
        .by_build_id = places->by_build_id,
        .automatic = automatic,
    };
    struct error warning = {0};
    *breakpad = NULL;
    *finder = symbol_finder_open(&options, &warning, error);
    if (*finder == NULL)
        return error->code;
    if (warning.code != 0)
        conversion_warn("%s", warning.message);
    if (places->breakpad == NULL)
        return 0;
    *breakpad = breakpad_store_open(places->breakpad, &warning, error);
    if (*breakpad == NULL)
        return error->code;
    if (warning.code != 0)
        conversion_warn("%s", warning.message);
    return 0;
}

void symbol_places_clear(struct symbol_places *places)
{
    free(places->breakpad);
    free(places->directories);
    *places = (struct symbol_places){0};
}

bool take_symbol_paths(void *member, const char *name, const char *value)
{
    (void)name;
    set_places(member, value, ',');
    return true;
}

bool take_breakpad_symbols(void *member, const char *name, const char *value)
{
    (void)name;
    add_breakpad(member, value);
    return true;
}

/* --- report --- */

/* Return the reason as text, with details from the module. */
static const char *reason_text(const struct symbolized_module *module, enum symbol_reason reason)
{
    if ((reason == SYMBOL_NO_FILE || reason == SYMBOL_OTHER_BUILD) &&
        live_files_is_deleted(module->path))
        return "the file was deleted or replaced while it was in use";
    if (reason == SYMBOL_NO_FILE && *module->build_id == '\0')
        return "there is no such file";
    return symbol_reasons[reason].text;
}

static void print_reasons(FILE *out, const struct symbolized_module *module)
{
    for (int reason = 0; reason < SYMBOL_REASONS; reason++) {
        size_t count = module->without[reason];
        if (count == 0)
            continue;
        format_printf(out, "  %s: %zu of %zu addresses without a name: %s", module->path, count,
                      module->addresses, reason_text(module, reason));
        if (reason == SYMBOL_OTHER_BUILD && module->found.other_build != NULL)
            format_printf(out, " (%s)", module->found.other_build);
        if (reason == SYMBOL_NO_INFORMATION)
            format_printf(out, " (in %s)",
                          module->found.path != NULL ? module->found.path : module->breakpad);
        if (*module->build_id != '\0')
            format_printf(out, " (build id %s)", module->build_id);
        format_printf(out, "; %s\n", symbol_reasons[reason].remedy);
    }
    if (module->missing_units > 0)
        format_printf(
            out,
            "  %s: inlined functions are missing from %zu units: %s is not there; keep the .dwo "
            "files where they were built\n",
            module->path, module->missing_units, module->missing_name);
    if (module->found.is_by_path && module->with_lines + module->with_names > 0)
        format_printf(
            out, "  %s: no build id: names and lines are those of %s, by its path alone%s\n",
            module->path, module->found.path,
            module->found.is_asked
                ? ""
                : " (it has not changed since the program began, and has the trace's names)");
    if (module->damaged_units > 0)
        format_printf(out, "  %s: %zu units of the debug information in %s cannot be read\n",
                      module->path, module->damaged_units, module->found.path);
    if (module->problem != NULL)
        format_printf(out, "  %s: its symbol file cannot be used: %s\n", module->path,
                      module->problem);
    if (module->breakpad == NULL && module->found.path != NULL &&
        module->found.quality < SYMBOLS_DWARF && module->with_names > 0)
        format_printf(
            out,
            "  %s: functions, but no files and lines: %s has no debug information; install "
            "its debug symbols, or build it with -g\n",
            module->path, module->found.path);
}

void symbol_options_print_report(FILE *out, const struct symbolize_report *report)
{
    size_t addresses = 0, lines = 0, names = 0, frames = 0;
    for (size_t i = 0; i < report->count; i++) {
        addresses += report->modules[i].addresses;
        lines += report->modules[i].with_lines;
        names += report->modules[i].with_names;
        frames += report->modules[i].frames;
    }
    format_printf(
        out,
        "%zu addresses in %zu modules: %zu with file and line, %zu with the function alone, %zu "
        "without a name; %zu functions, inlined ones included\n",
        addresses, report->count, lines, names, addresses - lines - names, frames);
    for (size_t i = 0; i < report->count; i++)
        print_reasons(out, &report->modules[i]);
}

uint8_t symbol_options_main_reason(const struct symbolized_module *module)
{
    size_t most = 0;
    uint8_t found = 0;
    for (int reason = 0; reason < SYMBOL_REASONS; reason++) {
        if (module->without[reason] <= most)
            continue;
        most = module->without[reason];
        found = (uint8_t)(1 + reason);
    }
    return found;
}

void symbol_options_show_progress(size_t done, size_t count, const struct trace_module *module)
{
    fputs("\r\033[K", stderr);
    format_printf(stderr, "symbolizing: %zu of %zu files: %.60s", done, count,
                  base_name(module->path));
}

int symbol_options_symbolize(const struct symbolize_options *options,
                             const struct trace_addresses *addresses, struct symbol_finder *finder,
                             int fd, struct symbolize_report *report, bool quiet,
                             struct error *error)
{
    bool progress = !quiet && isatty(STDERR_FILENO);
    struct symbolize_options with_progress = *options;
    with_progress.progress = progress ? symbol_options_show_progress : NULL;
    int code = symbolize_addresses(&with_progress, addresses, finder, fd, report, error);
    if (progress)
        fputs("\r\033[K", stderr);
    return code;
}
