/* SPDX-License-Identifier: Apache-2.0 */
/* A table of open directories, told apart by their place in the file system. */
#include "profile/symbols/process_roots.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/process_files.h"
#include "util/regular_file.h"

/* If a profile has more containers, only the first ones are searched. */
#define ROOTS_MAX 64u

struct process_root {
    pid_t process;
    int fd;
    dev_t device;
    ino_t directory, mounts;
};

static struct process_root roots[ROOTS_MAX];
static size_t root_count;

static bool find_root(pid_t process, struct process_root *root)
{
    char path[64];
    struct stat directory, mounts = {0};
    root->process = process;
    root->fd = regular_file_root_of(process);
    if (root->fd < 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)process_living_thread(process));
    if (fstat(root->fd, &directory) != 0 || stat(path, &mounts) != 0) {
        close(root->fd);
        return false;
    }
    root->device = directory.st_dev;
    root->directory = directory.st_ino;
    root->mounts = mounts.st_ino;
    return true;
}

static bool process_roots_is_known(const struct process_root *root)
{
    for (size_t i = 0; i < root_count; i++)
        if (roots[i].device == root->device && roots[i].directory == root->directory &&
            roots[i].mounts == root->mounts)
            return true;
    return false;
}

void process_roots_open(const pid_t *processes, size_t count)
{
    for (size_t i = 0; i < count && root_count < ROOTS_MAX; i++) {
        struct process_root root;
        if (process_roots_descriptor(processes[i]) >= 0 || regular_file_shares_root(processes[i]) ||
            !find_root(processes[i], &root))
            continue;
        if (process_roots_is_known(&root))
            close(root.fd);
        else
            roots[root_count++] = root;
    }
}

void process_roots_close(void)
{
    while (root_count > 0)
        close(roots[--root_count].fd);
}

pid_t process_roots_item(size_t index)
{
    return index < root_count ? roots[index].process : 0;
}

int process_roots_descriptor(pid_t process)
{
    for (size_t i = 0; i < root_count; i++)
        if (roots[i].process == process)
            return roots[i].fd;
    return -1;
}
