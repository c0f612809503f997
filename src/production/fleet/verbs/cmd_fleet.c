/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile fleet: dispatch to its verbs. */
#include <stdio.h>
#include <string.h>

#include "production/fleet/verbs/fleet.h"
#include "tools/cli/cmd.h"
#include "tools/cli/options/suggest.h"
#include "tools/print/format.h"

static const struct fleet_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} verbs[] = {
    {"diff", fleet_diff, "what grew and shrank between versions, hosts or times"},
    {"expire", fleet_expire, "remove figures that are older than they are kept"},
    {"flamegraph", fleet_flamegraph, "a web page with flame graphs"},
    {"growth", fleet_growth, "callsites whose live bytes rise, host by host"},
    {"hosts", fleet_hosts, "hosts, their services and what they hold"},
    {"query", fleet_query, "run SQL on the tables"},
    {"setup", fleet_setup, "create the tables, or bring them to this version"},
    {"symbolize", fleet_symbolize, "find names for addresses, once for each build id"},
    {"top", fleet_top, "the callsites that hold most; --export writes them to a file"},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static void print_help(FILE *out)
{
    fputs("usage: heap_profile fleet VERB [options]\n"
          "\n"
          "Answers questions about the profiles of all machines, which the daemon's sink\n"
          "'clickhouse' keeps in ClickHouse (docs/fleet.md).\n"
          "\n",
          out);
    for (size_t i = 0; i < VERBS; i++)
        fprintf(out, "  %-11s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\nOptions of most verbs (heap_profile fleet VERB --help has all, and what they "
          "mean):\n\n" FLEET_SELECTION_HELP
          "  --view space|objects|alloc_space|alloc_objects, --by callsite|function|module\n"
          "  --top N, --cumulative, --tree, --stacks, --lines, --json\n"
          "  --focus REGEX, --ignore REGEX, --hide REGEX, --show-from REGEX, --native\n"
          "  --frames all, --demangle full|simple|none, --export FILE\n"
          "  --cluster NAME, --replicated   of setup and expire\n"
          "  --periods DAYS, --hours DAYS, --days DAYS   of expire\n"
          "  --symbol-paths DIR, --offline   of symbolize\n" FLEET_SERVER_HELP "\n"
          "Examples:\n"
          "  heap_profile fleet setup --url http://localhost:8123\n"
          "  heap_profile fleet top --service checkout --since 1d\n"
          "  heap_profile fleet diff --service checkout version=1.4 version=1.5\n"
          "  heap_profile fleet growth --since 9d\n",
          out);
}

int cmd_fleet(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return VERB_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return VERB_DONE;
    }
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    const char *nearest = suggest_nearest(argv[1], verbs, VERBS, sizeof(verbs[0]));
    format_printf(stderr, "heap_profile: fleet has no verb '%s'%s%s%s\n", argv[1],
                  nearest != NULL ? "; did you mean " : "; heap_profile fleet --help lists them",
                  nearest != NULL ? nearest : "", nearest != NULL ? "?" : "");
    return VERB_USAGE;
}
