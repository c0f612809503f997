/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a trace to protobuf text and back, and unpacks its compressed packets. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/convert/conversions.h"
#include "cli/files/conversion_io.h"
#include "cli/options/options.h"
#include "cli/print/progress.h"
#include "trace/text/trace_text.h"

#define READS                                                                                      \
    "  standard input. gzip, zstd and compressed packets are unpacked. OUT: '-' or none:\n"        \
    "  standard output.\n"                                                                         \
    "\n"                                                                                           \
    "      --help, --version\n"

static const char text_help[] =
    "usage: traceconv text [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes every packet of a trace as protobuf's text format. Fields that are not known stand\n"
    "  by their numbers, and comments '# wire: ...' say where bytes are other than usual: so\n"
    "  traceconv binary makes the same trace of it again, byte for byte; of a compressed one\n"
    "  what traceconv decompress_packets writes. TRACE: '-', or none where it is not a "
    "terminal:\n" READS;

static const char binary_help[] =
    "usage: traceconv binary [TEXT] [OUT]\n"
    "\n"
    "  Writes the trace that a text in protobuf's text format describes, such as traceconv text,\n"
    "  protoc --decode or a person wrote. TEXT: '-', or none where it is not a terminal:\n" READS;

static const char unpack_help[] =
    "usage: traceconv decompress_packets [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes a trace as it is, but with what compressed packets hold in their place, for tools\n"
    "  that do not read these. TRACE: '-', or none where it is not a terminal:\n" READS;

static const struct option_entry options[] = {OPTIONS_END};

/* --- the verbs --- */

typedef int convert_stream(const char *path, int fd, const struct trace_text_progress *progress,
                           struct error *error);

static bool has_bytes(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_size > 0;
}

static int convert(int argc, char **argv, const char *help, bool writes_text,
                   convert_stream *stream)
{
    char path[PATH_MAX];
    struct error error = {0};
    int code = conversion_parse(argc, argv, help, options, 2, NULL);
    if (code >= 0)
        return code;
    const char *out = argv[optind] == NULL ? NULL : argv[optind + 1];
    code = conversion_find_input(argv[optind], path, &error);
    struct output_file file;
    if (code == 0)
        code = conversion_open_output(&file, out, path, writes_text, &error);
    if (code < 0)
        return conversion_fail(&error);
    struct progress shown = progress_begin(path, isatty(file.fd));
    struct trace_text_progress progress = {progress_tell_bytes, &shown};
    code = stream(path, file.fd, &progress, &error);
    /* Keep the output before the damage in a trace: it is useful, and the error reports that it is
     * incomplete. */
    bool is_part = code < 0 && has_bytes(file.fd);
    int closed = output_file_close(&file, is_part ? 0 : code, is_part ? NULL : &error);
    code = code < 0 ? code : closed;
    progress_end(&shown);
    if (code >= 0)
        return 0;
    if (stream != trace_text_read && conversion_is_no_trace(path, &error))
        return conversion_fail(&error);
    struct error full = error;
    error_set(&error, full.code, "%.200s: %.300s", strcmp(path, "-") == 0 ? "standard input" : path,
              full.message);
    return conversion_fail(&error);
}

int convert_text(int argc, char **argv)
{
    return convert(argc, argv, text_help, true, trace_text_print);
}

int convert_binary(int argc, char **argv)
{
    return convert(argc, argv, binary_help, false, trace_text_read);
}

int convert_decompress_packets(int argc, char **argv)
{
    return convert(argc, argv, unpack_help, false, trace_text_unpack);
}
