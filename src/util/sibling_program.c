/* SPDX-License-Identifier: Apache-2.0 */
/* Looks beside this program, and in the installation's other directory for programs. */
#include "util/sibling_program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int sibling_program_find(const char *name, char path[PATH_MAX], struct error *error)
{
    /* From its own directory: a build, from bin/, from libexec/heapprofd/. */
    static const char *const places[] = {"", "/../libexec/heapprofd", "/../../bin"};
    char own[PATH_MAX], candidate[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash != NULL)
        *slash = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        int bytes = snprintf(candidate, sizeof(candidate), "%s%s/%s", own, places[i], name);
        if (bytes < PATH_MAX && access(candidate, X_OK) == 0) {
            memcpy(path, candidate, (size_t)bytes + 1);
            return 0;
        }
    }
    return error_set(error, -ENOENT, "%s is neither in %s nor in ../libexec/heapprofd; reinstall",
                     name, own);
}
