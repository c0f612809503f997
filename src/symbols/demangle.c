/*
 * Names for people through libiberty: C++ (Itanium), Rust (v0 and legacy), D.
 *
 * Names come from files of strangers. A short mangled name can stand for one of
 * exponential length, because it may refer to its own parts again and again; so
 * the result is collected by a callback that stops the demangler as soon as
 * DEMANGLED_LENGTH_MAX is reached, and ends in "...". libiberty's callback forms
 * take their memory from the stack alone, which is what makes it right to leave
 * them by longjmp.
 */
#include "symbols/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MANGLED_LENGTH_MAX 8192
#define DEMANGLED_LENGTH_MAX 4096
/* D's demangler has no callback form; each 'Q' refers back and can double what it prints. */
#define D_LENGTH_MAX 2048
#define D_REFERENCES_MAX 24

#define DEMANGLE_OPTIONS (DMGL_PARAMS | DMGL_ANSI)

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

/* Whether the name is one of this language's. The collector lives in the caller,
 * so that what it holds after longjmp is defined. */
static bool run_demangler(demangle_function *demangle, const char *name,
                          struct collector *collector)
{
    collector->length = 0;
    if (setjmp(collector->full) == 0)
        return demangle(name, DEMANGLE_OPTIONS, collect, collector) != 0 && collector->length > 0;
    memcpy(collector->text + collector->length, "...", 3);
    collector->length += 3;
    return true;
}

/* A malloc'd name, or NULL if it is none of this language's. */
static char *demangle_collected(demangle_function *demangle, const char *name)
{
    struct collector collector;
    if (!run_demangler(demangle, name, &collector))
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

char *demangle_name(const char *name)
{
    size_t length = strnlen(name, MANGLED_LENGTH_MAX + 1);
    char *result = NULL;
    /* Rust first: its legacy names are C++ names too, with a hash at their end. */
    if (name[0] == '_' && length <= MANGLED_LENGTH_MAX) {
        if (name[1] == 'R' || strncmp(name, "_ZN", 3) == 0)
            result = demangle_collected(rust_demangle_callback, name);
        if (result == NULL && name[1] == 'Z')
            result = demangle_collected(cplus_demangle_v3_callback, name);
        if (result == NULL && is_bounded_d_name(name, length))
            result = dlang_demangle(name, DEMANGLE_OPTIONS);
    }
    return result != NULL ? result : strdup(name);
}
