/* SPDX-License-Identifier: Apache-2.0 */
/* Where debuginfod's clients keep files. */
#include <stdio.h>
#include <stdlib.h>

#include "profile/symbols/debuginfod.h"

bool debuginfod_cache_path(size_t index, const char *build_id, char *path, size_t size)
{
    static const struct {
        const char *variable, *below;
    } caches[] = {
        {"DEBUGINFOD_CACHE_PATH", ""},
        {"XDG_CACHE_HOME", "/debuginfod_client"},
        {"HOME", "/.cache/debuginfod_client"},
        {"HOME", "/.debuginfod_client_cache"},
    };
    if (index >= sizeof(caches) / sizeof(caches[0]))
        return false;
    const char *directory = getenv(caches[index].variable);
    if (directory == NULL || directory[0] != '/' ||
        snprintf(path, size, "%s%s/%s/debuginfo", directory, caches[index].below, build_id) >=
            (int)size)
        path[0] = 0;
    return true;
}
