/* SPDX-License-Identifier: Apache-2.0 */
/* Read a process's state from /proc, and refuse processes that cannot be attached to. */
#include "recorder/attach/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/attach/permission.h"
#include "util/array.h"
#include "util/elf_machine.h"
#include "util/process_files.h"
#include "util/process_maps.h"
#include "util/process_rights.h"
#include "util/sorted_search.h"

#define REGIONS_MAX (1u << 20)

static int process_refuse(struct attach_outcome *outcome, enum attach_refusal refusal, int code)
{
    outcome->refusal = refusal;
    return code;
}

/* Return whether a tracer is a heapprofd, which traces only while it attaches. */
static bool is_profiler(pid_t tracer)
{
    char comm[16] = "";
    return process_file_read(tracer, "comm", comm, sizeof(comm)) > 0 &&
           strncmp(comm, "heap", 4) == 0;
}

static int check_status(const struct process *process, struct attach_outcome *outcome,
                        struct error *error)
{
    struct process_stat stat;
    struct process_status status;
    int pid = (int)process->pid;
    if (pid <= 0 || process_status_read(process->pid, &status) < 0) {
        process_refuse(outcome, ATTACH_NO_PROCESS, -ESRCH);
        return error_set(error, -ESRCH, "there is no process with pid %d", pid);
    }
    if (status.leader != (uint64_t)pid) {
        process_refuse(outcome, ATTACH_NO_PROCESS, -ESRCH);
        return error_set(error, -ESRCH, "%d is a thread of process %d; name that one", pid,
                         (int)status.leader);
    }
    if ((status.state == 'Z' && status.threads <= 1) || status.state == 'X') {
        process_refuse(outcome, ATTACH_NO_PROCESS, -ESRCH);
        return error_set(error, -ESRCH, "pid %d has ended, but its parent has not waited for it",
                         pid);
    }
    if (status.tracer == (uint64_t)getpid() && process->moment == ATTACH_AT_ENTRY)
        return 0;
    if (status.tracer == (uint64_t)getpid() && attach_check_released(process->pid, error) < 0) {
        process_refuse(outcome, ATTACH_BUSY, -EAGAIN);
        return -EAGAIN;
    }
    if (status.tracer != 0 && is_profiler((pid_t)status.tracer)) {
        process_refuse(outcome, ATTACH_BUSY, -EAGAIN);
        return error_set(error, -EAGAIN,
                         "pid %d is traced by pid %d, another heapprofd that attaches to it: try "
                         "again",
                         pid, (int)status.tracer);
    }
    if (status.tracer != 0) {
        process_refuse(outcome, ATTACH_TRACED, -EBUSY);
        return error_set(error, -EBUSY,
                         "pid %d is already traced by pid %d (a debugger or strace); only one "
                         "can do so, end that first",
                         pid, (int)status.tracer);
    }
    if (process_stat_read(process->pid, &stat) && stat.is_kernel_thread) {
        process_refuse(outcome, ATTACH_FORBIDDEN, -EPERM);
        return error_set(error, -EPERM, "pid %d is a kernel thread; it has no heap", pid);
    }
    return 0;
}

static int check_executable(const struct process *process, struct attach_outcome *outcome,
                            struct error *error)
{
    char path[64];
    char head[ELF_MACHINE_HEAD_BYTES], name[ELF_MACHINE_NAME_BYTES];
    struct elf_machine machine;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)process_living_thread(process->pid));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        int reason = errno;
        if (reason == EACCES || reason == EPERM)
            return permission_explain(process->pid, outcome, error);
        process_refuse(outcome, ATTACH_NO_PROCESS, -ESRCH);
        if (reason == ENOENT || reason == ESRCH)
            return error_set(error, -ESRCH,
                             "pid %d has ended or is ending: it can no longer be inspected",
                             (int)process->pid);
        return error_set(error, -ESRCH, "cannot open the executable of pid %d: %s",
                         (int)process->pid, strerror(reason));
    }
    ssize_t got = read(fd, head, sizeof(head));
    close(fd);
    process_refuse(outcome, ATTACH_UNSUPPORTED, -ENOTSUP);
    if (got < 0 || elf_machine_read(&machine, head, (size_t)got) < 0)
        return error_set(error, -ENOTSUP, "the executable of pid %d is not an ELF file",
                         (int)process->pid);
    if (!elf_machine_is_own(&machine)) {
        elf_machine_name(&machine, name);
        return error_set(error, -ENOTSUP,
                         "pid %d runs a program for %s, and this heapprofd profiles programs for "
                         "%s only",
                         (int)process->pid, name, elf_machine_own);
    }
    outcome->refusal = ATTACH_FAILED;
    return 0;
}

