/* SPDX-License-Identifier: Apache-2.0 */
/* Read the loader's variables, under the names that each C library gives them. */
#include "client/libc/libc.h"

#include <stddef.h>
#include <unistd.h>

#pragma weak environ
#pragma weak _r_debug

/* glibc: the initial stack pointer, which leads to argc, argv and the environment. */
extern const uintptr_t *const __libc_stack_end __attribute__((weak));
/* musl: its r_debug. An object of its list begins with the members of a link_map. */
extern const struct r_debug *const _dl_debug_addr __attribute__((weak));

bool libc_is_musl(void)
{
    return &_dl_debug_addr != NULL;
}

const struct link_map *libc_objects(void)
{
    if (libc_is_musl())
        return _dl_debug_addr->r_map;
    return &_r_debug != NULL ? _r_debug.r_map : NULL;
}

/* Return whether __libc_stack_end leads to argc. That of a static program does not. */
static bool has_initial_stack(void)
{
#ifdef HEAPPROFD_STATIC
    if (getauxval(AT_BASE) == 0)
        return false;
#endif
    return &__libc_stack_end != NULL;
}

/* glibc sets `environ` only after its loader, which may allocate. musl sets it before. */
const char *const *libc_environment(void)
{
    if (has_initial_stack())
        return (const char *const *)(__libc_stack_end + 1 + __libc_stack_end[0] + 1);
    return &environ != NULL ? (const char *const *)environ : NULL;
}

const char *const *libc_present_environment(void)
{
    return &environ != NULL ? (const char *const *)environ : NULL;
}

/* glibc's constructor sets it. */
bool libc_is_initialized(void)
{
    return &environ != NULL && environ != NULL;
}

/* The kernel's random bytes are on the initial stack, next to the environment. */
uintptr_t libc_stack_end(void)
{
    if (&__libc_stack_end != NULL && __libc_stack_end != NULL)
        return (uintptr_t)__libc_stack_end;
    return getauxval(AT_RANDOM);
}
