/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the socket in /proc/net/tcp, and the process that has it open in /proc/PID/fd. */
#include "tools/view/server/port_owner.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "util/process_files.h"

#define DESCRIPTORS_MAX 4096u /* of a process that are looked at */
#define LISTENING 0x0au

struct listener {
    unsigned long inode; /* 0: not found */
    unsigned user;
};

/* Find the listening socket in a table of the kernel's. Lines: "sl local:port remote:port state
 * queues timer retransmits user timeout inode". */
static void find_socket(const char *table, uint16_t port, struct listener *listener)
{
    char line[512];
    FILE *file = fopen(table, "re");
    while (file != NULL && listener->inode == 0 && fgets(line, sizeof(line), file) != NULL) {
        unsigned local, state, user;
        unsigned long inode;
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %u %*u %lu",
                   &local, &state, &user, &inode) == 4 &&
            local == port && state == LISTENING)
            *listener = (struct listener){inode, user};
    }
    if (file != NULL)
        fclose(file);
}

static bool has_socket(pid_t pid, const char *socket)
{
    char path[64], target[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    bool found = false;
    for (size_t i = 0;
         directory != NULL && !found && i < DESCRIPTORS_MAX && (entry = readdir(directory)) != NULL;
         i++) {
        ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
        target[length > 0 ? length : 0] = '\0';
        found = strcmp(target, socket) == 0;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

/* Return the process that has the socket; 0: none that this user may look at. */
static pid_t find_process(unsigned long inode)
{
    char socket[48];
    snprintf(socket, sizeof(socket), "socket:[%lu]", inode);
    DIR *proc = opendir("/proc");
    pid_t pid = 0;
    while (proc != NULL && (pid = process_list_next(proc)) > 0 && !has_socket(pid, socket))
        ;
    if (proc != NULL)
        closedir(proc);
    return pid;
}

void port_owner_find(uint16_t port, struct port_owner *owner)
{
    struct listener listener = {0};
    char name[32] = "";
    owner->words[0] = '\0';
    find_socket("/proc/net/tcp", port, &listener);
    if (listener.inode == 0)
        find_socket("/proc/net/tcp6", port, &listener);
    if (listener.inode == 0)
        return;
    pid_t pid = find_process(listener.inode);
    if (pid > 0 && process_file_read(pid, "comm", name, sizeof(name)) > 0) {
        name[strcspn(name, "\n")] = '\0';
        snprintf(owner->words, sizeof(owner->words), " (%s, process %d)", name, (int)pid);
    } else {
        snprintf(owner->words, sizeof(owner->words), " (of user %u)", listener.user);
    }
}
