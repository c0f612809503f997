/* SPDX-License-Identifier: Apache-2.0 */
/* Reads whole files, and parses the fields of stat and the lines of status. */
#include "util/process_files.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel's PF_KTHREAD in the flags field. Only this distinguishes a kernel thread from an
 * ending process: neither has memory or an executable. */
#define FLAG_KERNEL_THREAD 0x200000u
/* PF_IO_WORKER (from Linux 5.12 on) and PF_USER_WORKER (6.4): workers of io_uring, vhost, KVM. */
#define FLAGS_KERNEL_WORKER 0x4010u

/* Room for "/proc/PID/". */
#define DIRECTORY_BYTES 32

/* Return whether a thread has no program any more, because it has ended or is a kernel thread.
 * `directory` is relative to the open directory `at`. */
static bool lacks_program(int at, const char directory[DIRECTORY_BYTES])
{
    char path[DIRECTORY_BYTES + 8], link[8];
    snprintf(path, sizeof(path), "%sexe", directory);
    return readlinkat(at, path, link, sizeof(link)) < 0 && (errno == ENOENT || errno == ESRCH);
}

/* Return the first thread of the process that has not ended, or 0 if all have. */
static pid_t find_living(int at, const char directory[DIRECTORY_BYTES])
{
    char path[DIRECTORY_BYTES + 8];
    snprintf(path, sizeof(path), "%stask", directory);
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *tasks = fd < 0 ? NULL : fdopendir(fd);
    if (tasks == NULL) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    char thread[DIRECTORY_BYTES];
    pid_t tid;
    do {
        tid = process_list_next(tasks);
        snprintf(thread, sizeof(thread), "%d/", (int)tid);
    } while (tid != 0 && lacks_program(fd, thread));
    closedir(tasks);
    return tid;
}

pid_t process_living_thread(pid_t pid)
{
    char directory[DIRECTORY_BYTES];
    snprintf(directory, sizeof(directory), "/proc/%d/", (int)pid);
    pid_t living = lacks_program(AT_FDCWD, directory) ? find_living(AT_FDCWD, directory) : pid;
    return living != 0 ? living : pid;
}

