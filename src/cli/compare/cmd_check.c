/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile check: judges whether a profile, or a command run for it, keeps within budgets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/compare/check_report.h"
#include "cli/compare/compare_source.h"
#include "cli/options/heap_options.h"
#include "cli/options/options.h"
#include "cli/print/format.h"
#include "cli/print/progress.h"
#include "cli/print/wait_notice.h"
#include "cli/record/host_command.h"
#include "util/output_file.h"
#include "util/regular_file.h"

#define EXIT_HOLDS 0
#define EXIT_FAILS 1
#define EXIT_UNDECIDABLE 2 /* or nothing could be judged */

static const char help[] =
    "usage: heap_profile check [options] TRACE\n"
    "       heap_profile check [options] -- COMMAND [ARGS]\n"
    "\n"
    "Checks a profile against budgets. Each budget holds, fails, or is undecidable at the\n"
    "profile's sampling interval. COMMAND is run with every allocation recorded, so its figures\n"
    "are exact. Sizes are in bytes: 4096, 64k, 1.5M.\n"
    "\n"
    "Exit code: 0 if all budgets hold, 1 if one fails, 2 if one is undecidable or nothing could "
    "be\n"
    "judged. If COMMAND fails, its own.\n"
    "\n"
    "  --max-peak SIZE           live bytes at the heap's peak\n"
    "  --max-live SIZE           live bytes at the end\n"
    "  --max-allocated SIZE      bytes ever allocated (exact at any interval)\n"
    "  --max-allocations N       number of allocations (exact at any interval)\n"
    "  --max-temporary N%        share of allocations freed before their thread's next one\n"
    "  --max-leak PATTERN=SIZE   live bytes at the end in stacks with this function or\n"
    "                            module:FILE; * ? [ work as in file names; repeatable\n"
    "  --baseline TRACE          compare with this profile:\n"
    "    --max-growth SIZE|N%    growth of the live bytes at the end\n"
    "    --max-peak-growth SIZE|N%, --max-allocated-growth SIZE|N%,\n"
    "    --max-allocations-growth N|N%   of the peak, of the bytes and calls ever allocated\n"
    "  --budgets FILE            read budgets from lines 'max-live = 64k',\n"
    "                            'suppress: leak:NAME  # reason' and '# comment' (docs/check.md)\n"
    "  --suppress 'leak:PATTERN # reason'      exclude matching stacks from the live bytes\n"
    "  --undecided pass|fail     let undecidable budgets pass or fail (default: exit code 2)\n"
    "  --pid PID, --heap NAME    only this process, only this heap\n"
    "  --only-profiled           ignore processes that ran and were not profiled; otherwise their\n"
    "                            budgets are undecidable\n"
    "  --json                    print the results as JSON\n"
    "  --junit FILE              write the results as JUnit XML, for CI systems\n"
    "  --github                  print annotations of the sources, for GitHub\n"
    "\n"
    "  With a command, the report goes to standard error (with --json to standard output):\n"
    "  -i, --interval BYTES      mean bytes between samples (1: every allocation)\n"
    "  -o, --output DIR          keep the profile in DIR\n"
    "  -n, --name A,B            check only the processes of these names that COMMAND starts\n"
    "      --follow-children     check all processes that COMMAND starts\n"
    "\n"
    "Examples:\n"
    "  heap_profile check --max-live 0 -- ./unit-tests\n"
    "  heap_profile check --budgets heap.budgets --junit heap.xml -- ./unit-tests\n"
    "  heap_profile check --baseline old/raw-trace --max-growth 5% new/raw-trace\n";

/* What an undecidable budget counts as. */
enum undecided { UNDECIDED_PASS, UNDECIDED_FAIL, UNDECIDED_REPORTED };

struct request {
    struct budgets budgets;
    struct heap_config config;
    struct compare_choice choice;
    const char *budgets_path, *junit, *output;
    bool json, github, follow_children, only_profiled;
    enum undecided undecided;
    char *const *command; /* NULL: a trace */
    const char *trace;
};

