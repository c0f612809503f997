/* SPDX-License-Identifier: Apache-2.0 */
/* Search the environment that the program was started with. */
#include "client/environment.h"

#include <stddef.h>
#include <string.h>

#include "client/libc/libc.h"

const char *environment_get(const char *name)
{
    if (getauxval(AT_SECURE) != 0)
        return NULL;
    size_t length = strlen(name);
    const char *const *entry = libc_environment();
    if (entry == NULL)
        return NULL;
    for (; *entry != NULL; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}
