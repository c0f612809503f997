/* SPDX-License-Identifier: Apache-2.0 */
/* Parses budgets and suppressions from options and from budget files. */
#include "profile/compare/budgets.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"
#include "util/units.h"

const char *const budget_names[BUDGET_KINDS] = {
    [BUDGET_PEAK] = "max-peak",
    [BUDGET_LIVE] = "max-live",
    [BUDGET_ALLOCATED] = "max-allocated",
    [BUDGET_ALLOCATIONS] = "max-allocations",
    [BUDGET_TEMPORARY] = "max-temporary",
    [BUDGET_LEAK] = "max-leak",
    [BUDGET_GROWTH] = "max-growth",
    [BUDGET_PEAK_GROWTH] = "max-peak-growth",
    [BUDGET_ALLOCATED_GROWTH] = "max-allocated-growth",
    [BUDGET_ALLOCATIONS_GROWTH] = "max-allocations-growth",
};

/* Parse "64k", "1.5M", "100 kB", "300" or "20%". */
static bool parse_limit(const char *text, double *limit, bool *share)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *limit = strtod(text, &end);
    *share = *end == '%';
    end += *end == ' ' && end[1] != '\0';
    double factor = *share ? 0.01 : size_unit_bytes(end, strlen(end));
    *limit *= factor;
    return isfinite(*limit) && strpbrk(text, "xXpP") == NULL &&
           (*share ? end[1] == '\0' : factor > 0);
}

static int budgets_complain(struct error *error, unsigned line, const char *message,
                            const char *text)
{
    if (line > 0)
        return error_set(error, -EINVAL, "line %u: %s, not '%s'", line, message, text);
    return error_set(error, -EINVAL, "%s, not '%s'", message, text);
}

static const char *expected(enum budget_kind kind)
{
    switch (kind) {
    case BUDGET_ALLOCATIONS:
        return "max-allocations takes a number of calls, as in 10000 or 10k";
    case BUDGET_TEMPORARY:
        return "max-temporary takes a share of all allocations, as in 20%";
    case BUDGET_LEAK:
        return "max-leak takes a function or module and bytes, as in parse_*=64k or "
               "module:libfoo.so=0";
    case BUDGET_GROWTH:
    case BUDGET_PEAK_GROWTH:
    case BUDGET_ALLOCATED_GROWTH:
        return "a limit of growth takes bytes or a share, as in 1M, 5%, parse_*=64k or "
               "heap:libc.malloc=5%";
    case BUDGET_ALLOCATIONS_GROWTH:
        return "max-allocations-growth takes a number of calls or a share, as in 1000, 5%, "
               "parse_*=100 or heap:libc.malloc=5%";
    default:
        return "a budget of memory is in bytes, as in 4096, 64k or 1.5M";
    }
}

/* Trim blanks at both ends, in place. */
static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Return a copy without blanks at the ends: a line may be "max-leak = parse = 64k". NULL: no
 * memory. */
static char *copy_pattern(const char *text, size_t length)
{
    char *copy = strndup(text, length), *pattern = copy != NULL ? strdup(trimmed(copy)) : NULL;
    free(copy);
    return pattern;
}

int budgets_add(struct budgets *budgets, const char *name, const char *value, unsigned line,
                struct error *error)
{
    struct budget budget = {.line = line};
    if (strcmp(name, "baseline") == 0) {
        free(budgets->baseline);
        budgets->baseline = strdup(value);
        return budgets->baseline == NULL ? error_set(error, -ENOMEM, "no memory") : 0;
    }
    while (budget.kind < BUDGET_KINDS && strcmp(name, budget_names[budget.kind]) != 0)
        budget.kind++;
    if (budget.kind == BUDGET_KINDS)
        return budgets_complain(error, line,
                                "budgets are max-peak, max-live, max-allocated, max-allocations, "
                                "max-temporary, max-leak, max-growth, max-peak-growth, "
                                "max-allocated-growth, max-allocations-growth and baseline",
                                name);
    /* Split at the last '=': function names may contain one (operator==). */
    bool takes_pattern = budget.kind == BUDGET_LEAK || budget_is_growth(budget.kind);
    const char *equals = takes_pattern ? strrchr(value, '=') : NULL;
    const char *limit = equals != NULL ? equals + 1 + (equals[1] == ' ') : value;
    bool no_pattern = equals != NULL && value + strspn(value, " \t") == equals;
    if (!parse_limit(limit, &budget.limit, &budget.share) || no_pattern ||
        (budget.kind == BUDGET_LEAK && equals == NULL) ||
        (budget.share && budget.kind != BUDGET_TEMPORARY && !budget_is_growth(budget.kind)) ||
        (!budget.share && budget.kind == BUDGET_TEMPORARY))
        return budgets_complain(error, line, expected(budget.kind), value);
    if (equals != NULL)
        budget.pattern = copy_pattern(value, (size_t)(equals - value));
    budget.text = strdup(limit);
    if (budget.text == NULL || (equals != NULL && budget.pattern == NULL) ||
        ARRAY_RESERVE(&budgets->items, &budgets->capacity, budgets->count, 1) < 0) {
        free(budget.text);
        free(budget.pattern);
        return error_set(error, -ENOMEM, "no memory");
    }
    budgets->items[budgets->count++] = budget;
    return 0;
}