static bool complain(int code, const struct error *error)
{
    if (code < 0)
        verb_fail(error);
    return code == 0;
}

/* Parse --max-peak and the like, and --baseline: the option's name is the budget's. */
static bool take_budget(void *member, const char *name, const char *value)
{
    struct error error = {0};
    return complain(budgets_add(member, name, value, 0, &error), &error);
}

static bool take_suppression(void *member, const char *name, const char *value)
{
    (void)name;
    struct error error = {0};
    return complain(budgets_suppress(member, value, 0, &error), &error);
}

static bool take_budgets_file(void *member, const char *name, const char *value)
{
    (void)name;
    struct request *request = member;
    struct error error = {0};
    request->budgets_path = value;
    wait_notice_announce_input(value);
    return complain(budgets_read(&request->budgets, value, &error), &error);
}

/* By enum undecided. */
static const char *const undecided_names[] = {"pass", "fail", NULL};

#define BUDGET(name) OPTION_ENTRY_CALL(name, 0, struct request, budgets, take_budget)

static const struct option_entry options[] = {
    BUDGET("max-peak"),
    BUDGET("max-live"),
    BUDGET("max-allocated"),
    BUDGET("max-allocations"),
    BUDGET("max-temporary"),
    BUDGET("max-leak"),
    BUDGET("max-growth"),
    BUDGET("max-peak-growth"),
    BUDGET("max-allocated-growth"),
    BUDGET("max-allocations-growth"),
    BUDGET("baseline"),
    {.name = "budgets", .kind = OPTION_CALL, .offset = 0, .take = take_budgets_file},
    OPTION_ENTRY_CALL("suppress", 0, struct request, budgets, take_suppression),
    OPTION_ENTRY_CHOICE("undecided", struct request, undecided, undecided_names),
    OPTION_ENTRY("pid", 0, OPTION_PID, struct request, choice.pid),
    OPTION_ENTRY("heap", 0, OPTION_TEXT, struct request, choice.heap),
    OPTION_ENTRY("only-profiled", 0, OPTION_SET, struct request, only_profiled),
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTION_ENTRY("junit", 0, OPTION_TEXT, struct request, junit),
    OPTION_ENTRY("github", 0, OPTION_SET, struct request, github),
    OPTION_ENTRY("interval", 'i', OPTION_BYTES, struct request, config.sampling_interval_bytes),
    OPTION_ENTRY("output", 'o', OPTION_TEXT, struct request, output),
    OPTION_ENTRY_CALL("name", 'n', struct request, config.process_cmdline, take_names),
    OPTION_ENTRY("follow-children", 0, OPTION_SET, struct request, follow_children),
    OPTIONS_END,
};

static bool needs_baseline(const struct budgets *budgets)
{
    for (size_t i = 0; i < budgets->count; i++)
        if (budget_is_growth(budgets->items[i].kind))
            return true;
    return false;
}

/* Take the subject of the check: a trace, or the command after "--". */
static bool take_subject(int argc, char **argv, struct request *request)
{
    bool is_command = optind > 1 && strcmp(argv[optind - 1], "--") == 0;
    if (is_command && optind < argc) {
        request->command = argv + optind;
        return true;
    }
    if (!is_command && argc - optind > 1) {
        format_printf(stderr,
                      "heap_profile: check takes one trace, or a command after --: heap_profile "
                      "check [options] -- %s ...\n",
                      argv[optind]);
        return false;
    }
    if (is_command) {
        fputs("heap_profile: nothing to check: try heap_profile check [options] TRACE, or "
              "heap_profile check [options] -- COMMAND [ARGS]\n",
              stderr);
        return false;
    }
    request->trace = argv[optind];
    return true;
}

