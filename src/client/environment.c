/* See environment.h. */
#include "client/environment.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

extern void *__libc_stack_end;

const char *environment_get(const char *name)
{
    if (getauxval(AT_SECURE) != 0)
        return NULL;
    size_t length = strlen(name);
    const uintptr_t *word = __libc_stack_end;
    const char *const *entry = (const char *const *)(word + 1 + word[0] + 1);
    for (; *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}
