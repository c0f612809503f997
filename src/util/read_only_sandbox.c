/* SPDX-License-Identifier: Apache-2.0 */
/* Drops rights in three steps: capabilities, then Landlock, then a seccomp filter. */
#include "util/read_only_sandbox.h"

#include <linux/capability.h>
#include <linux/sched.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "util/kernel_calls.h"
#include "util/seccomp_program.h"

/* --- capabilities --- */

#define BIT(number) (UINT32_C(1) << (number))

/* Keep the capabilities in `low` (numbers 0 to 31) and `high` (from 32 on) that this process has.
 */
static void give_up_capabilities(uint32_t low, uint32_t high)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct own[_LINUX_CAPABILITY_U32S_3] = {0};
    if (syscall(SYS_capget, &header, own) < 0)
        return;
    low &= own[0].effective;
    high &= own[1].effective;
    const struct __user_cap_data_struct reduced[_LINUX_CAPABILITY_U32S_3] = {
        {.permitted = low, .effective = low}, {.permitted = high, .effective = high}};
    syscall(SYS_capset, &header, reduced);
}

/* --- the file system --- */

/* Bits of <linux/landlock.h>, which headers before Linux 5.13 lack. */
enum landlock_right {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    REMOVE_DIRECTORY = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_CHARACTER_DEVICE = 1 << 6,
    MAKE_DIRECTORY = 1 << 7,
    MAKE_FILE = 1 << 8,
    MAKE_SOCKET = 1 << 9,
    MAKE_FIFO = 1 << 10,
    MAKE_BLOCK_DEVICE = 1 << 11,
    MAKE_LINK = 1 << 12,
    TRUNCATE = 1 << 14, /* from version 3 on */
};
#define VERSION_WITH_TRUNCATE 3
#define RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1

/* The kernel's structures of the first version. */
struct landlock_rules {
    uint64_t handled;
};
struct landlock_path {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

/* The changes that the first version covers. */
#define CHANGES                                                                                    \
    (EXECUTE | WRITE_FILE | REMOVE_DIRECTORY | REMOVE_FILE | MAKE_CHARACTER_DEVICE |               \
     MAKE_DIRECTORY | MAKE_FILE | MAKE_SOCKET | MAKE_FIFO | MAKE_BLOCK_DEVICE | MAKE_LINK)
#define CHANGES_IN_WRITABLE (WRITE_FILE | REMOVE_FILE | MAKE_FILE)

static void give_up_writing(int writable)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, RULESET_VERSION);
    uint64_t truncation = version >= VERSION_WITH_TRUNCATE ? TRUNCATE : 0;
    const struct landlock_rules rules = {.handled = CHANGES | truncation};
    const struct landlock_path exception = {.allowed = CHANGES_IN_WRITABLE | truncation,
                                            .parent = writable};
    int fd = version < 1
                 ? -1
                 : (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), (uint32_t)0);
    if (fd < 0)
        return;
    if (writable >= 0)
        syscall(SYS_landlock_add_rule, fd, RULE_PATH_BENEATH, &exception, (uint32_t)0);
    syscall(SYS_landlock_restrict_self, fd, (uint32_t)0);
    close(fd);
}

/* --- system calls --- */

/* For these the kernel requires no capability if the other process, or the file, is the same
 * user's. */
static const unsigned refused[] = {
    SYS_execve,
    SYS_execveat,
    SYS_socket,
    SYS_connect,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_kill,
    SYS_tkill,
    SYS_pidfd_send_signal,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_io_uring_setup,
    SYS_keyctl,
    SYS_add_key,
    SYS_bpf,
    SYS_unshare,
    SYS_truncate, /* Landlock knows it from version 3 on */
#ifdef SYS_chmod
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
#endif
    452, /* fchmodat2 */
};
#define REFUSED (sizeof(refused) / sizeof(refused[0]))

/* System calls of the x32 interface, which have their own numbers. */
#define SECOND_INTERFACE 0x40000000u

#define REFUSAL SECCOMP_RETURN(SECCOMP_RET_ERRNO | 1 /* EPERM */)
#define UNKNOWN SECCOMP_RETURN(SECCOMP_RET_ERRNO | 38 /* ENOSYS */)

static void refuse_system_calls(void)
{
    struct sock_filter filter[18 + 2 * REFUSED];
    unsigned short count = 0;
    filter[count++] = SECCOMP_LOAD(arch);
    filter[count++] = SECCOMP_JUMP(BPF_JEQ, SECCOMP_OUR_MACHINE, 1, 0);
    filter[count++] = SECCOMP_RETURN(SECCOMP_RET_KILL_PROCESS);
    filter[count++] = SECCOMP_LOAD(nr);
    filter[count++] = SECCOMP_JUMP(BPF_JGE, SECOND_INTERFACE, 0, 1);
    filter[count++] = REFUSAL;
    for (size_t i = 0; i < REFUSED; i++) {
        filter[count++] = SECCOMP_JUMP(BPF_JEQ, refused[i], 0, 1);
        filter[count++] = REFUSAL;
    }
    /* A user namespace gives all capabilities in it. No filter can read the flags of clone3():
     * without it, libc calls clone(). */
    filter[count++] = SECCOMP_JUMP(BPF_JEQ, SYS_clone3, 0, 1);
    filter[count++] = UNKNOWN;
    filter[count++] = SECCOMP_JUMP(BPF_JEQ, SYS_clone, 0, 4);
    filter[count++] = SECCOMP_LOAD(args[0]);
    filter[count++] = SECCOMP_JUMP(BPF_JSET, CLONE_NEWUSER, 0, 1);
    filter[count++] = REFUSAL;
    filter[count++] = SECCOMP_RETURN(SECCOMP_RET_ALLOW);
    /* Allow signals to the own process, for abort(). */
    filter[count++] = SECCOMP_JUMP(BPF_JEQ, SYS_tgkill, 0, 3);
    filter[count++] = SECCOMP_LOAD(args[0]);
    filter[count++] = SECCOMP_JUMP(BPF_JEQ, (unsigned)getpid(), 1, 0);
    filter[count++] = REFUSAL;
    filter[count++] = SECCOMP_RETURN(SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = count, .filter = filter};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static void enter(int writable, uint32_t low, uint32_t high)
{
    give_up_capabilities(low, high);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return;
    give_up_writing(writable);
    refuse_system_calls();
}

void read_only_sandbox_enter(int writable)
{
    enter(writable, BIT(CAP_DAC_READ_SEARCH), 0);
}

void read_only_sandbox_enter_for_processes(int writable)
{
    enter(writable, BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_SYS_PTRACE),
          BIT(CAP_CHECKPOINT_RESTORE - 32));
}
