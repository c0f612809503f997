/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the search for names in a child with few rights, and joins its output with the trace. */
#include "tools/cli/record/automatic_names.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profile/deobfuscate/deobfuscate.h"
#include "profile/symbolize/symbol_cache.h"
#include "profile/symbols/process_roots.h"
#include "tools/cli/files/symbol_options.h"
#include "tools/cli/record/symbol_candidates.h"
#include "tools/print/format.h"
#include "util/output_file.h"
#include "util/read_only_sandbox.h"
#include "util/write_all.h"
#include "util/xmalloc.h"

/* The task of the child. */
struct work {
    const struct output *output;
    const struct profile *profile;
    bool progress;
    struct output_file symbols, deobfuscation;
    uint8_t *reasons; /* by mapping, as in struct automatic_names; memory shared with the child */
};

static void warn(const char *what, const char *why)
{
    format_printf(stderr, "heap_profile: warning: %s: %s\n", what, why);
}

/* --- output files --- */

static int open_file(const struct output *output, const char *name, struct output_file *file)
{
    struct error error;
    int code =
        output_file_open_in(file, output->fd, output->directory, name, OUTPUT_FILE_NEW, &error);
    if (code < 0)
        warn("no names were added", error.message);
    return code;
}

/* Move the file to its name; discard it if it is not `whole`. Return whether it has its name. */
static bool close_file(struct output_file *file, bool whole)
{
    struct error error = {0};
    int code = output_file_close(file, whole ? 0 : -ECANCELED, &error);
    if (code < 0 && whole)
        warn("names", error.message);
    return code == 0;
}

/* Append `length` bytes of a file. The kernel copies them, or shares the blocks, if it can. */
static bool automatic_names_append(int to, int from, off_t length)
{
    off_t at = 0;
    char buffer[65536];
    while (at < length) {
        ssize_t copied = copy_file_range(from, &at, to, NULL, (size_t)(length - at), 0);
        if (copied > 0)
            continue;
        ssize_t got = pread(from, buffer, sizeof(buffer), at);
        if (got <= 0 || write_all(to, buffer, (size_t)got) < 0)
            return false;
        at += got;
    }
    return true;
}

static off_t length_of(int fd)
{
    struct stat status;
    return fd >= 0 && fstat(fd, &status) == 0 ? status.st_size : 0;
}

/* --- in the child --- */

/* Say which files have debug information that was not used. */
static void warn_of_problems(const struct symbolize_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        if (report->modules[i].problem != NULL)
            warn("no lines", report->modules[i].problem);
    }
}

static int write_symbols(const struct work *work)
{
    struct symbol_places places;
    struct symbol_candidates candidates = {0};
    struct symbolize_report report = {0};
    struct error error, warning = {0};
    if (symbol_places_read(&places, &error) < 0) {
        warn("no symbols", error.message);
        return 1;
    }
    const struct symbol_finder_options finding = {
        .directories = places.directories,
        .by_build_id = places.by_build_id,
        .automatic = true,
        .offline = true,
    };
    struct symbol_finder *finder = symbol_finder_open(&finding, &warning, &error);
    int result = finder == NULL ? error.code : 0;
    if (warning.code != 0)
        warn("symbols", warning.message);
    if (result == 0)
        symbol_candidates_collect(&candidates, work->profile, finder, work->reasons);
    const struct symbolize_options usual = {0};
    if (result == 0 && candidates.found.count > 0)
        result = symbol_options_symbolize(&usual, &candidates.found, finder, work->symbols.fd,
                                          &report, !work->progress, &error);
    symbol_candidates_set_reasons(&candidates, &report, work->reasons);
    warn_of_problems(&report);
    if (result < 0)
        warn("no symbols", error.message);
    return result < 0 ? 1 : 0;
}

static int write_deobfuscation(const struct work *work)
{
    struct deobfuscate_maps maps = {0};
    struct deobfuscate_report report = {0};
    struct trace_names names = {0};
    struct error error;
    int result = deobfuscate_maps_add_list(&maps, getenv("PERFETTO_PROGUARD_MAP"), &error);
    if (result == 0)
        result = trace_names_read(&names, work->output->trace, NULL, NULL, &error);
    if (result == 0)
        result = deobfuscate_write(&maps, &names, work->deobfuscation.fd, &report, &error);
    if (result < 0)
        warn("Java's names stay obfuscated", error.message);
    return result < 0 ? 1 : 0;
}

