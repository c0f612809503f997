/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangle names through libiberty: C++ (Itanium), Rust (v0 and legacy), D.
 *
 * Names come from untrusted files. A short mangled name can expand to an exponentially long one,
 * because it may refer to its own parts again and again. A callback therefore collects the result,
 * stops the demangler when DEMANGLED_LENGTH_MAX is reached, and appends "...". libiberty's callback
 * forms allocate on the stack only, so leaving them by longjmp is safe.
 *
 * Simple names are cut from the demanglers' output: libiberty can omit parameters, but not template
 * arguments.
 */
#include "profile/symbols/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#define MANGLED_LENGTH_MAX 8192
#define DEMANGLED_LENGTH_MAX 4096
/* D's demangler has no callback form, and each 'Q' is a back reference that can double its output.
 */
#define D_LENGTH_MAX 2048
#define D_REFERENCES_MAX 24

struct collector {
    jmp_buf full;
    size_t length;
    char text[DEMANGLED_LENGTH_MAX + sizeof("...")];
};

static void collect(const char *piece, size_t length, void *opaque)
{
    struct collector *collector = opaque;
    size_t room = DEMANGLED_LENGTH_MAX - collector->length;
    memcpy(collector->text + collector->length, piece, length < room ? length : room);
    collector->length += length < room ? length : room;
    if (length > room)
        longjmp(collector->full, 1);
}

typedef int demangle_function(const char *, int, demangle_callbackref, void *);

/* Return whether the name belongs to the demangler's language. The collector belongs to the caller,
 * so its contents are defined after longjmp. */
static bool run_demangler(demangle_function *demangle, const char *name, int options,
                          struct collector *collector)
{
    collector->length = 0;
    if (setjmp(collector->full) == 0)
        return demangle(name, options, collect, collector) != 0 && collector->length > 0;
    memcpy(collector->text + collector->length, "...", 3);
    collector->length += 3;
    return true;
}

/* Return a malloc'd name, or NULL if it does not belong to this language. */
static char *demangle_collected(demangle_function *demangle, const char *name, int options)
{
    struct collector collector;
    if (!run_demangler(demangle, name, options, &collector))
        return NULL;
    return strndup(collector.text, collector.length);
}

static bool is_bounded_d_name(const char *name, size_t length)
{
    if (length > D_LENGTH_MAX || name[0] != '_' || name[1] != 'D')
        return false;
    size_t references = 0;
    for (size_t i = 0; i < length; i++)
        references += name[i] == 'Q';
    return references <= D_REFERENCES_MAX;
}

/* --- simple names --- */

static bool is_identifier(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_' || letter == '$' ||
           (unsigned char)letter >= 0x80;
}

/* Return the position after the bracket that closes the one at `at`, or the end of the text. The
 * ">" of an arrow closes nothing. */
static const char *after_bracket(const char *at, char opening, char closing)
{
    size_t depth = 0;
    for (; *at != '\0'; at++) {
        if (*at == opening)
            depth++;
        else if (*at == closing && at[-1] != '-' && --depth == 0)
            return at + 1;
    }
    return at;
}

/* "operator->*" and a space. */
#define OPERATOR_LENGTH_MAX 12

/* Return the length of "operator" and its symbol, if brackets are part of the symbol; else 0. */
static size_t operator_length(const char *begin, const char *at)
{
    static const char word[] = "operator";
    static const char *const signs[] = {"()", "<=>", "<<=", ">>=", "->*", "<<",
                                        ">>", "<=",  ">=",  "->",  "<",   ">"};
    if (*at != word[0] || strncmp(at, word, strlen(word)) != 0 ||
        (at > begin && is_identifier(at[-1])))
        return 0;
    for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++) {
        if (strncmp(at + strlen(word), signs[i], strlen(signs[i])) == 0)
            return strlen(word) + strlen(signs[i]);
    }
    return 0;
}

/* Remove the angle brackets after names, with their contents. In Rust, "<T as Trait>::name" is the
 * name itself, and "name::<T>" has colons before the bracket. */
static void drop_arguments(char *text)
{
    const char *bracket = strchr(text, '<'), *begin = text;
    if (bracket == NULL)
        return;
    /* Nothing changes before it, but an operator may begin there. */
    char *to =
        bracket - text > OPERATOR_LENGTH_MAX ? text + (bracket - text) - OPERATOR_LENGTH_MAX : text;
    const char *at = to;
    while (*at != '\0') {
        size_t length = operator_length(begin, at);
        bool is_operator = length > 0;
        if (is_operator)
            memmove(to, at, length);
        to += length;
        at += length;
        if (is_operator && at[0] == ' ' && at[1] == '<')
            at++;
        bool after_colons = to - text > 2 && to[-1] == ':' && to[-2] == ':';
        bool after_name = to > text && (is_identifier(to[-1]) || is_operator);
        if (*at == '<' && (after_name || after_colons)) {
            to -= after_colons ? 2 : 0;
            at = after_bracket(at, '<', '>');
        } else if (*at != '\0' && !is_operator) {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

/* Remove "!(...)" and the final parameters of a D name. */
static void drop_d_arguments(char *text)
{
    const char *at = text;
    char *to = text;
    while (*at != '\0') {
        const char *after = *at == '(' ? after_bracket(at, '(', ')') : at;
        if (at[0] == '!' && at[1] == '(')
            at = after_bracket(at + 1, '(', ')');
        else if (*at == '(' && (*after == '\0' || *after == '.'))
            at = after;
        else
            *to++ = *at++;
    }
    *to = '\0';
}

/* --- names --- */

/* Return whether the name can be Rust's. Its legacy names are C++ names that end in "17h" and a
 * hash, so most C++ names need not be parsed to exclude them. */
static bool may_be_rust(const char *name)
{
    return name[1] == 'R' || (strncmp(name, "_ZN", 3) == 0 && strstr(name, "17h") != NULL);
}

char *demangle_name_as(const char *name, enum demangle_mode mode)
{
    size_t length = strnlen(name, MANGLED_LENGTH_MAX + 1);
    int options = mode == DEMANGLE_SIMPLE ? DMGL_ANSI : DMGL_ANSI | DMGL_PARAMS;
    char *result = NULL;
    /* Rust first: its legacy names are C++ names too, with a hash at their end. */
    if (name[0] == '_' && length <= MANGLED_LENGTH_MAX && mode != DEMANGLE_NONE) {
        if (may_be_rust(name))
            result = demangle_collected(rust_demangle_callback, name, options);
        if (result == NULL && name[1] == 'Z')
            result = demangle_collected(cplus_demangle_v3_callback, name, options);
        bool is_d = result == NULL && is_bounded_d_name(name, length);
        if (is_d)
            result = dlang_demangle(name, DMGL_ANSI | DMGL_PARAMS);
        if (result != NULL && mode == DEMANGLE_SIMPLE && is_d)
            drop_d_arguments(result);
        else if (result != NULL && mode == DEMANGLE_SIMPLE)
            drop_arguments(result);
    }
    if (result == NULL)
        result = strdup(name);
    /* Unmangled names from debug information may have arguments, too. */
    if (result != NULL && mode == DEMANGLE_SIMPLE && strcmp(result, name) == 0)
        drop_arguments(result);
    return result;
}

char *demangle_name(const char *name)
{
    return demangle_name_as(name, DEMANGLE_FULL);
}
