/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile: the table of verbs, and the dispatch to them. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/cmd.h"
#include "tools/cli/convert/conversions.h"
#include "tools/cli/main/tool_setup.h"
#include "tools/cli/main/verb_program.h"
#include "tools/cli/options/suggest.h"
#include "tools/print/format.h"
#include "util/version.h"

#ifdef HEAPPROFD_VIEW
#define VIEW NULL
#else
#define VIEW cmd_view
#endif

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: a program of its own (verb_program.h) */
    const char *summary;
} verbs[] = {
    {"check", cmd_check, "check a profile, or a command, against budgets"},
    {"clean", cmd_clean, "remove old profiles and the cache of symbols"},
    {"diff", cmd_diff, "show what grew and what shrank between two profiles"},
    {"doctor", cmd_doctor, "check what can be profiled here, and why not"},
#ifdef HEAPPROFD_EXPLORE
    {"explore", NULL, "browse a profile on the terminal"},
#endif
#ifdef HEAPPROFD_FLEET
    {"fleet", NULL, "ask about the profiles of all machines, in ClickHouse"},
#endif
    {"host", cmd_host, "run a command and profile its heap"},
    {"leaks", cmd_leaks, "list the call stacks that hold most, or have grown most"},
    {"oom", cmd_oom, "list programs that died of memory, and what held it"},
    {"query", NULL, "query profiles in SQL"},
    {"record", cmd_record, "run the session that a configuration file describes"},
    {"report", cmd_report, "print a report on a profile"},
    {"shell", cmd_shell, "run a shell whose programs can be profiled later"},
    {"snapshot", cmd_snapshot, "take a dump of running sessions now"},
    {"status", cmd_status, "show running sessions and their processes"},
    {"stop", cmd_stop, "end running sessions"},
    {"trigger", cmd_trigger, "activate triggers of the tracing service"},
    {"view", VIEW, "show profiles in the browser"},
};

static void print_help(FILE *out)
{
    fputs("usage: heap_profile VERB [options]\n"
          "       heap_profile -n NAME | -p PID [options]   profile running processes\n"
          "\n"
          "Shows which call stacks of a program hold, allocate and free its memory.\n"
          "\n",
          out);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\n"
          "Convert a profile to another format (as traceconv does):\n"
          "\n",
          out);
    conversions_print(out);
    fputs("\n"
          "Quick start:\n"
          "  heap_profile host -- COMMAND [ARGS]\n"
          "  heap_profile report\n"
          "\n"
          "More help: heap_profile VERB --help, man heap_profile.\n",
          out);
}

/* Report that there is no such verb. Return the exit code. */
static int heap_profile_refuse(const char *name)
{
    const char *nearest = conversion_of_others(name);
    if (nearest == NULL)
        nearest = suggest_nearest(name, verbs, sizeof(verbs) / sizeof(verbs[0]), sizeof(verbs[0]));
    if (nearest == NULL)
        nearest = conversion_suggest(name);
    format_printf(stderr, "heap_profile: there is no verb '%s'", name);
    if (nearest != NULL)
        format_printf(stderr, "; did you mean %s?", nearest);
    fputc('\n', stderr);
    format_printf(stderr,
                  "heap_profile: to profile a program: heap_profile host -- %s ...; "
                  "for the verbs: heap_profile --help\n",
                  name);
    return 2;
}

static int run_verb(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run == NULL ? verb_program_run(argv) : verbs[i].run(argc - 1, argv + 1);
    const struct conversion *conversion = conversion_find(argv[1]);
    if (conversion != NULL)
        return conversion->run(argc - 1, argv + 1);
    return argv[1][0] == '-' ? cmd_profile(argc, argv) : heap_profile_refuse(argv[1]);
}

int main(int argc, char **argv)
{
    tool_setup();
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    bool is_help = strcmp(argv[1], "help") == 0;
    if (is_help && argc == 3) {
        char option[] = "--help", *of_verb[] = {argv[0], argv[2], option, NULL};
        return run_verb(3, of_verb);
    }
    if (is_help || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        version_print("heap_profile");
        return 0;
    }
    return run_verb(argc, argv);
}
