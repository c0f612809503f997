/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the results of budgets for CI systems: as JUnit XML, GitHub annotations and Markdown. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/print/check_report.h"
#include "util/terminal_text.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

#define TEXT_BYTES 1024

/* --- JUnit --- */

/* Return whether it is U+FFFE or U+FFFF, which XML forbids. */
static bool is_no_character(const unsigned char *at)
{
    return at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe;
}

/* Print text escaped for XML. Control characters and bytes that are not UTF-8 become '?': XML
 * readers refuse them. */
static void print_xml(FILE *out, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        size_t length = utf8_length(at);
        if (*at == '&')
            fputs("&amp;", out);
        else if (*at == '<')
            fputs("&lt;", out);
        else if (*at == '>')
            fputs("&gt;", out);
        else if (*at == '"')
            fputs("&quot;", out);
        else if (length == 0 || *at < ' ' || *at == 0x7f || is_no_character(at))
            fputc('?', out);
        else
            fwrite(at, 1, length, out);
        at += length > 0 ? length : 1;
    }
}

/* Print what a person needs: the finding, the process with its pid, and the heaviest rows. */
static void print_details(const struct check_page *page, const struct budget_result *result,
                          void (*print)(FILE *out, const char *text), FILE *out)
{
    char text[TEXT_BYTES], *rows = NULL;
    size_t length = 0;
    check_finding(result, text, sizeof(text));
    print(out, text);
    check_subject(page->profile, result, true, text, sizeof(text));
    fputs("\n[", out);
    print(out, text);
    fputs("]\n", out);
    for (int i = 0; i < BUDGET_CULPRITS && check_has_culprits(result); i++) {
        if (result->culprits[i] == PROFILE_NONE)
            break;
        FILE *stream = xopen_memstream(&rows, &length);
        check_print_culprit(page, result, i, 0, stream);
        xclose_memstream(stream);
        rows[length > 0 ? length - 1 : 0] = '\0'; /* without its newline */
        print(out, rows);
        fputc('\n', out);
        free(rows);
    }
}

/* Return which of the results with the same title and subject without pids this is: 1 if it is the
 * only one, or the first. */
static unsigned ordinal_of(const struct check_page *page, const struct budget_result *result)
{
    char text[TEXT_BYTES], other[TEXT_BYTES];
    unsigned ordinal = 1;
    check_subject(page->profile, result, false, text, sizeof(text));
    for (const struct budget_result *at = page->report->results; at < result; at++) {
        check_subject(page->profile, at, false, other, sizeof(other));
        ordinal += at->budget == result->budget && strcmp(text, other) == 0;
    }
    return ordinal;
}

/* A case keeps its names from run to run, so that CI systems show its history. */
static void print_case(const struct check_page *page, const struct budget_result *result, FILE *out)
{
    char text[TEXT_BYTES];
    unsigned ordinal = ordinal_of(page, result);
    check_subject(page->profile, result, false, text, sizeof(text));
    fputs("    <testcase classname=\"", out);
    print_xml(out, text);
    if (ordinal > 1)
        fprintf(out, " (%u)", ordinal);
    fputs("\" name=\"", out);
    check_title(result, text, sizeof(text));
    print_xml(out, text);
    if (result->state == BUDGET_HOLDS) {
        fputs("\"/>\n", out);
        return;
    }
    const char *element = result->state == BUDGET_FAILS ? "failure"
                          : page->undecided_passes      ? "skipped"
                                                        : "error";
    fprintf(out, "\">\n      <%s message=\"", element);
    check_finding(result, text, sizeof(text));
    print_xml(out, text);
    fputs("\">", out);
    print_details(page, result, print_xml, out);
    fprintf(out, "</%s>\n    </testcase>\n", element);
}

void check_report_junit(const struct check_page *page, FILE *out)
{
    const struct budget_report *report = page->report;
    size_t undecided = check_report_count(report, BUDGET_UNDECIDABLE);
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
            "  <testsuite name=\"heap_profile check\" tests=\"%zu\" failures=\"%zu\" "
            "errors=\"%zu\" skipped=\"%zu\">\n",
            report->count, check_report_count(report, BUDGET_FAILS),
            page->undecided_passes ? 0 : undecided, page->undecided_passes ? undecided : 0);
    for (size_t i = 0; i < report->count; i++)
        print_case(page, &report->results[i], out);
    fputs("  </testsuite>\n</testsuites>\n", out);
}

/* --- GitHub --- */

/* Escape the characters that would end a message or, in a property, the property, and those that a
 * terminal would obey. */
static void print_escaped(FILE *out, const char *text, bool property)
{
    char next[TERMINAL_TEXT_ESCAPE_BYTES];
    size_t taken;
    for (const unsigned char *at = (const unsigned char *)text;
         (taken = terminal_text_next(at, next)) > 0; at += taken) {
        bool ends = *at == '%' || *at < ' ' || (property && (*at == ':' || *at == ','));
        if (ends)
            fprintf(out, "%%%02X", *at);
        else
            fputs(next, out);
    }
}

/* Return the path relative to the working directory, which is the root of the sources in CI. The
 * caller frees it. */
