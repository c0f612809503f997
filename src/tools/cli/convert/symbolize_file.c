/* SPDX-License-Identifier: Apache-2.0 */
/* Symbolizes a MemoryInfra file, replaces it or writes a copy, and prints a summary. */
#include "tools/cli/convert/symbolize_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/convert/memory_infra_file.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/files/symbol_options.h"
#include "tools/print/format.h"
#include "trace/read/trace_source.h"
#include "util/regular_file.h"

#define PEEK_BYTES 4096u
#define BACKUPS_MAX 1000

bool symbolize_file_is_json(const char *path)
{
    struct error error;
    struct trace_source *source = trace_source_open(path, &error);
    size_t length = 0;
    if (source == NULL)
        return false;
    const uint8_t *bytes = trace_source_peek(source, PEEK_BYTES, &length);
    bool is_json =
        bytes != NULL && import_kind_of(bytes, length, length < PEEK_BYTES) == IMPORT_MEMORY_INFRA;
    trace_source_close(source);
    return is_json;
}

/* --- files --- */

enum packing { PLAIN, GZIP, OTHER };

static enum packing packing_of(const char *path)
{
    unsigned char mark[4] = {0};
    struct stat status;
    int fd = regular_file_open(path, &status);
    ssize_t got = fd < 0 ? 0 : read(fd, mark, sizeof(mark));
    if (fd >= 0)
        close(fd);
    if (got >= 2 && mark[0] == 0x1f && mark[1] == 0x8b)
        return GZIP;
    return got == 4 && memcmp(mark, "\x28\xb5\x2f\xfd", 4) == 0 ? OTHER : PLAIN;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), suffix = strlen(end);
    return length >= suffix && strcmp(text + length - suffix, end) == 0;
}

/* Give the copy the permissions of the trace, and its owner if we may. */
static void copy_permissions(int fd, const char *like)
{
    struct stat status;
    if (stat(like, &status) == 0 &&
        (fchown(fd, status.st_uid, status.st_gid) == 0 || errno == EPERM) &&
        fchmod(fd, status.st_mode & 0777) != 0)
        conversion_warn("%s: its permissions are not kept: %s", like, strerror(errno));
}