static struct process_region region_of(const struct process_map *map)
{
    struct process_region region = {.start = map->start,
                                    .end = map->end,
                                    .offset = map->offset,
                                    .readable = map->readable,
                                    .writable = map->writable,
                                    .executable = map->executable};
    snprintf(region.path, sizeof(region.path), "%s", map->path);
    return region;
}

int process_read_regions(struct process *process)
{
    struct process_maps maps;
    struct process_map map;
    size_t capacity = 0;
    int code = process_maps_open(&maps, process->pid);
    if (code == 0)
        process_clear(process);
    while (code == 0 && process_maps_next(&maps, &map)) {
        const struct process_region region = region_of(&map);
        code = process->region_count < REGIONS_MAX
                   ? ARRAY_ADD(&process->regions, &process->region_count, &capacity, region)
                   : -ENOMEM;
    }
    int closed = process_maps_close(&maps);
    if (code == 0)
        code = closed;
    return code == 0 && process->region_count == 0 ? -ESRCH : code;
}

static int read_auxiliary_vector(struct process *process)
{
    Elf64_auxv_t entries[64] = {0};
    ssize_t got = process_file_read(process->pid, "auxv", (char *)entries, sizeof(entries));
    if (got < 0)
        return (int)got;
    for (size_t i = 0; i < (size_t)got / sizeof(entries[0]); i++) {
        uint64_t value = entries[i].a_un.a_val;
        if (entries[i].a_type == AT_PHDR)
            process->headers = value;
        else if (entries[i].a_type == AT_PHNUM)
            process->header_count = value;
        else if (entries[i].a_type == AT_SYSINFO_EHDR)
            process->vdso = value;
    }
    return 0;
}

/* Find the headers of a program that its loader has mapped: the auxiliary vector has the loader's.
 * The first bytes of the file are mapped where it begins. */
static void find_headers_of_mapped(struct process *process)
{
    Elf64_Ehdr header;
    struct stat status;
    int fd = process_rights_open_mapped(process->program.path, &status);
    if (fd < 0)
        return;
    if (pread(fd, &header, sizeof(header), 0) == sizeof(header)) {
        process->headers = process->program.start + header.e_phoff;
        process->header_count = header.e_phnum;
    }
    close(fd);
}

bool process_region_is(const struct process_region *region, const char *name)
{
    const char *slash = strrchr(region->path, '/');
    return slash != NULL && strncmp(slash + 1, name, strlen(name)) == 0;
}

static int check_regions(const struct process *process, struct attach_outcome *outcome,
                         struct error *error)
{
    for (size_t i = 0; i < process->region_count; i++) {
        const struct process_region *region = &process->regions[i];
        if (process->moment != ATTACH_AT_HELLO && process_region_is(region, PROCESS_CLIENT_NAME)) {
            process_refuse(outcome, ATTACH_HAS_CLIENT, -EALREADY);
            return error_set(error, -EALREADY,
                             "pid %d was started with heapprofd's library; it joins a session by "
                             "itself and is not attached to",
                             (int)process->pid);
        }
    }
    return 0;
}

int process_read(struct process *process, pid_t pid, enum attach_moment moment,
                 struct attach_outcome *outcome, struct error *error)
{
    memset(process, 0, sizeof(*process));
    process->pid = pid;
    process->moment = moment;
    int code = check_status(process, outcome, error);
    if (code == 0)
        code = check_executable(process, outcome, error);
    if (code < 0)
        return code;
    code = process_read_regions(process);
    if (code == 0)
        code = read_auxiliary_vector(process);
    main_program_find(&process->program, pid);
    if (code == 0 && process->program.by_loader)
        find_headers_of_mapped(process);
    if (code == -EACCES || code == -EPERM)
        return permission_explain(pid, outcome, error);
    if (code < 0) {
        process_refuse(outcome, code == -ENOMEM ? ATTACH_FAILED : ATTACH_NO_PROCESS, code);
        return error_set(error, code, "cannot read the mappings of pid %d: %s", (int)pid,
                         strerror(-code));
    }
    return check_regions(process, outcome, error);
}

void process_clear(struct process *process)
{
    free(process->regions);
    process->regions = NULL;
    process->region_count = 0;
}

const struct process_region *process_region_of(const struct process *process, uint64_t address)
{
    size_t at = SORTED_SEARCH(process->region_count, i, process->regions[i].end <= address);
    if (at < process->region_count && process->regions[at].start <= address)
        return &process->regions[at];
    return NULL;
}
