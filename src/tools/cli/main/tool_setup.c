/* SPDX-License-Identifier: Apache-2.0 */
/* Opens closed standard descriptors, tunes malloc, and has traces read with the names that the
 * environment offers. */
#include "tools/cli/main/tool_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/builder/profile_read.h"
#include "profile/deobfuscate/deobfuscate.h"
#include "profile/profile.h"
#include "tools/cli/files/symbol_options.h"
#include "tools/cli/record/symbol_candidates.h"
#include "tools/print/format.h"
#include "tools/print/wait_notice.h"
#include "util/xmalloc.h"

/*
 * Names for a trace that is read, from the places that the environment names: functions and lines
 * from PERFETTO_BINARY_PATH (searched as PERFETTO_SYMBOLIZER_MODE says), Java's names by the maps
 * of PERFETTO_PROGUARD_MAP. So every tool honours them, as Perfetto's trace processor does.
 */

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

/* Return a descriptor of packets with names, or -1 if no names were found. What cannot be read is a
 * warning. This is a profile_read_further (profile_read.h). */
static int environment_names_find(const struct profile *unfinished)
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

/*
 * Open closed standard descriptors on /dev/null, read-only, so that no trace, cache or temporary
 * file gets their numbers. Writing to them still fails, and a command that a verb runs gets them
 * closed.
 */
static void open_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* open() takes the lowest free number, which is `fd`. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) != fd)
            return;
    }
}

/*
 * The tools allocate one large buffer (symbol tables, traces) after the other and end soon.
 * Returning the pages and fetching them again would cost a fifth of the run time in page faults.
 */
static void keep_freed_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
}

void tool_setup(void)
{
    open_standard_files();
    wait_notice_announce_outputs();
    keep_freed_memory();
    profile_read_further = environment_names_find;
}
