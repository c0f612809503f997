/* The pprof files of a trace. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/conversion_io.h"
#include "cli/conversions.h"
#include "cli/output.h"

static const char help[] =
    "usage: traceconv profile [-o DIR] [DIR|TRACE]\n"
    "\n"
    "  Writes one gzipped pprof file for each process, heap and dump of a trace and prints the\n"
    "  name of the directory that they are in. TRACE: '-', or none where it is not a terminal:\n"
    "  standard input.\n"
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

static int write_files(const char *argument, const char *wanted)
{
    char path[PATH_MAX], made[PATH_MAX];
    const char *directory = wanted != NULL ? wanted : made;
    struct error error = {0};
    struct profile *profile = NULL;
    int files = conversion_find_input(argument, path, &error);
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
        conversion_warn("%s", profile->warning);
    profile_free(profile);
    if (files < 0)
        return conversion_fail(&error);
    fprintf(stderr, "%d pprof file%s in\n", files, files == 1 ? "" : "s");
    puts(directory);
    return 0;
}

int convert_profile(int argc, char **argv)
{
    const char *directory = NULL;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1) {
        if (option != 'o')
            return conversion_other_option(argv, option, options, help);
        directory = optarg;
    }
    if (!conversion_takes(argc, argv, 1))
        return 2;
    return write_files(argv[optind], directory);
}
