/* SPDX-License-Identifier: Apache-2.0 */
/* Compare names with the table of extended functions. */
#include "recorder/reader/allocator_names.h"

#include <string.h>

static const struct {
    const char *name;
    enum extended_kind kind;
    enum extended_library library;
} functions[EXTENDED_FUNCTIONS] = {
#define FUNCTION(name, library, since, kind, ...) {#name, EXTENDED_##kind, EXTENDED_OF_##library},
    ALLOCATOR_EXTENDED(FUNCTION)
#undef FUNCTION
};

bool allocator_names_are_of(enum extended_library library, bool with_prefix)
{
    return with_prefix ? library == EXTENDED_OF_JEMALLOC || library == EXTENDED_OF_STANDARD
                       : library != EXTENDED_OF_STANDARD;
}

/* Find the function with this name, with or without a prefix. Return EXTENDED_FUNCTIONS: none. */
static unsigned allocator_names_find(const char *name)
{
    size_t skipped = 0;
    for (size_t i = 0; i < ALLOCATOR_JEMALLOC_PREFIXES && skipped == 0; i++) {
        size_t length = strlen(allocator_prefixes[i]);
        if (strncmp(name, allocator_prefixes[i], length) == 0)
            skipped = length;
    }
    for (unsigned i = 0; i < EXTENDED_FUNCTIONS; i++) {
        if (allocator_names_are_of(functions[i].library, skipped > 0) &&
            strcmp(name + skipped, functions[i].name) == 0)
            return i;
    }
    return EXTENDED_FUNCTIONS;
}

const char *allocator_name_demangle(const char *name)
{
    static const char crate[] = "_7___rustc"; /* the name of the crate, and of a function in it */
    const char *at = strncmp(name, "_RNvC", 5) == 0 ? strstr(name, crate) : NULL;
    if (at == NULL)
        return name;
    at += sizeof(crate) - 1;
    at += strspn(at, "0123456789");
    return *at == '_' ? at + 1 : name;
}

bool allocator_name_allocates(const char *name)
{
    unsigned found = allocator_names_find(name);
    return found != EXTENDED_FUNCTIONS && functions[found].kind < EXTENDED_RELEASE &&
           functions[found].library != EXTENDED_OF_TOKEN &&
           functions[found].library != EXTENDED_OF_FAST_TOKEN;
}

bool allocator_name_releases(const char *name)
{
    unsigned found = allocator_names_find(name);
    return found != EXTENDED_FUNCTIONS && functions[found].kind == EXTENDED_RELEASE;
}
