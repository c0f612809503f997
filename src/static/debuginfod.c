/* SPDX-License-Identifier: Apache-2.0 */
/* The same requests and the same cache as those of debuginfod's library, by the program curl. */
#include "profile/symbols/debuginfod.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "static/curl_run.h"
#include "util/hex.h"

#define BUILD_ID_BYTES_MAX 64
/* The library's own limits. */
#define SILENCE_S "90"
#define MISS_S 600

struct debuginfod {
    char *servers; /* between blanks */
    unsigned limit_ms;
};

struct debuginfod *debuginfod_open(unsigned limit_ms, struct error *error)
{
    const char *servers = getenv("DEBUGINFOD_URLS");
    if (servers == NULL || *servers == '\0')
        return NULL;
    if (!curl_run_is_possible()) {
        error_set(error, -ENOENT,
                  "DEBUGINFOD_URLS names servers, but there is no program curl in PATH, by which "
                  "this statically linked program asks them; install curl");
        return NULL;
    }
    struct debuginfod *debuginfod = calloc(1, sizeof(*debuginfod));
    if (debuginfod == NULL || (debuginfod->servers = strdup(servers)) == NULL) {
        free(debuginfod);
        return NULL;
    }
    debuginfod->limit_ms = limit_ms;
    return debuginfod;
}

void debuginfod_close(struct debuginfod *debuginfod)
{
    if (debuginfod != NULL)
        free(debuginfod->servers);
    free(debuginfod);
}

/* Choose the cache as the library does: the first that is named, but an old one only if it exists,
 * and make its directories. */
static bool debuginfod_make_place(const char *build_id, char path[PATH_MAX])
{
    char old[PATH_MAX];
    size_t last = 0;
    path[0] = '\0';
    while (path[0] == '\0' && debuginfod_cache_path(last, build_id, path, PATH_MAX))
        last++;
    if (path[0] == '\0')
        return false;
    if (getenv("DEBUGINFOD_CACHE_PATH") == NULL &&
        debuginfod_cache_path(DEBUGINFOD_OLD_CACHE, build_id, old, sizeof(old)) &&
        access(old, F_OK) == 0)
        strcpy(path, old);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    return true;
}

/* Write curl's answer into the file. Return curl's exit status, or a negative errno. */
static int debuginfod_request(const struct debuginfod *debuginfod, const char *url,
                              const char *path)
{
    struct curl_run run = {0};
    char limit[32], failure[CURL_RUN_FAILURE_BYTES], ignored[256];
    snprintf(limit, sizeof(limit), "%u.%03u", debuginfod->limit_ms / 1000,
             debuginfod->limit_ms % 1000);
    curl_run_add(&run, "url", url);
    curl_run_add(&run, "output", path);
    curl_run_add(&run, "fail", NULL);
    curl_run_add(&run, "location", NULL);
    curl_run_add(&run, "proto", "=http,https,file");
    curl_run_add(&run, "user-agent", "heapprofd/" HEAPPROFD_VERSION);
    curl_run_add(&run, "speed-limit", "1");
    curl_run_add(&run, "speed-time", SILENCE_S);
    if (debuginfod->limit_ms > 0)
        curl_run_add(&run, "max-time", limit);
    int code = curl_run_start(&run, NULL, 0);
    if (code < 0)
        return code;
    while (read(run.answer, ignored, sizeof(ignored)) > 0)
        continue;
    return curl_run_finish(&run, failure);
}

/* Return whether this is curl's exit status for an answer such as 404, or for no file. */
static bool is_missing(int code)
{
    return code == 22 || code == 37;
}

/* Ask each server. Return whether one had it. *is_nowhere: they all answered, and none had it. */
static bool debuginfod_ask(const struct debuginfod *debuginfod, const char *build_id,
                           const char *path, bool *is_nowhere)
{
    char url[PATH_MAX];
    const char *at = debuginfod->servers;
    *is_nowhere = true;
    for (at += strspn(at, " "); *at != '\0'; at += strspn(at, " ")) {
        int length = (int)strcspn(at, " "), bare = length;
        while (bare > 0 && at[bare - 1] == '/')
            bare--;
        if (snprintf(url, sizeof(url), "%.*s/buildid/%s/debuginfo", bare, at, build_id) <
            (int)sizeof(url)) {
            int code = debuginfod_request(debuginfod, url, path);
            if (code == 0)
                return true;
            *is_nowhere = *is_nowhere && is_missing(code);
        }
        at += length;
    }
    return false;
}

char *debuginfod_find(struct debuginfod *debuginfod, const uint8_t *bytes, size_t length)
{
    char build_id[2 * BUILD_ID_BYTES_MAX + 1], path[PATH_MAX], fresh[PATH_MAX];
    struct stat status;
    bool is_nowhere;
    if (length == 0 || length > BUILD_ID_BYTES_MAX)
        return NULL;
    hex_write(bytes, length, build_id);
    if (!debuginfod_make_place(build_id, path) ||
        snprintf(fresh, sizeof(fresh), "%s.XXXXXX", path) >= (int)sizeof(fresh))
        return NULL;
    if (stat(path, &status) == 0 && status.st_size > 0)
        return strdup(path);
    if (stat(path, &status) == 0 && time(NULL) - status.st_mtime < MISS_S)
        return NULL;
    int file = mkostemp(fresh, O_CLOEXEC);
    if (file < 0)
        return NULL;
    close(file);
    bool is_found = debuginfod_ask(debuginfod, build_id, fresh, &is_nowhere);
    /* An empty file says that nobody has it. */
    if (!is_found && is_nowhere && truncate(fresh, 0) < 0)
        is_nowhere = false;
    if ((is_found || is_nowhere) && rename(fresh, path) == 0)
        return is_found ? strdup(path) : NULL;
    unlink(fresh);
    return NULL;
}
