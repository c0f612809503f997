/* SPDX-License-Identifier: Apache-2.0 */
/* Load the client library when it is first needed, so that nothing depends on it. */
#include "profile/symbols/debuginfod.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/clock.h"

typedef int take_progress(void *client, long done, long all);

struct debuginfod {
    void *library, *client;
    int (*find_debuginfo)(void *client, const unsigned char *build_id, int length, char **path);
    void (*set_progress)(void *client, take_progress *take);
    void (*end)(void *client);
    unsigned limit_ms;
};

/* The library passes no context of ours in all its versions. */
static uint64_t deadline_ms;

/* Return whether the request is to end. */
static int is_late(void *client, long done, long all)
{
    (void)client, (void)done, (void)all;
    return clock_read_ms(CLOCK_MONOTONIC) > deadline_ms;
}

struct debuginfod *debuginfod_open(unsigned limit_ms, struct error *error)
{
    const char *servers = getenv("DEBUGINFOD_URLS");
    struct debuginfod *debuginfod =
        servers == NULL || *servers == 0 ? NULL : calloc(1, sizeof(*debuginfod));
    if (debuginfod == NULL)
        return NULL;
    debuginfod->limit_ms = limit_ms;
    /* RTLD_NODELETE: libraries below it never free some memory. Unloaded, they would leak it. */
    debuginfod->library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *(*begin)(void) = NULL;
    if (debuginfod->library != NULL) {
        *(void **)&begin = dlsym(debuginfod->library, "debuginfod_begin");
        *(void **)&debuginfod->find_debuginfo =
            dlsym(debuginfod->library, "debuginfod_find_debuginfo");
        *(void **)&debuginfod->set_progress =
            dlsym(debuginfod->library, "debuginfod_set_progressfn");
        *(void **)&debuginfod->end = dlsym(debuginfod->library, "debuginfod_end");
    }
    if (begin != NULL && debuginfod->find_debuginfo != NULL && debuginfod->set_progress != NULL &&
        debuginfod->end != NULL)
        debuginfod->client = begin();
    if (debuginfod->client != NULL)
        return debuginfod;
    debuginfod_close(debuginfod);
    error_set(
        error, -ENOENT,
        "DEBUGINFOD_URLS names servers, but their client libdebuginfod.so.1 is not installed; "
        "install it (libdebuginfod1)");
    return NULL;
}

void debuginfod_close(struct debuginfod *debuginfod)
{
    if (debuginfod == NULL)
        return;
    if (debuginfod->client != NULL)
        debuginfod->end(debuginfod->client);
    if (debuginfod->library != NULL)
        dlclose(debuginfod->library);
    free(debuginfod);
}

char *debuginfod_find(struct debuginfod *debuginfod, const uint8_t *build_id, size_t length)
{
    char *path = NULL;
    if (debuginfod->limit_ms > 0) {
        deadline_ms = clock_read_ms(CLOCK_MONOTONIC) + debuginfod->limit_ms;
        debuginfod->set_progress(debuginfod->client, is_late);
    }
    int fd = debuginfod->find_debuginfo(debuginfod->client, build_id, (int)length, &path);
    if (fd < 0)
        return NULL;
    close(fd);
    return path;
}
