/* SPDX-License-Identifier: Apache-2.0 */
/* The directories that running heap_profile commands hold open. A recording holds its output
 * directory until its end. */
#ifndef HEAPPROFD_TOOLS_CLI_FILES_HELD_DIRECTORIES_H
#define HEAPPROFD_TOOLS_CLI_FILES_HELD_DIRECTORIES_H

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct held_directories {
    struct held_directory {
        char *path;
        dev_t device;
        ino_t inode;
        pid_t pid;
    } * items;
    size_t count, capacity;
};

/* Find those of this user's and root's processes, as far as this user may look into them. */
void held_directories_find(struct held_directories *held);
/* Find those of one process. */
void held_directories_find_of(struct held_directories *held, pid_t pid);
void held_directories_clear(struct held_directories *held);

/* Return the process that holds a directory; 0: none. */
pid_t held_directories_holder(const struct held_directories *held, const struct stat *directory);

#endif
