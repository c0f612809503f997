/* SPDX-License-Identifier: Apache-2.0 */
/* Find the environment above the initial stack pointer. */
#include "client/environment.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

extern void *__libc_stack_end;

static const char *const *first_entry(void)
{
#ifdef HEAPPROFD_STATIC
    /* Without a loader, __libc_stack_end is not set, but the C library is initialized. */
    if (getauxval(AT_BASE) == 0)
        return (const char *const *)environ;
#endif
    const uintptr_t *word = __libc_stack_end;
    return (const char *const *)(word + 1 + word[0] + 1);
}

const char *environment_get(const char *name)
{
    if (getauxval(AT_SECURE) != 0)
        return NULL;
    size_t length = strlen(name);
    const char *const *entry = first_entry();
    if (entry == NULL)
        return NULL;
    for (; *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}
