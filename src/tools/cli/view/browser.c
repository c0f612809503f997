/* SPDX-License-Identifier: Apache-2.0 */
/* Starts xdg-open, or $BROWSER, on a private file that leads to the page. */
#include "tools/cli/view/browser.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/files/output_directory.h"

#define FILE_NAME "/open.html"

extern char **environ;

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0';
}

static bool has_desktop(void)
{
    return is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
}

/* Write the file. The address consists of characters that HTML takes as they are. */
static bool write_file(const char *path, const char *address)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool written = dprintf(fd,
                           "<!DOCTYPE html><meta http-equiv=\"refresh\" content=\"0;url=%s\">"
                           "<title>heap_profile view</title><a href=\"%s\">Open the profile</a>\n",
                           address, address) > 0;
    return close(fd) == 0 && written;
}

static bool browser_start(char *path)
{
    char opener[] = "xdg-open", *chosen = getenv("BROWSER");
    char *const program = chosen != NULL && *chosen != '\0' ? chosen : opener;
    char *const arguments[] = {program, path, NULL};
    posix_spawnattr_t attributes;
    pid_t pid;
    sigset_t none, ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE); /* by the server: what the browser runs must not be */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &ignored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawnp(&pid, program, NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return code == 0;
}

void browser_open(struct browser *browser, const char *address)
{
    struct error error = {0};
    char path[PATH_MAX + sizeof(FILE_NAME)];
    browser->directory[0] = '\0';
    if (!has_desktop())
        return;
    int fd = output_make_temporary(browser->directory, &error);
    if (fd < 0) {
        browser->directory[0] = '\0';
        return;
    }
    close(fd);
    snprintf(path, sizeof(path), "%s" FILE_NAME, browser->directory);
    if (!write_file(path, address) || !browser_start(path))
        fputs("heap_profile: no browser could be started; open the address yourself\n", stderr);
}

void browser_close(const struct browser *browser)
{
    char path[PATH_MAX + sizeof(FILE_NAME)];
    if (browser->directory[0] == '\0')
        return;
    snprintf(path, sizeof(path), "%s" FILE_NAME, browser->directory);
    unlink(path);
    rmdir(browser->directory);
}