/* Return -1 to continue, else the exit code. */
static int parse_arguments(int argc, char **argv, struct request *request)
{
    static const struct verb_line line = {"heap_profile check", help, options, true};
    int code = options_parse(&line, argc, argv, request);
    if (code >= 0)
        return code;
    struct error error = {0};
    if (!take_subject(argc, argv, request))
        return EXIT_UNDECIDABLE;
    if (request->budgets.count == 0) {
        fputs("heap_profile: no budget: give one, such as --max-live 64k, or a file of budgets "
              "(--budgets)\n",
              stderr);
        return EXIT_UNDECIDABLE;
    }
    if (needs_baseline(&request->budgets) != (request->budgets.baseline != NULL)) {
        fputs("heap_profile: --baseline and a limit of growth (--max-growth, --max-peak-growth,\n"
              "--max-allocated-growth, --max-allocations-growth) go together\n",
              stderr);
        return EXIT_UNDECIDABLE;
    }
    if (request->config.process_cmdline != NULL && request->command == NULL) {
        fputs("heap_profile: -n is for a command: heap_profile check [options] -n NAME -- COMMAND; "
              "of a profile, --pid chooses a process\n",
              stderr);
        return EXIT_UNDECIDABLE;
    }
    if (heap_config_check(&request->config, &error) != 0) {
        verb_fail(&error);
        return EXIT_UNDECIDABLE;
    }
    return -1;
}

/* --- checking --- */

static int open_source(const char *argument, const struct compare_choice *choice,
                       struct compare_source *source)
{
    struct error error = {0};
    int code = compare_source_parse(argument, source, &error);
    if (code == 0) {
        source->profile = progress_import(source->path, NULL, &error);
        code = source->profile == NULL ? error.code : compare_source_choose(source, choice, &error);
    }
    if (code < 0)
        verb_fail(&error);
    else
        compare_source_warn(source);
    return code;
}

static void close_source(struct compare_source *source)
{
    profile_free(source->profile);
    free(source->dumps);
}

static int write_junit(const struct check_page *page, const char *path)
{
    struct output_file file;
    struct error error;
    FILE *out = NULL;
    int code = output_file_open(&file, path, OUTPUT_FILE_SHARED, &error);
    if (code == 0 && (out = output_file_stream(&file)) == NULL)
        code = error_set(&error, -ENOMEM, "no memory to write %s", path);
    if (out != NULL)
        check_report_junit(page, out);
    code = code < 0 ? code : output_file_close(&file, 0, &error);
    if (code < 0)
        verb_fail(&error);
    return code;
}

static int exit_code_of(const struct request *request, const struct budget_report *report)
{
    bool undecided = check_report_count(report, BUDGET_UNDECIDABLE) > 0;
    if (check_report_count(report, BUDGET_FAILS) > 0 ||
        (undecided && request->undecided == UNDECIDED_FAIL))
        return EXIT_FAILS;
    return undecided && request->undecided == UNDECIDED_REPORTED ? EXIT_UNDECIDABLE : EXIT_HOLDS;
}

static int print(const struct request *request, const struct check_page *page)
{
    /* The command owns standard output; scripts that ask for JSON expect it there. */
    FILE *out = request->command != NULL && !request->json ? stderr : stdout;
    if (request->json)
        check_report_json(page, out);
    else
        check_report_text(page, out);
    if (request->github)
        check_report_github(page, request->json ? stderr : out);
    if (request->junit != NULL && write_junit(page, request->junit) < 0)
        return EXIT_UNDECIDABLE;
    if (fflush(out) != 0 || ferror(out)) {
        perror("heap_profile: cannot write the report");
        return EXIT_UNDECIDABLE;
    }
    return exit_code_of(request, page->report);
}

/* Drop heaps whose allocator was not seen, unless there are no others. */
static void leave_out_unseen(struct compare_source *source)
{
    size_t kept = 0;
    for (size_t i = 0; i < source->dump_count; i++)
        kept += !source->dumps[i].heap->unseen;
    if (kept == 0)
        return;
    kept = 0;
    for (size_t i = 0; i < source->dump_count; i++)
        if (!source->dumps[i].heap->unseen)
            source->dumps[kept++] = source->dumps[i];
    source->dump_count = kept;
}

