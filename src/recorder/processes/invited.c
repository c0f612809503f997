/* SPDX-License-Identifier: Apache-2.0 */
/* Read the secret from the auxiliary vector, which the kernel keeps for each program. */
#include "recorder/processes/invited.h"

#include <elf.h>

#include "util/process_files.h"

/* The kernel gives a program about 25 entries. */
#define ENTRIES_MAX 64

static bool read_secret(struct control_page_secret *secret, pid_t pid)
{
    Elf64_auxv_t entries[ENTRIES_MAX + 1];
    ssize_t length = process_file_read(pid, "auxv", (char *)entries, sizeof(entries));
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

bool invited_read(struct invited *invited, pid_t pid)
{
    struct process_status status;
    bool known = process_status_read(pid, &status) == 0 && status.inner_pid != 0;
    invited->number =
        (uint64_t)(known ? status.inner_pid : pid); /* as the process itself sees it */
    return read_secret(&invited->secret, pid);
}
