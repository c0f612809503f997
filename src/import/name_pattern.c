/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An expression becomes a list of steps, and a match keeps the set of steps that the name's bytes
 * so far can have led to (Thompson's construction). Jumps are relative: a part of the list can be
 * moved while it is made.
 */
#include "import/name_pattern.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "util/array.h"

#define PATTERN_BYTES_MAX 8192u
#define GROUPS_MAX 100u /* inside each other */

enum step_kind { STEP_BYTES, STEP_SPLIT, STEP_JUMP, STEP_BEGIN, STEP_END, STEP_MATCH };

struct step {
    enum step_kind kind;
    int32_t to, or_to; /* of jumps: from this step; `or_to` of STEP_SPLIT only */
    uint32_t bytes;    /* of STEP_BYTES: in pattern.sets */
};

/* A bit for each byte that may come next. */
struct byte_set {
    uint64_t bits[4];
};

struct name_pattern {
    struct step *steps;
    size_t count, capacity;
    struct byte_set *sets;
    size_t set_count, set_capacity;
    /* Of a match. */
    uint32_t *present, *next, *waiting; /* steps that read a byte; those to look at */
    uint64_t *seen;  /* by step: when it was last added, in the count of `moment` */
    uint64_t moment; /* bytes that were read so far, of all names */
};

struct parsing {
    struct name_pattern *pattern;
    const char *at;
    unsigned depth;
};

void name_pattern_free(struct name_pattern *pattern)
{
    if (pattern == NULL)
        return;
    free(pattern->steps);
    free(pattern->sets);
    free(pattern->present);
    free(pattern->next);
    free(pattern->waiting);
    free(pattern->seen);
    free(pattern);
}

/* --- steps --- */

static bool add_step(struct name_pattern *pattern, struct step step)
{
    return ARRAY_ADD(&pattern->steps, &pattern->count, &pattern->capacity, step) == 0;
}

/* Insert a step before the steps from `first` on. */
static bool insert_step(struct name_pattern *pattern, size_t first, struct step step)
{
    if (!add_step(pattern, step))
        return false;
    struct step *at = &pattern->steps[first];
    memmove(at + 1, at, (pattern->count - 1 - first) * sizeof(*at));
    *at = step;
    return true;
}

static void set_byte(struct byte_set *set, unsigned byte)
{
    set->bits[byte / 64] |= UINT64_C(1) << byte % 64;
}

static bool has_byte(const struct byte_set *set, unsigned char byte)
{
    return (set->bits[byte / 64] >> byte % 64 & 1) != 0;
}

static bool add_bytes(struct name_pattern *pattern, const struct byte_set *set)
{
    const struct step step = {.kind = STEP_BYTES, .bytes = (uint32_t)pattern->set_count};
    return ARRAY_ADD(&pattern->sets, &pattern->set_count, &pattern->set_capacity, *set) == 0 &&
           add_step(pattern, step);
}

/* --- the expression --- */

static void invert(struct byte_set *set)
{
    for (int i = 0; i < 4; i++)
        set->bits[i] = ~set->bits[i];
}

/* Add the bytes of an escape after its backslash. Return false for one that is not known. */
static bool take_escape(const char **at, struct byte_set *set)
{
    static int (*const classes[])(int) = {['d'] = isdigit, ['w'] = isalnum, ['s'] = isspace};
    unsigned char letter = (unsigned char)*(*at)++;
    struct byte_set all = {0};
    if (letter == '\0')
        return false;
    if (!isalnum(letter)) {
        set_byte(set, letter);
        return true;
    }
    unsigned small = (unsigned)tolower(letter);
    if (small >= sizeof(classes) / sizeof(classes[0]) || classes[small] == NULL)
        return false;
    for (int byte = 0; byte < 128; byte++)
        if (classes[small](byte) || (small == 'w' && byte == '_'))
            set_byte(&all, (unsigned)byte);
    if (isupper(letter))
        invert(&all);
    for (int i = 0; i < 4; i++)
        set->bits[i] |= all.bits[i];
    return true;
}

/* Read "a-z0-9]" after "[". */
static bool take_class(struct parsing *parsing)
{
    struct byte_set set = {0};
    bool is_inverted = *parsing->at == '^';
    parsing->at += is_inverted;
    for (bool is_first = true; *parsing->at != ']' || is_first; is_first = false) {
        unsigned char from = (unsigned char)*parsing->at++;
        if (from == '\0' || (from == '[' && *parsing->at == ':'))
            return false;
        if (from == '\\') {
            if (!take_escape(&parsing->at, &set))
                return false;
            continue;
        }
        unsigned char to = from;
        if (*parsing->at == '-' && parsing->at[1] != ']' && parsing->at[1] != '\0') {
            to = (unsigned char)parsing->at[1];
            parsing->at += 2;
        }
        if (to == '\\' || to < from)
            return false;
        for (unsigned byte = from; byte <= to; byte++)
            set_byte(&set, byte);
    }
    parsing->at++;
    if (is_inverted)
        invert(&set);
    return add_bytes(parsing->pattern, &set);
}

static bool take_choice(struct parsing *parsing);

static bool take_group(struct parsing *parsing)
{
    if (*parsing->at == '?' && parsing->at[1] != ':')
        return false;
    parsing->at += *parsing->at == '?' ? 2 : 0;
    if (++parsing->depth > GROUPS_MAX || !take_choice(parsing) || *parsing->at != ')')
        return false;
    parsing->depth--;
    parsing->at++;
    return true;
}

static bool take_atom(struct parsing *parsing)
{
    struct byte_set set = {0};
    char letter = *parsing->at++;
    switch (letter) {
    case '(':
        return take_group(parsing);
    case '[':
        return take_class(parsing);
    case '^':
        return add_step(parsing->pattern, (struct step){.kind = STEP_BEGIN});
    case '$':
        return add_step(parsing->pattern, (struct step){.kind = STEP_END});
    case '*':
    case '+':
    case '?':
    case '{':
        return false;
    case '.':
        set_byte(&set, '\n');
        invert(&set);
        break;
    case '\\':
        if (!take_escape(&parsing->at, &set))
            return false;
        break;
    default:
        set_byte(&set, (unsigned char)letter);
    }
    return add_bytes(parsing->pattern, &set);
}

/* Read an atom and what repeats it. */
static bool take_piece(struct parsing *parsing)
{
    struct name_pattern *pattern = parsing->pattern;
    size_t first = pattern->count;
    if (!take_atom(parsing))
        return false;
    int32_t length = (int32_t)(pattern->count - first);
    bool is_done = true;
    char sign = *parsing->at;
    if (sign == '?' || sign == '*')
        is_done = insert_step(
            pattern, first, (struct step){STEP_SPLIT, 1, sign == '?' ? length + 1 : length + 2, 0});
    if (is_done && sign == '*')
        is_done = add_step(pattern, (struct step){STEP_JUMP, -(length + 1), 0, 0});
    if (sign == '+')
        is_done = add_step(pattern, (struct step){STEP_SPLIT, -length, 1, 0});
    if (sign == '?' || sign == '*' || sign == '+')
        parsing->at += parsing->at[1] == '?' ? 2 : 1; /* a lazy one matches the same names */
    return is_done && strchr("?*+{", *parsing->at == '\0' ? 'a' : *parsing->at) == NULL;
}

/* Read "a|b|c". */
static bool take_choice(struct parsing *parsing)
{
    struct name_pattern *pattern = parsing->pattern;
    size_t first = pattern->count;
    for (;;) {
        size_t jump = pattern->count - 1; /* of the choices so far */
        while (*parsing->at != '\0' && *parsing->at != '|' && *parsing->at != ')')
            if (!take_piece(parsing))
                return false;
        if (pattern->count > first && jump + 1 > first && pattern->steps[jump].kind == STEP_JUMP &&
            pattern->steps[jump].to == 0)
            pattern->steps[jump].to = (int32_t)(pattern->count - jump);
        if (*parsing->at != '|')
            return true;
        parsing->at++;
        int32_t length = (int32_t)(pattern->count - first);
        if (!insert_step(pattern, first, (struct step){STEP_SPLIT, 1, length + 2, 0}) ||
            !add_step(pattern, (struct step){STEP_JUMP, 0, 0, 0}))
            return false;
    }
}

static bool reserve_match(struct name_pattern *pattern)
{
    size_t count = pattern->count;
    pattern->present = calloc(count, sizeof(*pattern->present));
    pattern->next = calloc(count, sizeof(*pattern->next));
    pattern->waiting = calloc(2 * count + 2, sizeof(*pattern->waiting));
    pattern->seen = calloc(count, sizeof(*pattern->seen));
    return pattern->present != NULL && pattern->next != NULL && pattern->waiting != NULL &&
           pattern->seen != NULL;
}

struct name_pattern *name_pattern_new(const char *text)
{
    struct parsing parsing = {.at = text};
    if (strnlen(text, PATTERN_BYTES_MAX + 1) > PATTERN_BYTES_MAX ||
        (parsing.pattern = calloc(1, sizeof(*parsing.pattern))) == NULL)
        return NULL;
    if (take_choice(&parsing) && *parsing.at == '\0' &&
        add_step(parsing.pattern, (struct step){.kind = STEP_MATCH}) &&
        reserve_match(parsing.pattern))
        return parsing.pattern;
    name_pattern_free(parsing.pattern);
    return NULL;
}

/* --- matches --- */

struct match {
    struct name_pattern *pattern;
    const char *at; /* the next byte */
    bool is_first;  /* at the name's begin */
    size_t count;   /* of pattern->next */
    bool has_matched;
    uint64_t *budget;
};

/* Add a step, and all that it leads to without reading a byte. */
static void add_to_match(struct match *match, uint32_t index)
{
    struct name_pattern *pattern = match->pattern;
    size_t waiting = 0;
    pattern->waiting[waiting++] = index;
    while (waiting > 0 && *match->budget > 0) {
        index = pattern->waiting[--waiting];
        --*match->budget;
        if (pattern->seen[index] == pattern->moment)
            continue;
        pattern->seen[index] = pattern->moment;
        const struct step *step = &pattern->steps[index];
        if (step->kind == STEP_BYTES)
            pattern->next[match->count++] = index;
        else if (step->kind == STEP_MATCH)
            match->has_matched |= *match->at == '\0';
        else if (step->kind == STEP_BEGIN || step->kind == STEP_END) {
            if (step->kind == STEP_BEGIN ? match->is_first : *match->at == '\0')
                pattern->waiting[waiting++] = index + 1;
        } else {
            pattern->waiting[waiting++] = index + (uint32_t)step->to;
            if (step->kind == STEP_SPLIT)
                pattern->waiting[waiting++] = index + (uint32_t)step->or_to;
        }
    }
}

bool name_pattern_matches(struct name_pattern *pattern, const char *name, uint64_t *budget)
{
    struct match match = {.pattern = pattern, .at = name, .is_first = true, .budget = budget};
    pattern->moment++;
    add_to_match(&match, 0);
    while (*match.at != '\0' && match.count > 0 && *budget > 0) {
        unsigned char byte = (unsigned char)*match.at++;
        uint32_t *present = pattern->next;
        size_t count = match.count;
        pattern->next = pattern->present;
        pattern->present = present;
        pattern->moment++;
        match.count = 0;
        match.is_first = false;
        for (size_t i = 0; i<count && * budget> 0; i++) {
            --*budget;
            if (has_byte(&pattern->sets[pattern->steps[present[i]].bytes], byte))
                add_to_match(&match, present[i] + 1);
        }
    }
    return match.has_matched && *budget > 0;
}