int process_directory_open(int directory, const char *name)
{
    static const char here[DIRECTORY_BYTES];
    char path[64];
    pid_t living = lacks_program(directory, here) ? find_living(directory, here) : 0;
    if (living != 0)
        snprintf(path, sizeof(path), "task/%d/%s", (int)living, name);
    int fd = openat(directory, living != 0 ? path : name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int process_file_open(pid_t pid, const char *name)
{
    char path[64];
    bool is_of_thread =
        strcmp(name, "stat") == 0 || strcmp(name, "status") == 0 || strcmp(name, "comm") == 0;
    snprintf(path, sizeof(path), "/proc/%d/%s",
             (int)(is_of_thread ? pid : process_living_thread(pid)), name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The kernel gives so much of a file in one piece, if there is as much. */
#define WHOLE_BYTES_MAX 2048

/* Read all, and close it. A negative fd is returned. */
static ssize_t read_and_close(int fd, char *buffer, size_t size)
{
    if (fd < 0)
        return fd;
    size_t length = 0;
    ssize_t got = 0;
    while (length < size - 1 && (got = read(fd, buffer + length, size - 1 - length)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            got = -errno;
            break;
        }
        length += (size_t)got;
        if (length < WHOLE_BYTES_MAX)
            break;
    }
    close(fd);
    buffer[length] = 0;
    return got < 0 ? got : (ssize_t)length;
}

ssize_t process_file_read(pid_t pid, const char *name, char *buffer, size_t size)
{
    return read_and_close(process_file_open(pid, name), buffer, size);
}

ssize_t process_directory_read(int directory, const char *name, char *buffer, size_t size)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
    return read_and_close(fd < 0 ? -errno : fd, buffer, size);
}

bool process_stat_parse(const char *text, struct process_stat *stat)
{
    *stat = (struct process_stat){0};
    /* The name may contain anything, even closing brackets and spaces. */
    const char *field = strrchr(text, ')');
    if (field == NULL)
        return false;
    field++;
    for (int number = 3; number <= 52; number++) {
        field += strspn(field, " ");
        if (number == 3)
            stat->state = *field;
        if (number == 4)
            stat->parent = (pid_t)strtol(field, NULL, 10);
        if (number == 9) {
            unsigned long flags = strtoul(field, NULL, 10);
            stat->is_kernel_thread = (flags & FLAG_KERNEL_THREAD) != 0;
            stat->is_kernel_worker = (flags & FLAGS_KERNEL_WORKER) != 0;
        }
        if (number == 10)
            stat->minor_faults = strtoull(field, NULL, 10);
        if (number == 11)
            stat->children_faults = strtoull(field, NULL, 10);
        if (number == 12)
            stat->major_faults = strtoull(field, NULL, 10);
        if (number == 14 || number == 15)
            stat->cpu_ticks += strtoull(field, NULL, 10);
        if (number == 22)
            stat->start_ticks = strtoull(field, NULL, 10);
        if (number == 47)
            stat->heap_start = strtoull(field, NULL, 10);
        if (number == 52)
            stat->exit_code = (int32_t)strtol(field, NULL, 10);
        field += strcspn(field, " ");
    }
    return true;
}

bool process_stat_read(pid_t pid, struct process_stat *stat)
{
    char text[2048];
    *stat = (struct process_stat){0};
    return process_file_read(pid, "stat", text, sizeof(text)) > 0 && process_stat_parse(text, stat);
}

int process_auxiliary_read(pid_t pid, uint64_t type, uint64_t *value)
{
    Elf64_auxv_t entries[64] = {0};
    ssize_t got = process_file_read(pid, "auxv", (char *)entries, sizeof(entries));
    *value = 0;
    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof(entries[0]); i++) {
        if (entries[i].a_type == type)
            *value = entries[i].a_un.a_val;
    }
    return got < 0 ? (int)got : 0;
}

static void process_files_take_line(const char *line, struct process_status *status)
{
#define NUMBER(name, member, base)                                                                 \
    {                                                                                              \
        name, offsetof(struct process_status, member), base                                        \
    }
    static const struct {
        const char *name;
        size_t offset;
        int base;
    } numbers[] = {
        NUMBER("Tgid:", leader, 10),
        NUMBER("TracerPid:", tracer, 10),
        NUMBER("Threads:", threads, 10),
        NUMBER("CapPrm:", permitted, 16),
        NUMBER("CapEff:", effective, 16),
        NUMBER("CapAmb:", ambient, 16),
        NUMBER("CapBnd:", bounding, 16),
        NUMBER("Seccomp:", seccomp_mode, 10),
        NUMBER("Seccomp_filters:", seccomp_filters, 10),
        NUMBER("RssAnon:", anonymous_kb, 10),
        NUMBER("VmSwap:", swapped_kb, 10),
        NUMBER("VmLck:", locked_kb, 10),
        NUMBER("VmRSS:", rss_kb, 10),
        NUMBER("RssFile:", file_kb, 10),
        NUMBER("RssShmem:", shared_kb, 10),
    };
#undef NUMBER
    unsigned *uid = status->uid, *gid = status->gid;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        size_t length = strlen(numbers[i].name);
        if (strncmp(line, numbers[i].name, length) == 0)
            *(uint64_t *)((char *)status + numbers[i].offset) =
                strtoull(line + length, NULL, numbers[i].base);
    }
    /* sscanf() first measures the whole line. */
    if (line[0] == 'S')
        sscanf(line, "State: %c", &status->state);
    else if (line[0] == 'U')
        sscanf(line, "Uid: %u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]);
    else if (line[0] == 'G')
        sscanf(line, "Gid: %u %u %u %u", &gid[0], &gid[1], &gid[2], &gid[3]);
    /* The last number is that of the innermost namespace. */
    if (strncmp(line, "NStgid:", 7) == 0 && strrchr(line, '\t') != NULL)
        status->inner_pid = (pid_t)strtol(strrchr(line, '\t'), NULL, 10);
}

int process_status_read(pid_t pid, struct process_status *status)
{
    char path[64], *line = NULL;
    size_t size = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process_living_thread(pid));
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return errno == ENOENT ? -ESRCH : -errno;
    *status = (struct process_status){
        .uid = {~0U, ~0U, ~0U, ~0U},
        .gid = {~0U, ~0U, ~0U, ~0U},
        .permitted = ~UINT64_C(0),
        .rss_kb = ~UINT64_C(0),
        .file_kb = ~UINT64_C(0),
        .shared_kb = ~UINT64_C(0),
    };
    bool any = false;
    while (getline(&line, &size, file) > 0) {
        any = true;
        process_files_take_line(line, status);
    }
    free(line);
    fclose(file);
    return any ? 0 : -ESRCH;
}

bool process_shares(pid_t pid, const char *link)
{
    char path[64], own[64];
    struct statx theirs, ours;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)process_living_thread(pid), link);
    snprintf(own, sizeof(own), "/proc/self/%s", link);
    /* No server of a file system is asked: the root of a process can lie on one. */
    return statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &theirs) == 0 &&
           statx(AT_FDCWD, own, AT_STATX_DONT_SYNC, STATX_INO, &ours) == 0 &&
           theirs.stx_ino == ours.stx_ino && theirs.stx_dev_major == ours.stx_dev_major &&
           theirs.stx_dev_minor == ours.stx_dev_minor;
}

bool process_has_ended(pid_t pid)
{
    char directory[DIRECTORY_BYTES];
    struct process_stat stat;
    snprintf(directory, sizeof(directory), "/proc/%d/", (int)process_living_thread(pid));
    if (!lacks_program(AT_FDCWD, directory))
        return false;
    return !process_stat_read(pid, &stat) || !stat.is_kernel_thread;
}

pid_t process_list_next(DIR *proc)
{
    const struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0]))
            return (pid_t)strtol(entry->d_name, NULL, 10);
    }
    return 0;
}

int process_ptrace_scope(void)
{
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &scope) != 1)
        scope = 0;
    fclose(file);
    return scope;
}
