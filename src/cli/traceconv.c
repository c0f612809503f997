/* traceconv: turns traces into files that other tools read. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/output.h"

static const char help[] =
    "usage: traceconv profile [-o DIR] [DIR|TRACE]\n"
    "\n"
    "  profile   writes one gzipped pprof file for each process, heap and dump of a\n"
    "            trace ('-': standard input) into DIR (a new one in TMPDIR or /tmp),\n"
    "            and prints its name\n"
    "\n"
    "      --help, --version\n";

static int convert_profile(int argc, char **argv)
{
    static const struct option options[] = {{"output", required_argument, NULL, 'o'}, {0}};
    char fallback[PATH_MAX] = "/tmp/heap_profile-XXXXXX", path[PATH_MAX];
    const char *directory = NULL;
    int option;
    while ((option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
        if (option != 'o') {
            fputs(help, stderr);
            return 2;
        }
        directory = optarg;
    }
    output_find_trace(argv[optind], path);
    struct error error = {0};
    struct profile *profile = profile_read(path, &error);
    int files = profile != NULL ? 0 : error.code;
    if (files == 0 && directory == NULL && (directory = mkdtemp(fallback)) == NULL)
        files = error_set(&error, -errno, "cannot create %s: %s", fallback, strerror(errno));
    if (files == 0 && mkdir(directory, 0777) != 0 && errno != EEXIST)
        files = error_set(&error, -errno, "cannot create %s: %s", directory, strerror(errno));
    if (files == 0)
        files = output_write_pprof(directory, profile, &error);
    if (files >= 0 && profile->warning[0] != '\0')
        fprintf(stderr, "traceconv: warning: %s\n", profile->warning);
    profile_free(profile);
    if (files < 0) {
        fprintf(stderr, "traceconv: %s\n", error.message);
        return 1;
    }
    fprintf(stderr, "%d pprof file%s in\n", files, files == 1 ? "" : "s");
    puts(directory);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "profile") == 0)
        return convert_profile(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        puts("traceconv " HEAPPROFD_VERSION);
        return 0;
    }
    bool asked = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    fputs(help, asked ? stdout : stderr);
    return asked ? 0 : 2;
}
