/* SPDX-License-Identifier: Apache-2.0 */
/* What the name of the user's locale says, whether or not the machine has its files. */
#ifndef HEAPPROFD_UTIL_LOCALE_NAME_H
#define HEAPPROFD_UTIL_LOCALE_NAME_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Return whether text is in UTF-8 by LC_ALL, LC_CTYPE or LANG, of which the first counts. */
static inline bool locale_name_has_utf8(void)
{
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *name = NULL;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (name == NULL || *name == '\0')
            name = getenv(variables[i]);
    }
    const char *charset = name == NULL ? NULL : strchr(name, '.');
    return charset != NULL &&
           (strncasecmp(charset, ".utf-8", 6) == 0 || strncasecmp(charset, ".utf8", 5) == 0);
}

#endif
