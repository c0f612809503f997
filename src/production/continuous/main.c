/* SPDX-License-Identifier: Apache-2.0 */
/* heapprofd_collector: continuous mode's part outside the daemon, which starts it. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "production/continuous/collector.h"
#include "production/continuous/reload.h"
#include "recorder/service/serve.h"
#include "util/version.h"

static const char usage[] =
    "usage: heapprofd_collector [--config FILE] [--check] [--print]\n"
    "\n"
    "Collects heap profiles of the programs that a configuration chooses, as a client of "
    "heapprofd,\n"
    "and gives them to sinks. heapprofd starts it if its configuration has a section "
    "[continuous].\n"
    "\n"
    "  --config FILE  the configuration, by default $HEAPPROFD_CONFIG, else /etc/heapprofd.conf;\n"
    "                 the files FILE.d/*.conf follow it\n"
    "  --check        only check the configuration\n"
    "  --print        write periods to standard output, as lines of JSON, instead of sinks\n"
    "  --help, --version\n";

static int check_only(struct collector_config *config, const char *file)
{
    struct error error = {0};
    int sinks = reload_check(config, &error);
    if (sinks < 0) {
        fprintf(stderr, "heapprofd_collector: %s\n", error.message);
        return COLLECTOR_EXIT_CONFIG;
    }
    printf("%s: %zu program section%s, %d sink%s, a dump every %g s\n", file, config->program_count,
           config->program_count == 1 ? "" : "s", sinks, sinks == 1 ? "" : "s",
           (double)config->period_ms / 1000);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"check", no_argument, NULL, 'k'},
        {"print", no_argument, NULL, 'p'},        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},      {0},
    };
    const char *file = collector_config_file();
    bool checks = false, prints = false;
    struct collector_config config;
    struct error error = {0};
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            file = optarg;
            break;
        case 'k':
            checks = true;
            break;
        case 'p':
            prints = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'v':
            version_print("heapprofd_collector");
            return 0;
        default:
            fputs("heapprofd_collector: see heapprofd_collector --help\n", stderr);
            return 2;
        }
    }
    int code = collector_config_read(&config, file, &error);
    if (code == 0)
        error_set(&error, -EINVAL, "%s: it is missing, or has no section [continuous]", file);
    int status = COLLECTOR_EXIT_CONFIG;
    if (code <= 0) {
        fprintf(stderr, "heapprofd_collector: %s\n", error.message);
    } else if (checks) {
        status = check_only(&config, file);
    } else {
        prctl(PR_SET_NAME, "heapd-collector");
        const struct collector_options run = {
            .config = &config, .file = file, .prints = prints, .log = serve_log};
        status = collector_run(&run);
    }
    collector_config_clear(&config);
    return status;
}
