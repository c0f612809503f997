/* SPDX-License-Identifier: Apache-2.0 */
/* heap_profile check: judges whether a profile, or a command run for it, keeps within budgets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profile/compare/baseline_file.h"
#include "tools/cli/cmd.h"
#include "tools/cli/compare/check_outputs.h"
#include "tools/cli/compare/compare_source.h"
#include "tools/cli/options/heap_options.h"
#include "tools/cli/options/options.h"
#include "tools/cli/record/host_command.h"
#include "tools/print/check_report.h"
#include "tools/print/format.h"
#include "tools/print/progress.h"
#include "tools/print/stack_format.h"
#include "tools/print/wait_notice.h"
#include "util/regular_file.h"
#include "util/xmalloc.h"

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
    "                            module:FILE; * ? [ work as in file names; 'f < g': f called\n"
    "                            by g; repeatable\n"
    "  --baseline TRACE|FILE     compare with this profile, or file of --save-baseline:\n"
    "    --max-growth SIZE|N%    growth of the live bytes at the end\n"
    "    --max-peak-growth SIZE|N%, --max-allocated-growth SIZE|N%,\n"
    "    --max-allocations-growth N|N%   of the peak, of the bytes and calls ever allocated;\n"
    "                            PATTERN=SIZE|N% limits one function, module:FILE or heap:NAME;\n"
    "                            repeatable\n"
    "  --save-baseline FILE      write what growth needs of this run: a few kB, for the "
    "repository\n"
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
    "  --github-summary FILE     append the results as Markdown: \"$GITHUB_STEP_SUMMARY\"\n"
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
    "  heap_profile check --baseline old/raw-trace --max-growth 5% new/raw-trace\n"
    "  heap_profile check --save-baseline heap.baseline -- ./unit-tests\n"
    "  heap_profile check --baseline heap.baseline --max-growth parse_*=64k -- ./unit-tests\n";

/* What an undecidable budget counts as. */
enum undecided { UNDECIDED_PASS, UNDECIDED_FAIL, UNDECIDED_REPORTED };

struct request {
    struct budgets budgets;
    struct heap_config config;
    struct compare_choice choice;
    const char *budgets_path, *junit, *summary, *output, *save_baseline;
    bool json, github, follow_children, only_profiled;
    enum undecided undecided;
    char *const *command; /* NULL: a trace */
    const char *trace;
};

static bool check_complain(int code, const struct error *error)
{
    if (code < 0)
        verb_fail(error);
    return code == 0;
}

/* Parse --max-peak and the like, and --baseline: the option's name is the budget's. */
static bool take_budget(void *member, const char *name, const char *value)
{
    struct error error = {0};
    return check_complain(budgets_add(member, name, value, 0, &error), &error);
}

static bool take_suppression(void *member, const char *name, const char *value)
{
    (void)name;
    struct error error = {0};
    return check_complain(budgets_suppress(member, value, 0, &error), &error);
}

static bool take_budgets_file(void *member, const char *name, const char *value)
{
    (void)name;
    struct request *request = member;
    struct error error = {0};
    request->budgets_path = value;
    wait_notice_announce_input(value);
    return check_complain(budgets_read(&request->budgets, value, &error), &error);
}

