/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enter the sandbox. Each step works without root. If root cannot become another user (its
 * namespace has no other, or its service lacks CAP_SETUID), it keeps its uid, without capabilities.
 */
#include "recorder/reader/reader_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/close_descriptors.h"
#include "util/process_maps.h"
#include "util/process_title.h"
#include "util/seccomp_program.h"

/* Root's reader gets a uid of its own, so that no other process may send it signals. These uids are
 * above all uids that are handed out, with room for all pids (PID_MAX_LIMIT). A user namespace may
 * not have that uid. Then the reader becomes uid 65534, which other services may have, too. */
#define FIRST_USER UINT32_C(0xFFB00000)
#define NOBODY 65534

/* In addition to the profiler's mappings. Files are mapped, and debug files have several GiB. The
 * symbols of the largest browsers take 1 GiB of memory. */
#define ADDRESS_SPACE_MAX (UINT64_C(32) << 30)
#define MEMORY_MAX (UINT64_C(2) << 30)
#define DESCRIPTORS_MAX 16

/* --- memory, descriptors, limits --- */

/* Unmap memory that the profiler shares with others: rings of its targets, pages of a run
 * directory.
 */
static int unmap_shared(void)
{
    struct process_maps maps;
    struct process_map map;
    int code = process_maps_open_file(&maps, "/proc/self/maps");
    while (process_maps_next(&maps, &map)) {
        if (map.writable && map.shared)
            munmap((void *)(uintptr_t)map.start, map.end - map.start);
    }
    process_maps_close(&maps);
    return code;
}

static int keep_socket_alone(int socket)
{
    if (socket != 0 && dup2(socket, 0) < 0)
        return -errno;
    close_descriptors(1, ~0U);
    return 0;
}

static uint64_t mapped_bytes(void)
{
    char text[64] = "";
    unsigned long long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length > 0)
        sscanf(text, "%llu", &pages);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void limit(int resource, uint64_t most)
{
    struct rlimit limits;
    if (getrlimit((__rlimit_resource_t)resource, &limits) < 0)
        return;
    if (limits.rlim_max > most)
        limits.rlim_max = most;
    limits.rlim_cur = limits.rlim_max;
    setrlimit((__rlimit_resource_t)resource, &limits);
}

/* --- rights --- */

static int drop_user(void)
{
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return -errno;
    if (setresgid(NOBODY, NOBODY, NOBODY) < 0 && errno != EINVAL && errno != EPERM)
        return -errno;
    uid_t own = FIRST_USER + (uid_t)getpid();
    if (setresuid(own, own, own) == 0)
        return 0;
    if (setresuid(NOBODY, NOBODY, NOBODY) < 0 && errno != EINVAL && errno != EPERM)
        return -errno;
    return 0;
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int drop_rights(pid_t profiler)
{
    int code = drop_user();
    if (code == 0)
        code = drop_capabilities();
    if (code < 0)
        return code;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    /* After the change of uid, which clears it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return getppid() == profiler ? 0 : -ESRCH;
}

/* --- system calls --- */

/* System calls for reading passed files into memory. All others fail. */
static const int allowed[] = {
    SYS_read,       SYS_pread64,         SYS_lseek,         SYS_close,     SYS_fstat,
#ifdef SYS_newfstatat
    SYS_newfstatat, /* glibc's fstat */
#endif
    SYS_recvmsg,    SYS_sendmsg,         SYS_munmap,        SYS_mremap,    SYS_brk,
    SYS_madvise,    SYS_futex,           SYS_clock_gettime, SYS_getrandom, SYS_exit,
    SYS_exit_group, SYS_restart_syscall, SYS_rt_sigreturn,
};
#define ALLOWED (sizeof(allowed) / sizeof(allowed[0]))

/* Allowed unless they make memory executable. */
static const int mapping[] = {SYS_mmap, SYS_mprotect};
#define MAPPING (sizeof(mapping) / sizeof(mapping[0]))

#define SKIP_UNLESS(value, count) SECCOMP_JUMP(BPF_JEQ, value, 0, count)

static int restrict_system_calls(void)
{
    struct sock_filter filter[8 + 2 * ALLOWED + 5 * MAPPING];
    unsigned short count = 0;
    filter[count++] = SECCOMP_LOAD(arch);
    filter[count++] = SECCOMP_JUMP(BPF_JEQ, SECCOMP_OUR_MACHINE, 1, 0);
    filter[count++] = SECCOMP_RETURN(SECCOMP_RET_KILL_PROCESS);
    filter[count++] = SECCOMP_LOAD(nr);
    for (size_t i = 0; i < ALLOWED; i++) {
        filter[count++] = SKIP_UNLESS((unsigned)allowed[i], 1);
        filter[count++] = SECCOMP_RETURN(SECCOMP_RET_ALLOW);
    }
    for (size_t i = 0; i < MAPPING; i++) {
        filter[count++] = SKIP_UNLESS((unsigned)mapping[i], 4);
        filter[count++] = SECCOMP_LOAD(args[2]); /* the low half: both machines are little-endian */
        filter[count++] = SECCOMP_JUMP(BPF_JSET, PROT_EXEC, 1, 0);
        filter[count++] = SECCOMP_RETURN(SECCOMP_RET_ALLOW);
        filter[count++] = SECCOMP_RETURN(SECCOMP_RET_ERRNO | EPERM);
    }
    filter[count++] = SECCOMP_RETURN(SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog program = {.len = count, .filter = filter};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

int reader_sandbox_enter(int socket, pid_t profiler, int *step)
{
    *step = READER_STEP_MEMORY;
    uint64_t mapped = mapped_bytes();
    process_title_set("heapprofd-read");
    setsid();
    int code = unmap_shared();
    if (code == 0)
        code = keep_socket_alone(socket);
    if (code == 0 && chdir("/") < 0)
        code = -errno;
    if (code < 0)
        return code;
    limit(RLIMIT_AS, mapped + ADDRESS_SPACE_MAX);
    limit(RLIMIT_DATA, mapped + MEMORY_MAX);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, DESCRIPTORS_MAX);
    *step = READER_STEP_RIGHTS;
    code = drop_rights(profiler);
    limit(RLIMIT_NPROC, 0);
    if (code < 0)
        return code;
    *step = READER_STEP_SYSTEM_CALLS;
    return restrict_system_calls();
}