/* Keep the original under a second, unused name. */
static int keep_original(const struct output_file *file, const char *target, char backup[PATH_MAX],
                         struct error *error)
{
    char name[NAME_MAX + 1];
    for (int i = 0; i < BACKUPS_MAX; i++) {
        char number[16] = "";
        if (i > 0)
            snprintf(number, sizeof(number), ".%d", i);
        if (snprintf(name, sizeof(name), "%s.BACKUP%s", file->name, number) >= (int)sizeof(name) ||
            snprintf(backup, PATH_MAX, "%s.BACKUP%s", target, number) >= PATH_MAX)
            return error_set(error, -ENAMETOOLONG, "%s: its name is too long", target);
        if (linkat(file->directory, file->name, file->directory, name, 0) == 0)
            return 0;
        if (errno == EEXIST)
            continue;
        /* Without hard links, rename the original: it is missing for a moment. */
        if (renameat2(file->directory, file->name, file->directory, name, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return error_set(error, -errno, "%s: cannot be kept as %s: %s; --no-backup keeps none",
                             target, backup, strerror(errno));
    }
    return error_set(error, -EEXIST, "%s: has %d backups already; remove some, or --no-backup",
                     target, BACKUPS_MAX);
}

/* --- messages --- */

size_t symbolize_file_count(const struct import_naming *naming, size_t *named)
{
    size_t frames = 0;
    *named = 0;
    for (size_t i = 0; i < naming->report.count; i++) {
        frames += naming->report.modules[i].addresses;
        *named += naming->report.modules[i].with_lines + naming->report.modules[i].with_names;
    }
    for (int i = 0; i < IMPORT_STRAYS; i++)
        frames += naming->strays[i];
    return frames;
}

static void print_strays(const struct import_naming *naming)
{
    static const char no_region[] =
        "nothing was mapped there in any dump of the process; libraries that were unloaded before "
        "the first dump are not in the file: take a dump earlier";
    static const char no_maps[] =
        "the file has no memory regions of the process; detailed dumps have them";
    static const char no_file[] = "code in no file: the program generated it";
    static const char *const why[IMPORT_STRAYS] = {
        [IMPORT_NO_REGION] = no_region,
        [IMPORT_NO_MAPS] = no_maps,
        [IMPORT_NO_FILE] = no_file,
    };
    for (int i = 0; i < IMPORT_STRAYS; i++)
        if (naming->strays[i] > 0)
            format_printf(stderr, "  %zu address%s without a name: %s\n", naming->strays[i],
                          naming->strays[i] == 1 ? "" : "es", why[i]);
}

static void print_unchecked(const struct import_naming *naming)
{
    for (size_t i = 0; i < naming->report.count; i++) {
        const struct symbolized_module *module = &naming->report.modules[i];
        const char *from = module->breakpad != NULL ? module->breakpad : module->found.path;
        if (naming->by_name[i] && module->with_names + module->with_lines > 0)
            format_printf(
                stderr,
                "  %s: the dump does not have its build id: these names are from %s as it is now\n",
                module->path, from == NULL || strcmp(from, module->path) == 0 ? "the file" : from);
    }
}

static void print_summary(const struct symbolize_file *request, const char *warning)
{
    size_t named, frames = symbolize_file_count(&request->naming, &named);
    if (*warning != '\0')
        conversion_warn("%s: %s", request->path, warning);
    if (request->quiet || frames == 0)
        return;
    format_printf(stderr, "%s: %zu address%s without a name, %zu of these have one now\n",
                  request->path, frames, frames == 1 ? "" : "es", named);
    symbol_options_print_report(stderr, &request->naming.report);
    print_unchecked(&request->naming);
    print_strays(&request->naming);
}

static void print_outcome(const struct symbolize_file *request, const char *backup)
{
    size_t named, frames = symbolize_file_count(&request->naming, &named);
    if (request->quiet)
        return;
    if (named == 0)
        format_printf(stderr, "%s %s: %s\n", request->out == NULL ? request->path : request->out,
                      request->out == NULL ? "stays as it is" : "has no new names",
                      frames == 0 ? "there is nothing to symbolize" : "no name was found");
    else if (*backup != '\0')
        format_printf(stderr, "%s is rewritten; the original is %s\n", request->path, backup);
}

/* --- the work --- */

/* Rewrite the file in place, with links followed. */
static int rewrite(const struct symbolize_file *request, const struct profile *profile, bool gzip,
                   char backup[PATH_MAX], struct error *error)
{
    char target[PATH_MAX];
    struct output_file file;
    if (realpath(request->path, target) == NULL)
        return error_set(error, -errno, "%s: %s", request->path, strerror(errno));
    int result = output_file_open(&file, request->path, OUTPUT_FILE_RENAMED, error);
    if (result < 0)
        return result;
    result = memory_infra_file_write_all(profile, file.fd, gzip, error);
    /* If the original stays, a crash of the machine can cost this file only. */
    if (result == 0 && !request->backup && fsync(file.fd) != 0 && errno != EINVAL)
        result = error_set(error, -errno, "%s: cannot be written: %s", target, strerror(errno));
    if (result == 0 && request->backup)
        result = keep_original(&file, target, backup, error);
    return output_file_close(&file, result, error);
}

static int write_copy(const struct symbolize_file *request, const struct profile *profile,
                      bool gzip, struct error *error)
{
    struct output_file file;
    int result = conversion_open_output(&file, request->out, request->path, true, error);
    if (result < 0)
        return result;
    if (file.directory >= 0 && !file.replaces)
        copy_permissions(file.fd, request->path);
    result = memory_infra_file_write_all(profile, file.fd, gzip, error);
    return output_file_close(&file, result, error);
}

static int write_symbolized(const struct symbolize_file *request, const struct profile *profile,
                            char backup[PATH_MAX], struct error *error)
{
    enum packing packing = packing_of(request->path);
    struct stat status;
    bool gzip = packing == GZIP;
    if (request->out != NULL && strcmp(request->out, "-") != 0 &&
        (stat(request->out, &status) != 0 || S_ISREG(status.st_mode)))
        gzip = ends_with(request->out, ".gz") || (gzip && !ends_with(request->out, ".json"));
    if (request->out != NULL)
        return write_copy(request, profile, gzip, error);
    if (packing == OTHER)
        return error_set(error, -EINVAL,
                         "%s: it is compressed with zstd, which is not supported for output: name "
                         "a file to write to",
                         request->path);
    if (stat(request->path, &status) == 0 && !S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s: is no file", request->path);
    return rewrite(request, profile, gzip, backup, error);
}

static int check_output(const struct symbolize_file *request, struct error *error)
{
    struct stat in, out;
    if (request->out != NULL && stat(request->path, &in) == 0 && stat(request->out, &out) == 0 &&
        in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return error_set(error, -EINVAL,
                         "%s is the input file: leave OUT out to rewrite the file in place",
                         request->out);
    return 0;
}

int symbolize_file_run(struct symbolize_file *request, struct error *error)
{
    const struct profile_read_options options = {.demangling = DEMANGLE_FULL,
                                                 .naming = &request->naming};
    char backup[PATH_MAX] = "";
    size_t named;
    int result = check_output(request, error);
    if (result < 0)
        return result;
    bool progress = !request->quiet && isatty(STDERR_FILENO);
    request->naming.symbolizing.progress = progress ? symbol_options_show_progress : NULL;
    struct profile *profile = import_profile(request->path, &options, error);
    if (progress)
        fputs("\r\033[K", stderr);
    if (profile == NULL)
        return error->code;
    print_summary(request, profile->warning);
    symbolize_file_count(&request->naming, &named);
    if (request->out != NULL || named > 0)
        result = write_symbolized(request, profile, backup, error);
    if (result == 0)
        print_outcome(request, backup);
    profile_free(profile);
    return result;
}