/* Parse the name of a file to write. In a shell a variable that is not set leaves none. */
static bool take_file(void *member, const char *name, const char *value)
{
    *(const char **)member = value;
    if (*value != '\0')
        return true;
    bool is_summary = strcmp(name, "github-summary") == 0;
    format_printf(stderr, "heap_profile: --%s takes a file, as in %s, not ''\n", name,
                  is_summary ? "\"$GITHUB_STEP_SUMMARY\", which GitHub sets" : "heap.baseline");
    return false;
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
    OPTION_ENTRY_CALL("save-baseline", 0, struct request, save_baseline, take_file),
    {.name = "budgets", .kind = OPTION_CALL, .offset = 0, .take = take_budgets_file},
    OPTION_ENTRY_CALL("suppress", 0, struct request, budgets, take_suppression),
    OPTION_ENTRY_CHOICE("undecided", struct request, undecided, undecided_names),
    OPTION_ENTRY("pid", 0, OPTION_PID, struct request, choice.pid),
    OPTION_ENTRY("heap", 0, OPTION_TEXT, struct request, choice.heap),
    OPTION_ENTRY("only-profiled", 0, OPTION_SET, struct request, only_profiled),
    OPTION_ENTRY("json", 0, OPTION_SET, struct request, json),
    OPTION_ENTRY("junit", 0, OPTION_TEXT, struct request, junit),
    OPTION_ENTRY("github", 0, OPTION_SET, struct request, github),
    OPTION_ENTRY_CALL("github-summary", 0, struct request, summary, take_file),
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
    bool saves = request->save_baseline != NULL;
    if (request->budgets.count == 0 && !saves) {
        fprintf(stderr,
                "heap_profile: no budget: give one, such as %s, or a file of budgets (--budgets)\n",
                request->budgets.baseline != NULL ? "--max-growth 5%" : "--max-live 64k");
        return EXIT_UNDECIDABLE;
    }
    if (needs_baseline(&request->budgets) != (request->budgets.baseline != NULL) && !saves) {
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

static int exit_code_of(const struct request *request, const struct budget_report *report)
{
    bool undecided = check_report_count(report, BUDGET_UNDECIDABLE) > 0;
    if (check_report_count(report, BUDGET_FAILS) > 0 ||
        (undecided && request->undecided == UNDECIDED_FAIL))
        return EXIT_FAILS;
    return undecided && request->undecided == UNDECIDED_REPORTED ? EXIT_UNDECIDABLE : EXIT_HOLDS;
}

static int check_print(const struct request *request, struct check_page *page)
{
    /* The command owns standard output; scripts that ask for JSON expect it there. */
    FILE *out = request->command != NULL && !request->json ? stderr : stdout;
    page->columns = stack_format_columns(out);
    if (request->json)
        check_report_json(page, out);
    else if (request->budgets.count > 0)
        check_report_text(page, out);
    if (request->github)
        check_report_github(page, request->json ? stderr : out);
    if ((request->junit != NULL && check_write_junit(page, request->junit) < 0) ||
        (request->summary != NULL && check_write_summary(page, request->summary) < 0))
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

/* What the growth of a run is measured from. */
struct baseline {
    struct compare_source source; /* a profile */
    struct baseline_file file;
    bool is_file;
    bool is_missing; /* this run is saved as the first baseline */
};

/* Return whether the argument names a dump of a baseline file, which has none. */
static bool is_dump_of_file(const char *argument)
{
    const char *at = strrchr(argument, '@');
    char *name = at != NULL ? xmalloc_made(strndup(argument, (size_t)(at - argument))) : NULL;
    bool found = name != NULL && access(argument, F_OK) != 0 && baseline_file_is(name);
    free(name);
    return found;
}

static int open_baseline(const struct request *request, struct baseline *baseline)
{
    const char *path = request->budgets.baseline;
    const struct compare_choice same_heap = {.heap = request->choice.heap};
    struct error error = {0};
    *baseline = (struct baseline){0};
    baseline->is_missing =
        path == NULL || (request->save_baseline != NULL && access(path, F_OK) != 0 &&
                         errno == ENOENT && strcmp(path, request->save_baseline) == 0);
    if (baseline->is_missing)
        return 0;
    if (is_dump_of_file(path)) {
        format_printf(stderr, "heap_profile: %s: a baseline file has no dumps: leave out the '@'\n",
                      path);
        return -EINVAL;
    }
    baseline->is_file = baseline_file_is(path);
    if (!baseline->is_file)
        return open_source(path, &same_heap, &baseline->source);
    int code = baseline_file_read(&baseline->file, path, &error);
    if (code < 0)
        verb_fail(&error);
    return code;
}

static void close_baseline(struct baseline *baseline)
{
    close_source(&baseline->source);
    baseline_file_clear(&baseline->file);
}

static int check_judge(struct request *request, struct compare_source *source,
                       struct baseline *baseline, struct check_page *page)
{
    struct budget_report report = {0};
    bool only_profiled = request->only_profiled || request->choice.pid != 0;
    struct budget_subject subject = {
        .profile = source->profile,
        .folding = &page->folding,
        .only_profiled = only_profiled,
        .heap = request->choice.heap,
        .is_baseline = are_same(source, &baseline->source),
    };
    struct budget_subject before = {
        .profile = baseline->source.profile,
        .only_profiled = only_profiled,
        .heap = request->choice.heap,
        .saved = baseline->is_file ? &baseline->file : NULL,
    };
    struct folding folding = {0};
    int code = 0;
    xmalloc_code(folding_make(&page->folding, source->profile));
    if (before.profile != NULL)
        xmalloc_code(folding_make(&folding, before.profile));
    if (request->save_baseline != NULL) {
        subject.dumps = source->dumps;
        subject.dump_count = source->dump_count;
        code = check_write_baseline(&request->budgets, &subject, request->save_baseline);
    }
    if (request->only_profiled) {
        leave_out_unseen(source);
        leave_out_unseen(&baseline->source);
    }
    subject.dumps = source->dumps;
    subject.dump_count = source->dump_count;
    before.dumps = baseline->source.dumps;
    before.dump_count = baseline->source.dump_count;
    before.folding = &folding;
    if (code == 0)
        code = xmalloc_code(budgets_check(&request->budgets, &subject,
                                          baseline->is_missing ? NULL : &before, &report));
    page->report = &report;
    code = code == 0 ? check_print(request, page) : EXIT_UNDECIDABLE;
    folding_clear(&page->folding);
    folding_clear(&folding);
    budget_report_clear(&report);
    return code;
}

/* Check a trace, or the directory that the command's profile was written to. */
static int check_trace(struct request *request, const char *trace)
{
    struct compare_source source = {0};
    struct baseline baseline = {0};
    int code = EXIT_UNDECIDABLE;
    if (open_source(trace, &request->choice, &source) == 0 &&
        open_baseline(request, &baseline) == 0) {
        struct check_page page = {
            .profile = source.profile,
            .budgets = &request->budgets,
            .budgets_path = request->budgets_path,
            .undecided_passes = request->undecided == UNDECIDED_PASS,
        };
        if (baseline.is_missing && needs_baseline(&request->budgets))
            fputs("heap_profile: there is no baseline yet: growth is not judged\n", stderr);
        code = check_judge(request, &source, &baseline, &page);
    }
    if (source.profile == NULL && request->command == NULL && trace != NULL) {
        if (baseline_file_is(trace))
            format_printf(stderr, "heap_profile: %s is a baseline file, for --baseline\n", trace);
        else
            suggest_command(trace);
    }
    close_source(&source);
    close_baseline(&baseline);
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
    static struct host_outcome outcome;
    struct error error = {0};
    host_command_end_without_memory(&outcome, EXIT_UNDECIDABLE);
    int code = host_command_run(&command, &outcome, &error), result = EXIT_UNDECIDABLE;
    /* A run that failed is no run to compare with. */
    if (request->save_baseline != NULL && outcome.result.wait_status != 0) {
        format_printf(stderr, "heap_profile: the command failed: %s is not written\n",
                      request->save_baseline);
        request->save_baseline = NULL;
    }
    if (code < 0)
        verb_fail(&error);
    else if (outcome.result.started)
        result = check_trace(request, outcome.output.directory);
    if (!outcome.result.started && outcome.result.exec_errno == 0)
        return EXIT_UNDECIDABLE;
    /* A failed command has not exercised the budgets fully: its exit code wins. */
    int command_code = host_command_exit_code(&outcome.result, request->command[0]);
    return command_code != 0 ? command_code : result;
}

int cmd_check(int argc, char **argv)
{
    struct request request = {.undecided = UNDECIDED_REPORTED};
    xmalloc_exit_code = EXIT_UNDECIDABLE;
    heap_config_init(&request.config);
    request.config.sampling_interval_bytes = 1;
    int code = parse_arguments(argc, argv, &request);
    if (code < 0)
        code = request.command != NULL ? check_command(&request)
                                       : check_trace(&request, request.trace);
    budgets_clear(&request.budgets);
    heap_config_clear(&request.config);
    return code;
}
