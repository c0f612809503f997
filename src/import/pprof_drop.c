/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves out the frames that a pprof file asks its readers to drop: allocators' own functions, and
 * what they call. The names are matched as go tool pprof matches them: whole, without arguments.
 *
 * The expressions are those of Go. POSIX expressions are the same but for few things, which are
 * rewritten or refused. Repetitions ("{1000}") and references to groups are refused too: in a
 * hostile file they would cost any amount of memory or time.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/pprof_reading.h"
#include "symbols/demangle.h"

/* tcmalloc's has 1,600 bytes. */
#define PATTERN_BYTES_MAX 16384u
#define NAME_BYTES_MAX 4096u

/* Write "^(pattern)$" as a POSIX expression. Return whether it could be done. */
static bool rewrite_pattern(const char *pattern, char *to, size_t size)
{
    size_t at = 0;
    to[at++] = '^';
    to[at++] = '(';
    for (; *pattern != '\0'; pattern++) {
        if (at + 16 > size || *pattern == '{')
            return false;
        if (*pattern == '(' && strncmp(pattern, "(?:", 3) == 0) {
            to[at++] = '(';
            pattern += 2;
            continue;
        }
        if (*pattern == '(' && pattern[1] == '?')
            return false;
        if (*pattern == '\\' && pattern[1] == 'd') {
            memcpy(to + at, "[0-9]", 5);
            at += 5;
            pattern++;
            continue;
        }
        if (*pattern == '\\') {
            if (pattern[1] == '\0' || isdigit((unsigned char)pattern[1]) ||
                (isalpha((unsigned char)pattern[1]) && strchr("wWsSb", pattern[1]) == NULL))
                return false;
            to[at++] = *pattern++;
        }
        to[at++] = *pattern;
    }
    memcpy(to + at, ")$", 3);
    return true;
}

static bool compile_pattern(regex_t *regex, const char *pattern)
{
    size_t length = strlen(pattern), size = 5 * length + 64;
    char *text = length <= PATTERN_BYTES_MAX ? malloc(size) : NULL;
    bool is_good = text != NULL && rewrite_pattern(pattern, text, size) &&
                   regcomp(regex, text, REG_EXTENDED | REG_NOSUB) == 0;
    free(text);
    return is_good;
}

void pprof_drop_open(struct pprof_reading *reading)
{
    struct pprof_drop *drop = &reading->drop;
    const char *pattern = pprof_reading_text(reading, reading->file.drop_frames);
    if (*pattern == '\0')
        return;
    drop->has_drop = compile_pattern(&drop->drop, pattern);
    if (!drop->has_drop)
        drop->problem = "its drop_frames is no expression that can be used: no frame is left out";
    pattern = pprof_reading_text(reading, reading->file.keep_frames);
    if (!drop->has_drop || *pattern == '\0')
        return;
    drop->has_keep = compile_pattern(&drop->keep, pattern);
    if (drop->has_keep)
        return;
    drop->problem = "its keep_frames is no expression that can be used: no frame is left out";
    regfree(&drop->drop);
    drop->has_drop = false;
}

void pprof_drop_close(struct pprof_drop *drop)
{
    if (drop->has_drop)
        regfree(&drop->drop);
    if (drop->has_keep)
        regfree(&drop->keep);
}

/* Cut a function's name at its arguments; the parentheses of some names are none. */
static void cut_arguments(char *name)
{
    static const char *const reserved[] = {"(anonymous namespace)", "operator()"};
    for (char *at = name; *at != '\0'; at++) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
            if (strncmp(at, reserved[i], strlen(reserved[i])) == 0)
                skip = strlen(reserved[i]);
        if (skip > 0) {
            at += skip - 1;
        } else if (*at == '(') {
            *at = '\0';
            return;
        }
    }
}

bool pprof_drop_matches(const struct pprof_drop *drop, const char *name)
{
    char plain[NAME_BYTES_MAX];
    char *demangled = strncmp(name, "_Z", 2) == 0 ? demangle_name(name) : NULL;
    const char *shown = demangled != NULL ? demangled : name;
    shown += *shown == '.';
    bool fits = (size_t)snprintf(plain, sizeof(plain), "%s", shown) < sizeof(plain);
    free(demangled);
    if (!fits || plain[0] == '\0')
        return false;
    cut_arguments(plain);
    return regexec(&drop->drop, plain, 0, NULL, 0) == 0 &&
           !(drop->has_keep && regexec(&drop->keep, plain, 0, NULL, 0) == 0);
}

int pprof_drop_apply(struct pprof_reading *reading, struct error *error)
{
    bool has_caller = false;
    if (!reading->drop.has_drop)
        return 0;
    for (size_t i = reading->id_count; i-- > 0;) {
        const struct pprof_location_frames *frames = pprof_reading_frames(reading, reading->ids[i]);
        if (frames == NULL && reading->builder->error < 0)
            return reading->builder->error;
        if (frames == NULL)
            return error_set(error, -EBADMSG, "a sample with an unknown or malformed location");
        has_caller |= frames->dropped == PPROF_KEPT;
        if (!has_caller || frames->dropped == PPROF_KEPT)
            continue;
        size_t first = frames->dropped == PPROF_DROPPED ? i + 1 : i;
        reading->id_count -= first;
        memmove(reading->ids, reading->ids + first, reading->id_count * sizeof(*reading->ids));
        return 0;
    }
    return 0;
}
