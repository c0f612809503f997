/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/self is the first thread's. If that one has ended before the others, its files show neither
 * mappings nor the program. Those of the calling thread do, under its number as /proc counts, which
 * may be another than gettid()'s (a /proc of another namespace).
 */
#include "client/own_files.h"

#include <errno.h>
#include <string.h>

#include "client/system.h"

static char *path_append(char *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(at, text, length + 1);
    return at + length;
}

/* Return where the calling thread's number begins in a link "PID/task/TID"; NULL: unknown. */
static const char *own_number(char link[OWN_FILE_PATH_BYTES])
{
    const char *number = NULL;
    if (own_link_read("/proc/thread-self", link, OWN_FILE_PATH_BYTES / 2) < 0)
        return NULL;
    for (const char *at = link; *at != 0; at++)
        number = *at == '/' ? at + 1 : number;
    return number;
}

char *own_file_path(char path[OWN_FILE_PATH_BYTES], const char *name)
{
    char link[OWN_FILE_PATH_BYTES];
    const char *directory = "self";
    /* The link of a thread that has ended leads nowhere. */
    if (own_link_read("/proc/self/exe", link, sizeof(link)) == -ENOENT) {
        const char *number = own_number(link);
        directory = number != NULL ? number : directory;
    }
    return path_append(path_append(path_append(path_append(path, "/proc/"), directory), "/"), name);
}

int own_link_read(const char *link, char *buffer, size_t size)
{
    long length = system_call(CALL_READ_LINK, link, buffer, size);
    if (length < 0)
        return (int)length;
    if ((size_t)length >= size)
        return -ENAMETOOLONG;
    buffer[length] = 0;
    return (int)length;
}
