/* SPDX-License-Identifier: Apache-2.0 */
/* The names, from the table of extended functions and from the standards. */
#include "recorder/attach/function_names.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "recorder/reader/allocator_names.h"

const char *const function_names[ATTACHED_FUNCTIONS] = {
    [ATTACHED_MALLOC] = "malloc",
    [ATTACHED_FREE] = "free",
    [ATTACHED_CALLOC] = "calloc",
    [ATTACHED_REALLOC] = "realloc",
    [ATTACHED_REALLOCARRAY] = "reallocarray",
    [ATTACHED_POSIX_MEMALIGN] = "posix_memalign",
    [ATTACHED_ALIGNED_ALLOC] = "aligned_alloc",
    [ATTACHED_MEMALIGN] = "memalign",
    [ATTACHED_VALLOC] = "valloc",
    [ATTACHED_PVALLOC] = "pvalloc",
    [ATTACHED_CFREE] = "cfree",
    [ATTACHED_FREE_SIZED] = "free_sized",
    [ATTACHED_FREE_ALIGNED_SIZED] = "free_aligned_sized",
    [ATTACHED_DLCLOSE] = "dlclose",
    [ATTACHED_PRCTL] = "prctl",
    [ATTACHED_SYSCALL] = "syscall",
    /* In the order of enum cxx_function (src/client/real_allocator.h). */
    [ATTACHED_CXX] = "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "_ZdlPvRKSt9nothrow_t",
    "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
    "_ZdaPvSt11align_val_t",
    "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t",
    "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
#define NAME(name, ...) #name,
    ALLOCATOR_EXTENDED(NAME)
#undef NAME
};

const char *const function_library_keys[EXTENDED_LIBRARIES] = {EXTENDED_LIBRARY_KEYS};

const char *const family_keys[FAMILY_KINDS] = {FAMILY_KEYS};

static const uint8_t libraries[EXTENDED_FUNCTIONS] = {
#define LIBRARY(name, library, ...) EXTENDED_OF_##library,
    ALLOCATOR_EXTENDED(LIBRARY)
#undef LIBRARY
};

/* For each function that throws, the one that the client calls in its place. */
static const uint16_t nothrow_forms[ATTACHED_FUNCTIONS] = {
    [ATTACHED_CXX + 0] = ATTACHED_CXX + 2, /* operator new: in the order of enum cxx_function */
    [ATTACHED_CXX + 1] = ATTACHED_CXX + 3,
    [ATTACHED_CXX + 4] = ATTACHED_CXX + 6,
    [ATTACHED_CXX + 5] = ATTACHED_CXX + 7,
#define EXTENDED__ (-ATTACHED_EXTENDED)
#define NOTHROW(name, library, since, kind, block, count, bytes, nothrow)                          \
    [ATTACHED_EXTENDED + EXTENDED_##name] = ATTACHED_EXTENDED + EXTENDED_##nothrow,
    ALLOCATOR_EXTENDED(NOTHROW)
#undef NOTHROW
#undef EXTENDED__
};

unsigned function_nothrow_form(int function)
{
    return nothrow_forms[function];
}

enum extended_library function_library(int function)
{
    return function < ATTACHED_EXTENDED
               ? EXTENDED_LIBRARIES
               : (enum extended_library)libraries[function - ATTACHED_EXTENDED];
}

/* Append a name to the list. Return the number of bytes of text. */
static size_t list_name(char *text, size_t used, const char **list, size_t *count,
                        const char *prefix, const char *name)
{
    list[(*count)++] = text + used;
    return used + (size_t)sprintf(text + used, "%s%s", prefix, name) + 1;
}

static bool has_prefix(int function, size_t prefix)
{
    return allocator_names_are_of(function_library(function), prefix != FUNCTION_NO_PREFIX);
}

static const char *prefix_name(size_t prefix)
{
    return prefix != FUNCTION_NO_PREFIX ? allocator_prefixes[prefix] : "";
}

size_t function_names_list(char *text, const char **list, size_t *count)
{
    size_t used = 0;
    *count = 0;
    for (size_t i = 0; i <= FUNCTION_NO_PREFIX; i++) {
        for (int j = 0; j < ATTACHED_FUNCTIONS; j++) {
            if (has_prefix(j, i))
                used = list_name(text, used, list, count, prefix_name(i), function_names[j]);
        }
    }
    for (int i = 0; i < FAMILY_KINDS; i++)
        used = list_name(text, used, list, count, "*", family_keys[i]);
    used = list_name(text, used, list, count, "", EXTENDED_HEAP_VISIT);
    used = list_name(text, used, list, count, "", FUNCTION_OF_JEMALLOCS_NEW);
    used = list_name(text, used, list, count, "", ALLOCATOR_RUSTS_DEFAULT);
    used = list_name(text, used, list, count, "", FUNCTION_OF_PYTHON);
    used = list_name(text, used, list, count, "", "exit");
    used = list_name(text, used, list, count, "", "pthread_exit");
    return list_name(text, used, list, count, "", "_dl_find_object");
}

enum attached_function function_of_name(const char *name, size_t prefix)
{
    size_t length = strlen(prefix_name(prefix));
    if (strncmp(name, prefix_name(prefix), length) != 0)
        return ATTACHED_FUNCTIONS;
    for (int i = 0; i < ATTACHED_FUNCTIONS; i++) {
        if (has_prefix(i, prefix) && strcmp(name + length, function_names[i]) == 0)
            return (enum attached_function)i;
    }
    return ATTACHED_FUNCTIONS;
}
