/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCRE2's own limits hold for one match from one position of a text, which does not bound a file of
 * many names. So it calls count_step() before each item of the expression (automatic callouts),
 * which counts the bytes between two items, too.
 */
#include "util/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* About two seconds. */
#define STEPS_MAX (UINT64_C(1) << 28)
/* Steps for each byte of a text, so that no number of names exhausts a usual expression. */
#define STEPS_PER_BYTE 64u
/* Of one match from one position. */
#define MATCHES_MAX 10000000u
#define DEPTH_MAX 100000u
#define HEAP_KIB_MAX (16u << 10)
#define GROUPS_MAX 100u /* inside each other */

struct pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    unsigned weight; /* steps for a byte */
    uint64_t steps_left;
    size_t step_at; /* byte of the text at the last step */
};

void pattern_free(struct pattern *pattern)
{
    if (pattern == NULL)
        return;
    pcre2_code_free(pattern->code);
    pcre2_match_data_free(pattern->match);
    pcre2_match_context_free(pattern->limits);
    free(pattern);
}

/* Take a step. Return an error, which ends the match, if none is left. */
static int count_step(pcre2_callout_block *block, void *context)
{
    struct pattern *pattern = context;
    size_t at = block->current_position, from = pattern->step_at;
    uint64_t steps = pattern->weight * (uint64_t)(1 + (at > from ? at - from : from - at));
    pattern->step_at = at;
    if (pattern->steps_left < steps)
        return PCRE2_ERROR_CALLOUT;
    pattern->steps_left -= steps;
    return 0;
}

/* An item that fails is not counted: a class compares with up to all of its ranges, and a
 * repetition with as many characters as its number. */
static unsigned weight_of(const char *text)
{
    unsigned long most = 0;
    for (const char *at = strchr(text, '{'); at != NULL; at = strpbrk(at + 1, "{,")) {
        unsigned long number = strtoul(at + 1, NULL, 10);
        most = number > most ? number : most;
    }
    return 1 + (unsigned)(strlen(text) / 64) +
           (unsigned)((most < UINT16_MAX ? most : UINT16_MAX) / 16);
}

static int compile(struct pattern *pattern, const char *text, enum pattern_place place,
                   struct error *error)
{
    uint32_t options = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOTALL | PCRE2_DOLLAR_ENDONLY |
                       PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
    int reason;
    size_t at;
    uint32_t references = 0;
    pcre2_compile_context *limits = pcre2_compile_context_create(NULL);
    if (limits == NULL)
        return error_set(error, -ENOMEM, "no memory");
    pcre2_set_max_pattern_length(limits, PATTERN_BYTES_MAX);
    pcre2_set_parens_nest_limit(limits, GROUPS_MAX);
    if (place == PATTERN_WHOLE_TEXT)
        options |= PCRE2_ANCHORED | PCRE2_ENDANCHORED;
    pattern->code =
        pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, &reason, &at, limits);
    pcre2_compile_context_free(limits);
    if (pattern->code == NULL) {
        char words[160];
        pcre2_get_error_message(reason, (PCRE2_UCHAR *)words, sizeof(words));
        bool exceeds = reason == PCRE2_ERROR_PATTERN_TOO_LARGE ||
                       reason == PCRE2_ERROR_PATTERN_STRING_TOO_LONG ||
                       reason == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP ||
                       reason == PCRE2_ERROR_PATTERN_TOO_COMPLICATED;
        return error_set(error,
                         reason == PCRE2_ERROR_HEAP_FAILED ? -ENOMEM
                         : exceeds                         ? PATTERN_EXCEEDS
                                                           : -EINVAL,
                         "character %zu: %s", at + 1, words);
    }
    pcre2_pattern_info(pattern->code, PCRE2_INFO_BACKREFMAX, &references);
    if (references > 0)
        return error_set(error, -EINVAL, "references to groups are not supported");
    return 0;
}

int pattern_new(struct pattern **result, const char *text, enum pattern_place place,
                struct error *error)
{
    struct pattern *pattern = calloc(1, sizeof(*pattern));
    *result = pattern;
    if (pattern == NULL)
        return error_set(error, -ENOMEM, "no memory");
    int code = compile(pattern, text, place, error);
    if (code == 0) {
        pattern->match = pcre2_match_data_create(1, NULL);
        pattern->limits = pcre2_match_context_create(NULL);
        if (pattern->match == NULL || pattern->limits == NULL)
            code = error_set(error, -ENOMEM, "no memory");
    }
    if (code < 0) {
        pattern_free(pattern);
        *result = NULL;
        return code;
    }
    pcre2_set_match_limit(pattern->limits, MATCHES_MAX);
    pcre2_set_depth_limit(pattern->limits, DEPTH_MAX);
    pcre2_set_heap_limit(pattern->limits, HEAP_KIB_MAX);
    pcre2_set_callout(pattern->limits, count_step, pattern);
    pattern->weight = weight_of(text);
    pattern->steps_left = STEPS_MAX;
    return 0;
}

int pattern_matches(struct pattern *pattern, const char *text, struct error *error)
{
    size_t length = strlen(text);
    pattern->steps_left += STEPS_PER_BYTE * (uint64_t)(length + 1);
    pattern->step_at = 0;
    int found =
        pcre2_match(pattern->code, (PCRE2_SPTR)text, length, 0, 0, pattern->match, pattern->limits);
    switch (found) {
    case PCRE2_ERROR_NOMATCH:
        return 0;
    case PCRE2_ERROR_NOMEMORY:
        return error_set(error, -ENOMEM, "no memory to match it");
    case PCRE2_ERROR_CALLOUT:
    case PCRE2_ERROR_MATCHLIMIT:
    case PCRE2_ERROR_DEPTHLIMIT:
    case PCRE2_ERROR_HEAPLIMIT:
        pattern->steps_left = 0;
        return error_set(error, PATTERN_EXCEEDS,
                         "it takes too many steps to match: repetitions inside repetitions "
                         "multiply");
    default:
        return found >= 0
                   ? 1
                   : error_set(error, PATTERN_EXCEEDS, "it cannot be matched: error %d", found);
    }
}
