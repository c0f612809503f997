/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for the preload library beside the program and in the installation's directories. */
#include "daemon/host/preload_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY_NAME "libheapprofd_preload.so"

/* Return 0 if LD_PRELOAD, whose paths end at blanks and colons, can name the path. */
static int check_path(const char *path, struct error *error)
{
    if (strpbrk(path, " :") == NULL)
        return 0;
    return error_set(error, -EINVAL,
                     "%s: LD_PRELOAD cannot name a path with a blank or a colon; install heapprofd "
                     "(make install), or copy the library elsewhere and name the copy in "
                     "HEAPPROFD_PRELOAD",
                     path);
}

int preload_path_find(char path[PATH_MAX], struct error *error)
{
    const char *wanted = getenv("HEAPPROFD_PRELOAD");
    if (wanted != NULL && realpath(wanted, path) != NULL)
        return check_path(path, error);
    char own[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash != NULL)
        *slash = '\0';
    static const char *const places[] = {
        "", "/../lib/heapprofd", "/../lib/x86_64-linux-gnu/heapprofd",
        "/../lib/aarch64-linux-gnu/heapprofd", "/../lib64/heapprofd"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char candidate[2 * PATH_MAX];
        snprintf(candidate, sizeof(candidate), "%s%s/" LIBRARY_NAME, own, places[i]);
        if (realpath(candidate, path) != NULL)
            return check_path(path, error);
    }
    return error_set(error, -ENOENT,
                     "%s is neither in %s nor in ../lib*/heapprofd next to it; reinstall, or name "
                     "it in HEAPPROFD_PRELOAD",
                     LIBRARY_NAME, own);
}
