/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would load files that belong to the machine's own C library: libraries, and conversions of
 * character sets. A program with a C library of its own loads neither. And the version that
 * `doctor` shows is not the machine's.
 */
#include <gnu/libc-version.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>

#include "util/locale_name.h"

/* The linker leads calls of NAME to __wrap_NAME (scripts/link-static). */
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlsym(void *library, const char *name);
int __wrap_dlclose(void *library);
char *__wrap_dlerror(void);
char *__real_setlocale(int category, const char *name);
char *__wrap_setlocale(int category, const char *name);
locale_t __real_newlocale(int mask, const char *name, locale_t base);
locale_t __wrap_newlocale(int mask, const char *name, locale_t base);
const char *__real_gnu_get_libc_version(void);
const char *__wrap_gnu_get_libc_version(void);

void *__wrap_dlopen(const char *path, int flags)
{
    (void)path, (void)flags;
    return NULL;
}

void *__wrap_dlsym(void *library, const char *name)
{
    (void)library, (void)name;
    return NULL;
}

int __wrap_dlclose(void *library)
{
    (void)library;
    return -1;
}

char *__wrap_dlerror(void)
{
    return "this program is linked statically and loads no libraries";
}

/* The C library has the conversion of UTF-8 in it, and no other one. */
char *__wrap_setlocale(int category, const char *name)
{
    bool is_users = name != NULL && *name == '\0';
    return __real_setlocale(category, is_users && !locale_name_has_utf8() ? "C" : name);
}

locale_t __wrap_newlocale(int mask, const char *name, locale_t base)
{
    return __real_newlocale(mask, *name == '\0' && !locale_name_has_utf8() ? "C" : name, base);
}

const char *__wrap_gnu_get_libc_version(void)
{
    static char text[64];
    snprintf(text, sizeof(text), "%s linked into this program", __real_gnu_get_libc_version());
    return text;
}
