/* SPDX-License-Identifier: Apache-2.0 */
/* Searches for the preload library beside the program and in the installation's directories. */
#include "recorder/host/preload_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/safe_directory.h"

#define LIBRARY_NAME "libheapprofd_preload.so"

/* A link stays after its session, whose programs may still start others. There is one for each
 * library. */
#define LINKS "/tmp/heapprofd-preload-"

/* Make the library's link in the directory `place`, which must be ours, and no link itself: whoever
 * called sudo is trusted, but may not lead us elsewhere. Return 0 or a negative errno. */
static int make_link(int directory, const char *place, const char *library)
{
    struct stat status, named;
    char now[PATH_MAX], fresh[] = ".XXXXXX";
    if (fstat(directory, &status) < 0 || lstat(place, &named) < 0 || !S_ISDIR(named.st_mode) ||
        named.st_dev != status.st_dev || named.st_ino != status.st_ino ||
        status.st_uid != geteuid())
        return -EPERM;
    /* Programs of other users may be children of root's command. */
    if ((status.st_mode & 0055) != 0055)
        fchmod(directory, 0755);
    ssize_t length = readlinkat(directory, LIBRARY_NAME, now, sizeof(now) - 1);
    now[length > 0 ? length : 0] = '\0';
    if (strcmp(now, library) == 0)
        return 0;
    fresh[1] = '\0';
    safe_directory_put_random(fresh);
    int code = symlinkat(library, directory, fresh) < 0 ? -errno : 0;
    if (code == 0 && renameat(directory, fresh, directory, LIBRARY_NAME) < 0) {
        code = -errno;
        unlinkat(directory, fresh, 0);
    }
    return code;
}

/* LD_PRELOAD's paths end at colons and blanks (musl: of any kind). Replace a path that has them by
 * a link's. */
static int make_nameable(char path[PATH_MAX], struct error *error)
{
    char place[sizeof(LINKS) + 48];
    struct stat status;
    struct error inner = {0};
    if (strpbrk(path, " :\t\n") == NULL)
        return 0;
    if (stat(path, &status) < 0)
        return error_set(error, -errno, "%s: %s", path, strerror(errno));
    snprintf(place, sizeof(place), LINKS "%u-%llx-%llx", (unsigned)geteuid(),
             (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    int fd = safe_directory_make(place, &inner), code = fd;
    if (fd >= 0) {
        code = make_link(fd, place, path);
        close(fd);
        error_set(&inner, code, "%s: %s", place, strerror(-code));
    }
    if (code < 0)
        return error_set(error, code,
                         "%s: LD_PRELOAD cannot name a path with a blank or a colon, and no link "
                         "to it can be made (%s); copy the library elsewhere, and name the copy in "
                         "HEAPPROFD_PRELOAD",
                         path, inner.message);
    snprintf(path, PATH_MAX, "%s/" LIBRARY_NAME, place);
    return 0;
}

int preload_path_find(char path[PATH_MAX], struct error *error)
{
    const char *wanted = getenv("HEAPPROFD_PRELOAD");
    if (wanted != NULL && realpath(wanted, path) != NULL)
        return make_nameable(path, error);
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
            return make_nameable(path, error);
    }
    return error_set(error, -ENOENT,
                     "%s is neither in %s nor in ../lib*/heapprofd next to it; reinstall, or name "
                     "it in HEAPPROFD_PRELOAD",
                     LIBRARY_NAME, own);
}
