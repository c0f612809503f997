/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/compare/check_outputs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profile/compare/baseline_file.h"
#include "tools/cli/options/options.h"
#include "tools/print/format.h"
#include "util/output_file.h"
#include "util/regular_file.h"
#include "util/xmalloc.h"

#define SUMMARY_BYTES_MAX (1u << 20) /* GitHub shows no more */

/* Write a file with what `write` prints of `content`. */
static int write_file(const char *path, void (*write)(const void *content, FILE *out),
                      const void *content)
{
    struct output_file file;
    struct error error;
    int code = output_file_open(&file, path, OUTPUT_FILE_SHARED, &error);
    if (code == 0) {
        write(content, xmalloc_made(output_file_stream(&file)));
        code = output_file_close(&file, 0, &error);
    }
    if (code < 0)
        verb_fail(&error);
    return code;
}

static void write_junit(const void *content, FILE *out)
{
    check_report_junit(content, out);
}

int check_write_junit(const struct check_page *page, const char *path)
{
    return write_file(path, write_junit, page);
}

/* --- the summary --- */

struct summary {
    const struct check_page *page;
    char *old; /* what the file has */
    size_t length;
};

static void write_summary(const void *content, FILE *out)
{
    const struct summary *summary = content;
    fwrite(summary->old, 1, summary->length, out);
    check_report_markdown(summary->page, out);
}

int check_write_summary(const struct check_page *page, const char *path)
{
    struct summary summary = {.page = page, .old = xmalloc(SUMMARY_BYTES_MAX)};
    struct stat status;
    /* What is behind a descriptor stays there. */
    bool is_descriptor = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    int fd = !is_descriptor ? regular_file_open(path, &status) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file != NULL) {
        summary.length = fread(summary.old, 1, SUMMARY_BYTES_MAX, file);
        fclose(file);
    } else if (fd >= 0) {
        close(fd);
    }
    int code = write_file(path, write_summary, &summary);
    free(summary.old);
    return code;
}

/* --- the baseline --- */

static void write_baseline(const void *content, FILE *out)
{
    baseline_file_write(content, out);
}

static const char *why_undecidable(const struct baseline_file *file)
{
    if (file->unseen != NULL)
        return file->unseen;
    if (file->unprofiled)
        return "processes ran and were not profiled (--only-profiled leaves them out)";
    return file->total.partial != NULL ? file->total.partial : file->total.totals_partial;
}

int check_write_baseline(const struct budgets *budgets, const struct budget_subject *subject,
                         const char *path)
{
    struct baseline_file file;
    int code = baseline_file_make(budgets, subject, &file);
    if (code == 0)
        code = write_file(path, write_baseline, &file);
    if (code == 0 && why_undecidable(&file) != NULL)
        format_printf(stderr, "heap_profile: %s: growth beyond it is undecidable: %s\n", path,
                      why_undecidable(&file));
    baseline_file_clear(&file);
    return code;
}
