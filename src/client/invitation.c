/* SPDX-License-Identifier: Apache-2.0 */
/* Map control pages, and look for this process's token in a new generation. */
#include "client/invitation.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/environment.h"
#include "client/libc/libc.h"
#include "client/system.h"
#include "wire/control_page.h"

#define PATH_MAX_HERE 108 /* the longest path of a socket */

/* Run directories: the system's and the user's, or the one that the environment names. */
#define DIRECTORIES 2

static struct directory {
    const struct control_page *page; /* NULL: none */
    char socket_path[PATH_MAX_HERE];
} directories[DIRECTORIES];

static struct control_page_secret secret; /* a forked child keeps it, as the kernel does */

HIDDEN uint32_t invitation_seen[DIRECTORIES];
HIDDEN const uint32_t *invitation_generations[DIRECTORIES] = {&invitation_seen[0],
                                                              &invitation_seen[1]};

/* Write base/middle/name to `to`. Return false if it is too long. */
static bool join_path(char to[PATH_MAX_HERE], const char *base, const char *middle,
                      const char *name)
{
    const char *const parts[] = {base, middle, name};
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(parts[i]);
        if (length == 0)
            continue;
        if (used + 1 + length >= PATH_MAX_HERE)
            return false;
        if (used > 0)
            to[used++] = '/';
        memcpy(to + used, parts[i], length + 1);
        used += length;
    }
    return true;
}

static const struct control_page *map_page(const char *path)
{
    struct stat status;
    long fd = system_call(CALL_OPEN_INVITATION, path);
    if (fd < 0)
        return NULL;
    long mapped = -1;
    if (system_call(CALL_FILE_STATUS, fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size >= (off_t)CONTROL_PAGE_BYTES)
        mapped = system_call(CALL_MAP_INVITATION, CONTROL_PAGE_BYTES, fd);
    system_call(CALL_CLOSE, fd);
    return mapped < 0 && mapped > -4096 ? NULL : (const void *)mapped;
}

static void use_directory(struct directory *directory, const char *base, const char *middle)
{
    char path[PATH_MAX_HERE];
    if (base == NULL || base[0] != '/' || !join_path(path, base, middle, RUN_DIRECTORY_CONTROL) ||
        !join_path(directory->socket_path, base, middle, RUN_DIRECTORY_SOCKET))
        return;
    directory->page = map_page(path);
    if (directory->page != NULL)
        store_release(&invitation_generations[directory - directories],
                      &directory->page->generation);
}

void invitation_init(void)
{
    secret.loader = getauxval(AT_BASE);
    secret.random = getauxval(AT_RANDOM);
    secret.vdso = getauxval(AT_SYSINFO_EHDR);
    secret.headers = secret.loader != 0 ? getauxval(AT_PHDR) : 0;
    const char *wanted = environment_get(RUN_DIRECTORY_ENV);
    if (wanted != NULL && wanted[0] != '\0') {
        use_directory(&directories[0], wanted, "");
        return;
    }
    use_directory(&directories[0], RUN_DIRECTORY_OF_SYSTEM, "");
    use_directory(&directories[1], environment_get("XDG_RUNTIME_DIR"), RUN_DIRECTORY_NAME);
}

static bool is_sound(const struct control_page *page)
{
    return page != NULL && load_acquire(&page->magic) == CONTROL_PAGE_MAGIC &&
           load_relaxed(&page->version) == CONTROL_PAGE_VERSION;
}

const char *invitation_at_startup(void)
{
    for (int i = 0; i < DIRECTORIES; i++) {
        const struct control_page *page = directories[i].page;
        if (is_sound(page) && load_acquire(&page->asks_newcomers) != 0)
            return directories[i].socket_path;
    }
    return NULL;
}

/* The daemon writes the tokens before their generation. While it writes, the tokens of the last
 * generation are gone, and the next generation follows. */
static bool invites_us(const struct control_page *page, uint32_t generation)
{
    uint64_t token = control_page_token(&secret, client.pid, generation);
    for (size_t i = 0; i < CONTROL_PAGE_INVITED_MAX; i++) {
        if (load_relaxed(&page->tokens[i]) == token)
            return true;
    }
    return false;
}

const char *invitation_find(void)
{
    for (int i = 0; i < DIRECTORIES; i++) {
        struct directory *directory = &directories[i];
        if (directory->page == NULL)
            continue;
        uint32_t generation = load_acquire(&directory->page->generation);
        if (likely(generation == load_relaxed(&invitation_seen[i])))
            continue;
        if (is_sound(directory->page) && invites_us(directory->page, generation))
            return directory->socket_path;
        store_relaxed(&invitation_seen[i], generation);
    }
    return NULL;
}

void invitation_answered(void)
{
    for (int i = 0; i < DIRECTORIES; i++) {
        if (directories[i].page != NULL)
            store_relaxed(&invitation_seen[i], load_acquire(&directories[i].page->generation));
    }
}