/* Run `write_it` in a child. Return its exit status, or -signal. */
static int run_child(const struct work *work, int (*write_it)(const struct work *))
{
    /* Let Ctrl-C end only the child: the profile is complete, and what remains takes little time.
     */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    int status = 0;
    pid_t parent = getpid();
    sigaction(SIGINT, NULL, &before);
    /* Keep our own handler: it passes the signal on to a command that still runs. */
    if (before.sa_handler == SIG_DFL)
        sigaction(SIGINT, &ignore, NULL);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        xmalloc_end = NULL;
        read_only_sandbox_enter(symbol_cache_directory());
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? write_it(work) : 1);
    }
    if (child < 0) {
        warn("no names were added", strerror(errno));
        status = 1 << 8; /* as if the child had exited with 1 */
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &before, NULL);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Write a file in a child. Return whether it has content. If the child fails, truncate the file. */
static bool make_file(struct work *work, const struct output_file *file,
                      int (*write_it)(const struct work *))
{
    int status = run_child(work, write_it);
    if (status < 0) {
        if (work->progress)
            fputs("\r\033[K", stderr);
        format_printf(
            stderr,
            "heap_profile: warning: the search for names was ended by signal %d (%s): %s bundle "
            "%s FILE repeats it\n",
            -status, strsignal(-status), program_invocation_name, work->output->directory);
    }
    if (status == 0 && length_of(file->fd) > 0)
        return true;
    if (ftruncate(file->fd, 0) != 0)
        warn("names", strerror(errno));
    return false;
}

/* --- the names --- */

static const char *const file_names[AUTOMATIC_NAMES_FILES] = {"symbols", "deobfuscation-packets"};

void automatic_names_find(const struct output *output, const struct profile *profile, bool quiet,
                          struct automatic_names *names)
{
    *names = (struct automatic_names){.reason_count = profile->mapping_count};
    /* A trace that is cut off inside a packet cannot be appended to. */
    if (profile->ends_early || profile->frame_count == 0)
        return;
    void *shared = mmap(NULL, profile->mapping_count + 1, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        warn("no names were added", strerror(errno));
        return;
    }
    names->reasons = shared;
    struct work work = {
        .output = output,
        .profile = profile,
        .progress = !quiet && isatty(STDERR_FILENO),
        .symbols.fd = -1,
        .deobfuscation.fd = -1,
        .reasons = names->reasons,
    };
    const char *maps = getenv("PERFETTO_PROGUARD_MAP");
    /* The child may not open these any more. */
    pid_t processes[TRACE_PROCESSES_MAX];
    process_roots_open(processes, symbol_candidates_processes(profile, processes));
    bool has_symbols = open_file(output, file_names[0], &work.symbols) == 0 &&
                       make_file(&work, &work.symbols, write_symbols);
    bool has_deobfuscation = maps != NULL && *maps != '\0' &&
                             open_file(output, file_names[1], &work.deobfuscation) == 0 &&
                             make_file(&work, &work.deobfuscation, write_deobfuscation);
    process_roots_close();
    names->has_file[0] = close_file(&work.symbols, has_symbols) && has_symbols;
    names->has_file[1] = close_file(&work.deobfuscation, has_deobfuscation) && has_deobfuscation;
}

static int open_part(const struct output *output, const char *name)
{
    int fd = openat(output->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        warn(name, strerror(errno));
    return fd;
}

int automatic_names_next(const struct output *output, struct automatic_names *names)
{
    while (names->next < AUTOMATIC_NAMES_FILES) {
        unsigned file = names->next++;
        if (names->has_file[file])
            return open_part(output, file_names[file]);
    }
    return -1;
}

static bool append_part(const struct output *output, int to, const char *name)
{
    int from = open_part(output, name);
    bool done = from >= 0 && automatic_names_append(to, from, length_of(from));
    if (from >= 0)
        close(from);
    return done;
}

bool automatic_names_write(const struct output *output, const struct automatic_names *names)
{
    struct output_file file = {.fd = -1};
    if (!names->has_file[0] && !names->has_file[1])
        return false;
    bool done = open_file(output, "symbolized-trace", &file) == 0 &&
                append_part(output, file.fd, "raw-trace");
    for (unsigned i = 0; i < AUTOMATIC_NAMES_FILES; i++)
        done = done && (!names->has_file[i] || append_part(output, file.fd, file_names[i]));
    if (!done)
        warn("no symbolized-trace", strerror(errno));
    return close_file(&file, done) && done;
}

void automatic_names_clear(struct automatic_names *names)
{
    if (names->reasons != NULL)
        munmap(names->reasons, names->reason_count + 1);
    *names = (struct automatic_names){0};
}