static char *relative(const char *path)
{
    char *here = getcwd(NULL, 0), *whole = realpath(path, NULL);
    const char *name = whole != NULL ? whole : path;
    size_t length = here != NULL ? strlen(here) : 0;
    if (length > 1 && strncmp(name, here, length) == 0 && name[length] == '/')
        name += length + 1;
    char *copy = xstrdup(name);
    free(here);
    free(whole);
    return copy;
}

static void print_file(const char *path, unsigned line, FILE *out)
{
    char *name = relative(path);
    fputs("file=", out);
    print_escaped(out, name, true);
    fprintf(out, ",line=%u,", line);
    free(name);
}

/* Return the innermost frame of the heaviest callsite whose source file exists, or else the
 * innermost one of the program's own with a source line; NULL: none. */
static const struct profile_frame *source_of(const struct check_page *page,
                                             const struct budget_result *result)
{
    const struct profile *profile = page->profile;
    const struct profile_frame *found = NULL;
    uint32_t at = result->culprits[0];
    if (at != PROFILE_NONE)
        at = folding_charge(&page->folding, profile, at);
    for (; at != PROFILE_NONE; at = profile->callsites[at].parent) {
        const struct profile_frame *frame = &profile->frames[profile->callsites[at].frame];
        if (*frame->source_file == '\0')
            continue;
        if (access(frame->source_file, F_OK) == 0)
            return frame;
        if (found == NULL && folding_of(&page->folding, profile->callsites[at].frame) == NULL)
            found = frame;
    }
    return found;
}

static void print_annotation(const struct check_page *page, const struct budget_result *result,
                             FILE *out)
{
    char text[TEXT_BYTES];
    const struct profile_frame *frame = source_of(page, result);
    fputs(result->state == BUDGET_FAILS ? "::error " : "::warning ", out);
    if (frame != NULL)
        print_file(frame->source_file, frame->line, out);
    else if (page->budgets_path != NULL && result->budget->line > 0)
        print_file(page->budgets_path, result->budget->line, out);
    fputs("title=", out);
    check_title(result, text, sizeof(text));
    print_escaped(out, text, true);
    fprintf(out, "::%s: ", check_state_name(result->state));
    check_finding(result, text, sizeof(text));
    print_escaped(out, text, false);
    check_subject(page->profile, result, true, text, sizeof(text));
    fputs(" in ", out);
    print_escaped(out, text, false);
    fputc('\n', out);
}

void check_report_github(const struct check_page *page, FILE *out)
{
    for (size_t i = 0; i < page->report->count; i++)
        if (page->report->results[i].state != BUDGET_HOLDS)
            print_annotation(page, &page->report->results[i], out);
}

/* --- Markdown --- */

/* Print a text so that neither Markdown nor HTML finds anything in it. */
static void print_markdown(FILE *out, const char *text)
{
    static const char special[] = "\\`*_[]<>&|~@#:$!";
    char next[TERMINAL_TEXT_ESCAPE_BYTES];
    size_t taken;
    for (const unsigned char *at = (const unsigned char *)text;
         (taken = terminal_text_next(at, next)) > 0; at += taken) {
        bool is_escape = strlen(next) != taken; /* a control character became "\\x1b" */
        if (taken == 1 && !is_escape && strchr(special, *at) != NULL)
            fprintf(out, "&#%u;", *at);
        else if (is_escape)
            fprintf(out, "&#92;%s", next + 1);
        else
            fputs(next, out);
    }
}

void check_report_markdown(const struct check_page *page, FILE *out)
{
    static const enum budget_state order[] = {BUDGET_FAILS, BUDGET_UNDECIDABLE, BUDGET_HOLDS};
    const struct budget_report *report = page->report;
    char text[TEXT_BYTES];
    fprintf(out, "### Heap budgets: %zu fail, %zu undecidable, %zu hold\n\n",
            check_report_count(report, BUDGET_FAILS),
            check_report_count(report, BUDGET_UNDECIDABLE),
            check_report_count(report, BUDGET_HOLDS));
    fputs("| | budget | found | in |\n|---|---|---|---|\n", out);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
        for (size_t j = 0; j < report->count; j++) {
            const struct budget_result *result = &report->results[j];
            if (result->state != order[i])
                continue;
            fprintf(out, "| %s | ", check_state_name(result->state));
            check_title(result, text, sizeof(text));
            print_markdown(out, text);
            fputs(" | ", out);
            check_finding(result, text, sizeof(text));
            print_markdown(out, text);
            fputs(" | ", out);
            check_subject(page->profile, result, true, text, sizeof(text));
            print_markdown(out, text);
            fputs(" |\n", out);
        }
    for (size_t j = 0; j < report->count; j++) {
        const struct budget_result *result = &report->results[j];
        if (!check_has_culprits(result) || result->culprits[0] == PROFILE_NONE)
            continue;
        check_title(result, text, sizeof(text));
        fputs("\n**", out);
        print_markdown(out, text);
        fputs("**\n\n<pre>\n", out);
        print_details(page, result, print_markdown, out);
        fputs("</pre>\n", out);
    }
    fputc('\n', out);
}
