/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile record: runs the session that a configuration file describes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/options/options.h"
#include "cli/print/format.h"
#include "cli/print/wait_notice.h"
#include "cli/record/record_session.h"
#include "util/array.h"

#define CONFIG_BYTES_MAX (1u << 20)

static const char help[] =
    "usage: heap_profile record -c CONFIG [--txt] [-o TRACE]\n"
    "\n"
    "Runs the session that a Perfetto TraceConfig describes, and writes its trace.\n"
    "heap_profile host --print-config and heap_profile -n NAME --print-config print such a\n"
    "configuration.\n"
    "\n"
    "  -c, --config FILE      the configuration, text or binary; '-': standard input\n"
    "      --txt              FILE is text (default: detected)\n"
    "  -o, --out TRACE        write only this trace (default: raw-trace and pprof files in a new\n"
    "                         directory)\n"
    "      --no-symbols       do not search debug files: names only from the programs' own files\n"
    "      --quiet            print only errors\n"
    "\n"
    "The session ends as the configuration defines, or by Ctrl-C or heap_profile stop. If the\n"
    "configuration asks only for running processes, it ends with the last of them.\n"
    "\n"
    "Exit code: 0, 1 if the session failed or none of its pids can be profiled, 2 for a wrong\n"
    "configuration, 3 if no process was profiled.\n";

struct request {
    const char *config;
    bool is_text;
    struct record_session session;
};

static const struct option_entry options[] = {
    OPTION_ENTRY("config", 'c', OPTION_TEXT, struct request, config),
    OPTION_ENTRY("txt", 0, OPTION_SET, struct request, is_text),
    OPTION_ENTRY("out", 'o', OPTION_TEXT, struct request, session.trace_path),
    OPTION_ENTRY("output", 0, OPTION_TEXT, struct request, session.trace_path),
    OPTION_ENTRY("no-symbols", 0, OPTION_SET, struct request, session.finish.no_symbols),
    OPTION_ENTRY("quiet", 'q', OPTION_SET, struct request, session.finish.quiet),
    OPTIONS_END,
};

/* Read a whole file, malloc'd. Return NULL with *error set on failure. */
static char *read_file(const char *path, size_t *length, struct error *error)
{
    wait_notice_announce_input(path);
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        error_set(error, -errno, "cannot read the configuration %s: %s", path, strerror(errno));
        return NULL;
    }
    char *bytes = NULL;
    size_t capacity = 0;
    ssize_t got = 1;
    *length = 0;
    while (got > 0 && *length <= CONFIG_BYTES_MAX &&
           ARRAY_RESERVE(&bytes, &capacity, *length, 4096) == 0) {
        got = read(fd, bytes + *length, capacity - *length);
        *length += got > 0 ? (size_t)got : 0;
    }
    int code = got < 0 ? -errno : 0;
    if (fd != STDIN_FILENO)
        close(fd);
    if (got == 0)
        return bytes;
    free(bytes);
    if (code < 0)
        error_set(error, code, "cannot read the configuration %s: %s", path, strerror(-code));
    else
        error_set(error, -EFBIG, "the configuration %s is larger than %u bytes: is it one?", path,
                  CONFIG_BYTES_MAX);
    return NULL;
}

static int read_config(const char *path, bool is_text, struct heap_config *config,
                       struct error *error)
{
    size_t length;
    char *bytes = read_file(path, &length, error);
    if (bytes == NULL)
        return error->code;
    struct heap_config_warnings warnings = {0};
    int code = is_text ? heap_config_read_text(bytes, length, config, &warnings, error)
                       : heap_config_read(bytes, length, config, &warnings, error);
    free(bytes);
    for (size_t i = 0; i < warnings.count; i++)
        format_printf(stderr, "heap_profile: warning: %s: %s\n", path, warnings.messages[i]);
    heap_config_warnings_clear(&warnings);
    if (code == 0 && (code = heap_config_check_targets(config, error)) < 0)
        heap_config_clear(config);
    return code;
}

int cmd_record(int argc, char **argv)
{
    static const struct verb_line line = {"heap_profile record", help, options, false};
    struct request request = {0};
    int code = options_parse(&line, argc, argv, &request);
    if (code >= 0)
        return code;
    struct heap_config config;
    struct error error = {0};
    if (request.config == NULL || optind < argc) {
        fputs(help, stderr);
        return RECORD_SESSION_USAGE;
    }
    if (read_config(request.config, request.is_text, &config, &error) < 0) {
        format_printf(stderr, "heap_profile: %s: %s\n", request.config, error.message);
        return RECORD_SESSION_USAGE;
    }
    request.session.config = &config;
    code = record_session_run(&request.session);
    heap_config_clear(&config);
    return code;
}
