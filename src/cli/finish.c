/* See finish.h. */
#include "cli/finish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/report.h"

static void print_summary(const struct output *output, const struct profile *profile, int files)
{
    struct report_options report = {
        .view = REPORT_MAX,
        .brief = true,
        .colours = isatty(STDERR_FILENO) && getenv("NO_COLOR") == NULL,
    };
    report_print_text(profile, &report, stderr);
    fprintf(stderr, "\nProfile in %s: raw-trace and %d pprof file%s\n", output->directory, files,
            files == 1 ? "" : "s");
    /* As it was called: it need not stand in the PATH. */
    fprintf(stderr, "  %s report %s   all callsites; --tree, --view max, --json\n",
            program_invocation_name, output->directory);
    /* It adds up what it is given: heaps that contain each other, dumps of one heap. */
    if (files > 0)
        fprintf(stderr, "  go tool pprof -http=: %s/%s.pb.gz   flame graph in a browser%s\n",
                output->directory, files == 1 ? "*" : "FILE",
                files == 1 ? "" : "; several FILEs become one sum");
    fprintf(stderr, "  https://ui.perfetto.dev   opens %s\n", output->trace);
}

int finish_output(const struct output *output, bool quiet, struct error *error)
{
    struct profile *profile = profile_read(output->trace, error);
    if (profile == NULL)
        return error->code;
    static const struct output_pprof all = {.options = {.gzip = true, .annotated = true}};
    int files = output_write_pprof(output->directory, profile, &all, error);
    if (files >= 0 && !quiet)
        print_summary(output, profile, files);
    profile_free(profile);
    return files < 0 ? files : 0;
}
