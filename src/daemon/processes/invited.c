/* SPDX-License-Identifier: Apache-2.0 */
/* Read the secret from the auxiliary vector, which the kernel keeps for each program. */
#include "daemon/processes/invited.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel gives a program about 25 entries. */
#define ENTRIES_MAX 64

static bool read_secret(struct control_page_secret *secret, pid_t pid)
{
    char path[64];
    Elf64_auxv_t entries[ENTRIES_MAX];
    snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, entries, sizeof(entries));
    close(fd);
    *secret = (struct control_page_secret){0};
    for (size_t i = 0; length > 0 && i < (size_t)length / sizeof(entries[0]); i++) {
        uint64_t value = entries[i].a_un.a_val;
        switch (entries[i].a_type) {
        case AT_BASE:
            secret->loader = value;
            break;
        case AT_RANDOM:
            secret->random = value;
            break;
        case AT_SYSINFO_EHDR:
            secret->vdso = value;
            break;
        case AT_PHDR:
            secret->headers = value;
            break;
        default:
            break;
        }
    }
    if (secret->loader == 0)
        secret->headers = 0;
    return length > 0;
}

/* Return the pid in the process's own namespace, which is the last one in NSpid. */
static pid_t number_in_own_namespace(pid_t pid)
{
    char path[64], line[256];
    pid_t number = pid;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return pid;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "NSpid:", 6) != 0)
            continue;
        const char *last = strrchr(line, '\t');
        if (last != NULL)
            number = (pid_t)strtol(last, NULL, 10);
        break;
    }
    fclose(file);
    return number;
}

bool invited_read(struct invited *invited, pid_t pid)
{
    invited->number = (uint64_t)number_in_own_namespace(pid);
    return read_secret(&invited->secret, pid);
}
