/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the input and output of conversions, and prints their errors. */
#include "tools/cli/files/conversion_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/import/import.h"
#include "tools/cli/files/output_directory.h"
#include "tools/cli/options/options.h"
#include "tools/print/format.h"
#include "util/regular_file.h"
#include "util/xmalloc.h"

int conversion_find_input(const char *argument, char path[PATH_MAX], struct error *error)
{
    if (argument != NULL ? strcmp(argument, "-") != 0 : isatty(STDIN_FILENO))
        return output_find_trace(argument, path, error);
    strcpy(path, "-");
    return 0;
}

int conversion_keep_input(char path[PATH_MAX], struct error *error)
{
    char buffer[65536];
    ssize_t got;
    FILE *file = tmpfile();
    if (file == NULL)
        return error_set(error, -errno, "cannot keep standard input in a temporary file: %s",
                         strerror(errno));
    while ((got = read(STDIN_FILENO, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR))
        if (got > 0 && fwrite(buffer, 1, (size_t)got, file) != (size_t)got)
            break;
    if (got != 0 || fflush(file) != 0)
        return error_set(error, -errno, "cannot keep standard input: %s", strerror(errno));
    snprintf(path, PATH_MAX, "/proc/self/fd/%d", fileno(file));
    return 0;
}

int conversion_open_output(struct output_file *file, const char *out, const char *input,
                           bool is_text, struct error *error)
{
    if (out == NULL || strcmp(out, "-") == 0) {
        if (!is_text && isatty(STDOUT_FILENO))
            return error_set(error, -EINVAL,
                             "the output is binary and would go to a terminal: name a file");
        int flags = fcntl(STDOUT_FILENO, F_GETFL);
        if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
            return error_set(error, -EBADF, "standard output is closed: name a file to write to");
        return output_file_open(file, "/dev/stdout", 0, error);
    }
    if (regular_file_is_same(out, input))
        return error_set(error, -EINVAL, "%s is the trace itself: name another file to write to",
                         out);
    return output_file_open(file, out, 0, error);
}

FILE *conversion_open_details(struct output_file *file, const char *path, struct error *error)
{
    const char *place = strcmp(path, "-") == 0 ? "/dev/stderr" : path;
    if (output_file_open(file, place, OUTPUT_FILE_SHARED, error) < 0)
        return NULL;
    return xmalloc_made(output_file_stream(file));
}

bool conversion_is_no_trace(const char *path, struct error *error)
{
    enum import_kind kind = strcmp(path, "-") == 0 ? IMPORT_TRACE : import_kind_of_file(path);
    if (kind == IMPORT_UNKNOWN)
        error_set(error, -EINVAL, "%.250s is not a trace, nor any other file that is read here",
                  strncmp(path, "/proc/self/fd/", 14) == 0 ? "standard input" : path);
    else if (kind != IMPORT_TRACE)
        error_set(error, -EINVAL, "%.250s is not a trace but %s%s: heap_profile report reads it",
                  strncmp(path, "/proc/self/fd/", 14) == 0 ? "standard input" : path,
                  import_kind_words(kind),
                  kind == IMPORT_MEMORY_INFRA ? ", which `symbolize` gives names" : "");
    return kind != IMPORT_TRACE;
}

void conversion_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    format_printf(stderr, "%s: warning: ", program_invocation_short_name);
    format_vprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int conversion_parse(int argc, char **argv, const char *help, const struct option_entry *options,
                     int most, void *request)
{
    char command[64];
    snprintf(command, sizeof(command), "%.40s %.20s", program_invocation_short_name, argv[0]);
    const struct verb_line line = {command, help, options, false};
    int code = options_parse(&line, argc, argv, request);
    if (code >= 0 || argc - optind <= most)
        return code;
    format_printf(stderr, "%s: '%s' is one argument too many; see %s --help\n",
                  program_invocation_short_name, argv[optind + most], command);
    return VERB_USAGE;
}
