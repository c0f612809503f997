/* traceconv: turns traces into files that other tools read. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/output.h"
#include "cli/suggest.h"
#include "cli/traceconv_symbolize.h"

static const char help[] =
    "usage: traceconv profile [-o DIR] [DIR|TRACE]\n"
    "       traceconv symbolize [options] [TRACE] [OUT]\n"
    "\n"
    "  profile     writes one gzipped pprof file for each process, heap and dump of a\n"
    "              trace ('-': standard input; none: the latest profile) and prints the\n"
    "              name of the directory that they are in\n"
    "  symbolize   writes functions, files and lines of a trace's code addresses, to be\n"
    "              appended to it; see traceconv symbolize --help\n"
    "\n"
    "  -o, --output DIR   that directory, made if it is not there; files of the same\n"
    "                     names in it are replaced (default: a new one in TMPDIR or /tmp)\n"
    "      --help, --version\n";

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},
    {0},
};

static int write_profile(const char *argument, const char *wanted)
{
    char path[PATH_MAX], made[PATH_MAX];
    const char *directory = wanted != NULL ? wanted : made;
    struct error error = {0};
    struct profile *profile = NULL;
    int files = output_find_trace(argument, path, &error);
    if (files == 0 && (profile = profile_read(path, &error)) == NULL)
        files = error.code;
    if (files == 0 && profile->heap_count == 0)
        files = error_set(&error, -ENOENT, "%.300s: there is no heap profile in it%s%.150s", path,
                          profile->warning[0] != '\0' ? ": " : "", profile->warning);
    if (files == 0 && wanted == NULL)
        files = output_make_temporary(made, &error);
    else if (files == 0 && mkdir(wanted, 0777) != 0 && errno != EEXIST)
        files = error_set(&error, -errno, "cannot create %s: %s", wanted, strerror(errno));
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

static int convert_profile(int argc, char **argv)
{
    const char *directory = NULL;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (option == 'v') {
            puts("traceconv " HEAPPROFD_VERSION);
            return 0;
        }
        if (option != 'o') {
            suggest_option("traceconv", argv, option, options);
            return 2;
        }
        directory = optarg;
    }
    if (argc - optind > 1) {
        fprintf(stderr,
                "traceconv: one trace at a time, not also '%s'; to name the directory: -o\n",
                argv[optind + 1]);
        return 2;
    }
    return write_profile(argv[optind], directory);
}

int main(int argc, char **argv)
{
    static const char *const verbs[] = {"profile", "symbolize"};
    if (argc < 2) {
        fputs(help, stderr);
        return 2;
    }
    if (strcmp(argv[1], verbs[0]) == 0)
        return convert_profile(argc - 1, argv + 1);
    if (strcmp(argv[1], verbs[1]) == 0)
        return traceconv_symbolize(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        puts("traceconv " HEAPPROFD_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(help, stdout);
        return 0;
    }
    const char *nearest = suggest_nearest(argv[1], verbs, 2, sizeof(verbs[0]));
    fprintf(stderr, "traceconv: there is no conversion '%s'", argv[1]);
    if (nearest != NULL)
        fprintf(stderr, "; did you mean %s?", nearest);
    fputs("\ntraceconv: see traceconv --help\n", stderr);
    return 2;
}
