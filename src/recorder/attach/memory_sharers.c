/* SPDX-License-Identifier: Apache-2.0 */
/* Compare the memory of processes by kcmp(). */
#include "recorder/attach/memory_sharers.h"

#include <dirent.h>
#include <linux/kcmp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/array.h"
#include "util/process_files.h"

/* A thread that has ended has no memory, like the kernel's own threads. */
static bool shares(pid_t living, pid_t other)
{
    return syscall(SYS_kcmp, living, other, KCMP_VM, 0, 0) == 0;
}

pid_t memory_sharers_look(struct memory_sharers *sharers)
{
    struct memory_sharers now = {.pid = sharers->pid};
    pid_t found = 0, living = process_living_thread(sharers->pid);
    size_t next = 0; /* both lists have the order of /proc, by pid */
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    while (processes != NULL && found == 0 && (entry = readdir(processes)) != NULL) {
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || pid == sharers->pid)
            continue;
        while (next < sharers->count && sharers->known[next] < pid)
            next++;
        bool is_known = next < sharers->count && sharers->known[next] == pid;
        if (!is_known && shares(living, pid))
            found = pid;
        else if (ARRAY_ADD(&now.known, &now.count, &now.capacity, pid) < 0)
            continue; /* it is looked at again */
    }
    if (processes != NULL)
        closedir(processes);
    memory_sharers_clear(sharers);
    *sharers = now;
    return found;
}

void memory_sharers_clear(struct memory_sharers *sharers)
{
    free(sharers->known);
    sharers->known = NULL;
    sharers->count = sharers->capacity = 0;
}
