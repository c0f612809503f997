/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a baseline file. An accepted one has only finite figures, and is written and read
 * back the same; a refused one has a reason with the offset.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "profile/compare/baseline_file.h"

static void write_text(const struct baseline_file *file, char **text, size_t *length)
{
    FILE *out = open_memstream(text, length);
    check(out != NULL);
    baseline_file_write(file, out);
    fclose(out);
}

static void check_row(const struct baseline_file *file, const char *of)
{
    const struct budgets budgets = {0};
    const struct budget_subject subject = {.only_profiled = true, .heap = file->heap};
    for (int i = 0; i < GROWTH_FIGURES; i++) {
        const struct growth_amount amount =
            baseline_file_find(file, &budgets, &subject, of, (enum growth_figure)i);
        check(amount.unknown != NULL || isfinite(amount.value));
        check(!(amount.interval.low > amount.value) && !(amount.interval.high < amount.value));
    }
}

/* Numbers are rounded, once. */
static void check_same(const struct baseline_file *file)
{
    struct baseline_file again, third;
    struct error error = {0};
    char *text, *same;
    size_t length, same_length;
    write_text(file, &text, &length);
    check(baseline_file_read_text(&again, text, length, &error) == 0);
    check(again.row_count == file->row_count && again.stack_count == file->stack_count);
    write_text(&again, &same, &same_length);
    check(baseline_file_read_text(&third, same, same_length, &error) == 0);
    check(length == same_length && memcmp(text, same, length) == 0);
    baseline_file_clear(&third);
    baseline_file_clear(&again);
    free(same);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct baseline_file file;
    struct error error = {0};
    int code = baseline_file_read_text(&file, (const char *)bytes, length, &error);
    check(code == 0 || (code < 0 && strncmp(error.message, "byte ", 5) == 0));
    if (code == 0) {
        check_row(&file, NULL);
        check_row(&file, "heap:none");
        for (size_t i = 0; i < file.row_count; i++)
            check_row(&file, file.rows[i].of);
        double most;
        for (size_t i = 0; i < file.stack_count; i++)
            baseline_file_stack(&file, file.stacks[i].text, GROWTH_LIVE, &most);
        check_same(&file);
    }
    baseline_file_clear(&file);
    return 0;
}
