/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a trace to protobuf text and back, and unpacks its compressed packets. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/convert/conversions.h"
#include "tools/cli/files/conversion_io.h"
#include "tools/cli/options/options.h"
#include "tools/print/progress.h"
#include "trace/text/trace_text.h"

#define READS_HELP                                                                                 \
    "\n"                                                                                           \
    "  gzip, zstd, LZ4 and compressed packets are unpacked.\n" CONVERSION_OUTPUT_HELP "\n"         \
    "      --help, --version\n"

static const char text_help[] =
    "usage: traceconv text [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes every packet of a trace in protobuf's text format. Unknown fields appear by their\n"
    "  numbers. From the text, traceconv binary restores the trace, byte for byte if heapprofd\n"
    "  wrote it, else in canonical encoding (a compressed trace: as traceconv\n"
    "  decompress_packets writes it).\n"
    "\n" CONVERSION_INPUT_HELP READS_HELP;

static const char binary_help[] =
    "usage: traceconv binary [TEXT] [OUT]\n"
    "\n"
    "  Writes the trace that a file in protobuf's text format describes. The text may come from\n"
    "  traceconv text, protoc --decode or an editor. TEXT '-', or none unless on a terminal, is\n"
    "  standard input.\n" READS_HELP;

static const char unpack_help[] =
    "usage: traceconv decompress_packets [DIR|TRACE] [OUT]\n"
    "\n"
    "  Writes a trace with its compressed packets replaced by their contents, for tools that\n"
    "  cannot read them.\n"
    "\n" CONVERSION_INPUT_HELP READS_HELP;

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
        return verb_fail(&error);
    struct progress shown = progress_begin(path, isatty(file.fd));
    struct trace_text_progress progress = {progress_show_bytes, &shown};
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
        return verb_fail(&error);
    struct error full = error;
    error_set(&error, full.code, "%.200s: %.300s", strcmp(path, "-") == 0 ? "standard input" : path,
              full.message);
    return verb_fail(&error);
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
