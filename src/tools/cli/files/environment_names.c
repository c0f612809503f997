/* SPDX-License-Identifier: Apache-2.0 */
/* Searches the places of the environment, and writes packets to a file in memory. */
#include "tools/cli/files/environment_names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/deobfuscate/deobfuscate.h"
#include "tools/cli/files/symbol_options.h"
#include "tools/cli/record/symbol_candidates.h"
#include "tools/print/format.h"
#include "util/xmalloc.h"

/* Warn once: a tool may read several traces, and the page of `view` reads them again and again. */
static void warn(const char *message)
{
    static atomic_flag has_warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&has_warned))
        format_printf(stderr, "%s: warning: %s\n", program_invocation_short_name, message);
}

static int symbolize(const struct profile *unfinished, struct symbol_finder *finder, int fd,
                     struct error *error)
{
    struct symbol_candidates candidates = {0};
    struct symbolize_report report = {0};
    const struct symbolize_options usual = {0};
    uint8_t *reasons = xcalloc(unfinished->mapping_count + 1, sizeof(*reasons));
    int code = 0;
    symbol_candidates_collect(&candidates, unfinished, finder, reasons);
    if (candidates.found.count > 0)
        code =
            symbol_options_symbolize(&usual, &candidates.found, finder, fd, &report, false, error);
    symbolize_report_clear(&report);
    symbol_candidates_clear(&candidates);
    free(reasons);
    return code;
}

/* Write symbols from the named directories alone, as Perfetto's tools do. */
static int write_symbols(const struct profile *unfinished, int fd, struct error *error)
{
    struct symbol_places places;
    struct error warning = {0};
    int code = symbol_places_read(&places, error);
    if (code < 0)
        return code;
    const struct symbol_finder_options finding = {.directories = places.directories,
                                                  .by_build_id = places.by_build_id};
    struct symbol_finder *finder = symbol_finder_open(&finding, &warning, error);
    code = finder == NULL ? error->code : symbolize(unfinished, finder, fd, error);
    if (warning.code != 0)
        warn(warning.message);
    symbol_finder_close(finder);
    symbol_places_clear(&places);
    return code;
}

static int write_java_names(const struct profile *unfinished, const char *list, int fd,
                            struct error *error)
{
    struct deobfuscate_maps maps = {0};
    struct deobfuscate_report report = {0};
    struct trace_names names = {0};
    int code = deobfuscate_maps_add_list(&maps, list, error);
    for (size_t i = 0; i < unfinished->frame_count && code == 0; i++)
        xmalloc_code(trace_names_add_frame(&names, unfinished->frames[i].linkage_name));
    if (code == 0)
        code = deobfuscate_write(&maps, &names, fd, &report, error);
    deobfuscate_report_clear(&report);
    trace_names_clear(&names);
    deobfuscate_maps_clear(&maps);
    return code;
}

int environment_names_find(const struct profile *unfinished)
{
    const char *paths = getenv("PERFETTO_BINARY_PATH"), *maps = getenv("PERFETTO_PROGUARD_MAP");
    struct error error = {0};
    bool has_paths = paths != NULL && *paths != '\0', has_maps = maps != NULL && *maps != '\0';
    int fd = -1;
    if ((!has_paths && !has_maps) || unfinished->frame_count == 0)
        return -1;
    if ((fd = memfd_create("names", MFD_CLOEXEC)) < 0)
        warn(strerror(errno));
    if (fd >= 0 && has_paths && write_symbols(unfinished, fd, &error) < 0)
        warn(error.message);
    if (fd >= 0 && has_maps && write_java_names(unfinished, maps, fd, &error) < 0)
        warn(error.message);
    if (fd >= 0 && lseek(fd, 0, SEEK_END) > 0 && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}