int budgets_suppress(struct budgets *budgets, const char *text, unsigned line, struct error *error)
{
    static const char expected_text[] =
        "a suppression is leak:PATTERN  # reason, and needs a reason";
    char *copy = strdup(text), *reason, *pattern;
    if (copy == NULL)
        return error_set(error, -ENOMEM, "no memory");
    int code = 0;
    reason = strchr(copy, '#');
    if (reason != NULL)
        *reason++ = '\0';
    pattern = trimmed(copy);
    reason = reason != NULL ? trimmed(reason) : NULL;
    if (strncmp(pattern, "leak:", 5) != 0 || pattern[5] == '\0' || reason == NULL ||
        *reason == '\0') {
        code = budgets_complain(error, line, expected_text, text);
    } else if (ARRAY_RESERVE(&budgets->suppressions, &budgets->suppression_capacity,
                             budgets->suppression_count, 1) < 0) {
        code = error_set(error, -ENOMEM, "no memory");
    } else {
        struct budget_suppression *added = &budgets->suppressions[budgets->suppression_count++];
        *added = (struct budget_suppression){
            .pattern = strdup(trimmed(pattern + 5)), .reason = strdup(reason), .line = line};
        if (added->pattern == NULL || added->reason == NULL)
            code = error_set(error, -ENOMEM, "no memory");
    }
    free(copy);
    return code;
}

static int budgets_take_line(struct budgets *budgets, char *text, unsigned line,
                             struct error *error)
{
    static const char suppress[] = "suppress:";
    text = trimmed(text);
    if (*text == '\0' || *text == '#')
        return 0;
    if (strncmp(text, suppress, strlen(suppress)) == 0)
        return budgets_suppress(budgets, text + strlen(suppress), line, error);
    /* A comment begins after a blank: function names may contain '#'. */
    for (char *at = text; (at = strchr(at, '#')) != NULL; at++) {
        if (isspace((unsigned char)at[-1])) {
            *at = '\0';
            break;
        }
    }
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return budgets_complain(
            error, line, "a line is 'name = value', 'suppress: ...' or '# comment'", trimmed(text));
    *equals = '\0';
    return budgets_add(budgets, trimmed(text), trimmed(equals + 1), line, error);
}

int budgets_read_text(struct budgets *budgets, const char *text, size_t length, struct error *error)
{
    const char *end = text + length;
    int code = 0;
    for (unsigned line = 1; code == 0 && text < end; line++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        size_t width = (size_t)((newline != NULL ? newline : end) - text);
        char *copy = malloc(width + 1);
        if (copy != NULL) {
            memcpy(copy, text, width);
            copy[width] = '\0';
        }
        if (copy == NULL)
            code = error_set(error, -ENOMEM, "no memory");
        else if (strlen(copy) != width)
            code = error_set(error, -EINVAL, "line %u: this is not a file of budgets", line);
        else
            code = budgets_take_line(budgets, copy, line, error);
        free(copy);
        text += width + 1;
    }
    return code;
}

void budgets_clear(struct budgets *budgets)
{
    for (size_t i = 0; i < budgets->count; i++) {
        free(budgets->items[i].pattern);
        free(budgets->items[i].text);
    }
    for (size_t i = 0; i < budgets->suppression_count; i++) {
        free(budgets->suppressions[i].pattern);
        free(budgets->suppressions[i].reason);
    }
    free(budgets->items);
    free(budgets->suppressions);
    free(budgets->baseline);
    *budgets = (struct budgets){0};
}