/* Return whether both sources are the same dumps of the same file. */
static bool are_same(const struct compare_source *one, const struct compare_source *other)
{
    bool same = one->dump_count == other->dump_count && other->profile != NULL &&
                regular_file_is_same(one->path, other->path);
    for (size_t i = 0; same && i < one->dump_count; i++) {
        const struct export_dump *left = &one->dumps[i], *right = &other->dumps[i];
        same = left->heap - one->profile->heaps == right->heap - other->profile->heaps &&
               left->dump - left->heap->dumps == right->dump - right->heap->dumps;
    }
    return same;
}

/* If the trace that cannot be read is a program, suggest how to run it. */
static void suggest_command(const char *trace)
{
    struct stat status;
    bool is_file = stat(trace, &status) == 0;
    if (is_file ? S_ISREG(status.st_mode) && access(trace, X_OK) == 0 : strchr(trace, '/') == NULL)
        format_printf(stderr,
                      "heap_profile: to check a command, put it after --: heap_profile check "
                      "[options] -- %s\n",
                      trace);
}

/* Check a trace, or the directory that the command's profile was written to. */
static int check(struct request *request, const char *trace)
{
    struct compare_source source = {0}, baseline = {0};
    struct budget_report report = {0};
    int code = EXIT_UNDECIDABLE;
    const struct compare_choice same_heap = {.heap = request->choice.heap};
    if (open_source(trace, &request->choice, &source) == 0 &&
        (request->budgets.baseline == NULL ||
         open_source(request->budgets.baseline, &same_heap, &baseline) == 0)) {
        if (request->only_profiled) {
            leave_out_unseen(&source);
            leave_out_unseen(&baseline);
        }
        struct budget_subject subject = {
            .profile = source.profile,
            .dumps = source.dumps,
            .dump_count = source.dump_count,
            .only_profiled = request->only_profiled || request->choice.pid != 0,
            .is_baseline = are_same(&source, &baseline),
        };
        struct budget_subject before = {.profile = baseline.profile,
                                        .dumps = baseline.dumps,
                                        .dump_count = baseline.dump_count,
                                        .only_profiled = subject.only_profiled};
        struct check_page page = {
            .profile = source.profile,
            .budgets = &request->budgets,
            .report = &report,
            .budgets_path = request->budgets_path,
            .undecided_passes = request->undecided == UNDECIDED_PASS,
        };
        subject.folding = &page.folding;
        if (folding_make(&page.folding, source.profile) == 0 &&
            budgets_check(&request->budgets, &subject, &before, &report) == 0)
            code = print(request, &page);
        else
            fputs("heap_profile: no memory\n", stderr);
        folding_clear(&page.folding);
    }
    if (source.profile == NULL && request->command == NULL && trace != NULL)
        suggest_command(trace);
    budget_report_clear(&report);
    close_source(&source);
    close_source(&baseline);
    return code;
}

static int check_command(struct request *request)
{
    const struct host_command command = {
        .config = &request->config,
        .command = request->command,
        .output = request->output,
        .follow_children = request->follow_children,
        .end_with_command = true,
        .finish = {.quiet = true},
    };
    struct host_outcome outcome;
    struct error error = {0};
    int code = host_command_run(&command, &outcome, &error), result = EXIT_UNDECIDABLE;
    if (code < 0)
        verb_fail(&error);
    else if (outcome.result.started)
        result = check(request, outcome.output.directory);
    if (!outcome.result.started && outcome.result.exec_errno == 0)
        return EXIT_UNDECIDABLE;
    /* A failed command has not exercised the budgets fully: its exit code wins. */
    int command_code = host_command_exit_code(&outcome.result, request->command[0]);
    return command_code != 0 ? command_code : result;
}

int cmd_check(int argc, char **argv)
{
    struct request request = {.undecided = UNDECIDED_REPORTED};
    heap_config_init(&request.config);
    request.config.sampling_interval_bytes = 1;
    int code = parse_arguments(argc, argv, &request);
    if (code < 0)
        code = request.command != NULL ? check_command(&request) : check(&request, request.trace);
    budgets_clear(&request.budgets);
    heap_config_clear(&request.config);
    return code;
}
