/* SPDX-License-Identifier: Apache-2.0 */
/* gcc's suffixes are in its ipa-*.c and lto*.cc, clang's are .llvm., .__uniq. and .cold. */
#include "profile/symbols/clones.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const struct suffix {
    const char *text;
    bool has_number; /* a number follows; else the name may end here, or another suffix begin */
} suffixes[] = {
    {".isra.", true}, {".constprop.", true},  {".part.", true},      {".lto_priv.", true},
    {".llvm.", true}, {".__uniq.", true},     {".clone.", true},     {".specialized.", true},
    {".cold", false}, {".localalias", false}, {".simdclone.", true},
};

/* Return whether a suffix begins at `at`. */
static bool is_suffix(const char *at)
{
    if (strncmp(at, " [clone ", strlen(" [clone ")) == 0)
        return true;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        size_t length = strlen(suffixes[i].text);
        if (strncmp(at, suffixes[i].text, length) != 0)
            continue;
        if (suffixes[i].has_number ? isdigit((unsigned char)at[length])
                                   : at[length] == '\0' || at[length] == '.')
            return true;
    }
    return false;
}

size_t clones_name_length(const char *name)
{
    for (const char *at = name + (*name != '\0'); *at != '\0'; at++) {
        if ((*at == '.' || *at == ' ') && is_suffix(at))
            return (size_t)(at - name);
    }
    return strlen(name);
}
