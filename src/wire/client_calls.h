/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All system calls that the client makes, and those that the attacher makes in the target. The
 * calls are made from these rows (system_call() of the client, call() of the attacher), and checked
 * from them against the program's filters (client_filter.h), so that no call is forgotten. A filter
 * may look at arguments, therefore each row has those that are always the same.
 */
#ifndef HEAPPROFD_WIRE_CLIENT_CALLS_H
#define HEAPPROFD_WIRE_CLIENT_CALLS_H

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Newer than the oldest headers. */
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* An argument that each call chooses: an address, a descriptor, a process. Filters are asked about
 * 0, because it is not known in advance; about a page if it is a number of bytes. */
#define CALL_ANY INT64_MIN
#define CALL_LENGTH (INT64_MIN + 1)
#define CALL_IS_CHOSEN(argument) ((argument) <= CALL_LENGTH)

/* How bad it is if a filter forbids the call. */
enum call_need {
    CALL_BEARABLE, /* it may fail, but must not kill */
    CALL_SERIOUS, /* it must not fail: the client could not work, or would leave something behind */
    CALL_COPIES,  /* it is not made if it is forbidden (system_avoid_copying) */
    CALL_UNLOCKS, /* an attached client does not make it if it is forbidden (avoid_unlocking) */
};

/* Who makes the call. */
enum call_maker {
    CALL_LEAVES = 1,    /* the attacher, when it detaches */
    CALL_ATTACHED = 2,  /* the attacher, when it attaches; the attached client */
    CALL_AT_ENTRY = 4,  /* the same, at the first instruction of a program */
    CALL_PRELOADED = 8, /* the preloaded client */
};

#define CALL_CLIENTS (CALL_ATTACHED | CALL_PRELOADED)
#define CALL_ALL (CALL_CLIENTS | CALL_LEAVES)

#define CALL_WRITABLE (PROT_READ | PROT_WRITE)
#define CALL_CODE (PROT_READ | PROT_EXEC)
#define CALL_NEW_MEMORY (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define CALL_IS_WRITABLE_OPERATION FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)
#define CALL_READ_ONLY (O_RDONLY | O_CLOEXEC)

/* ROW(name, system call, need, makers, six arguments) */
#define CLIENT_CALLS(ROW) /* clang-format off */                                                   \
    /* Memory. */                                                                                  \
    ROW(UNMAP, munmap, SERIOUS, ALL, CALL_ANY, CALL_LENGTH, 0, 0, 0, 0)                             \
    ROW(MAP, mmap, SERIOUS, CLIENTS, 0, CALL_LENGTH, CALL_WRITABLE, CALL_NEW_MEMORY, -1, 0)         \
    ROW(MAP_UNREADABLE, mmap, UNLOCKS, CLIENTS,                                                    \
        0, CALL_LENGTH, PROT_NONE, CALL_NEW_MEMORY, -1, 0)                                          \
    ROW(MAP_RING, mmap, SERIOUS, CLIENTS,                                                          \
        CALL_ANY, CALL_LENGTH, CALL_WRITABLE, MAP_SHARED | MAP_FIXED, CALL_ANY, CALL_ANY)           \
    ROW(MAP_RING_PLACE, mmap, SERIOUS, ATTACHED, 0, CALL_LENGTH, PROT_NONE, MAP_SHARED, CALL_ANY, 0)\
    ROW(MAP_IMAGE, mmap, SERIOUS, ATTACHED, CALL_ANY, CALL_LENGTH, CALL_WRITABLE,                   \
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)                                  \
    ROW(MAP_IMAGE_CODE, mmap, SERIOUS, ATTACHED,                                                   \
        CALL_ANY, CALL_LENGTH, CALL_CODE, MAP_PRIVATE | MAP_FIXED, CALL_ANY, CALL_ANY)              \
    ROW(MAP_IMAGE_DATA, mmap, SERIOUS, ATTACHED,                                                   \
        CALL_ANY, CALL_LENGTH, CALL_WRITABLE, MAP_PRIVATE | MAP_FIXED, CALL_ANY, CALL_ANY)          \
    ROW(MAP_CODE_PAGE, mmap, BEARABLE, ATTACHED, 0, CALL_LENGTH, CALL_CODE, MAP_PRIVATE, CALL_ANY, 0)\
    ROW(MAP_OVER_RING, mmap, SERIOUS, PRELOADED,                                                   \
        CALL_ANY, CALL_LENGTH, CALL_WRITABLE, CALL_NEW_MEMORY | MAP_FIXED, -1, 0)                   \
    ROW(MAP_INVITATION, mmap, BEARABLE, PRELOADED, 0, CALL_LENGTH, PROT_READ, MAP_SHARED, CALL_ANY, 0)\
    ROW(UNLOCK, munlock, UNLOCKS, CLIENTS, CALL_ANY, CALL_LENGTH, 0, 0, 0, 0)                       \
    ROW(MAKE_WRITABLE, mprotect, UNLOCKS, CLIENTS, CALL_ANY, CALL_LENGTH, CALL_WRITABLE, 0, 0, 0)   \
    ROW(MAKE_READ_ONLY, mprotect, BEARABLE, PRELOADED, CALL_ANY, CALL_LENGTH, PROT_READ, 0, 0, 0)   \
    ROW(IS_LOCKED, msync, BEARABLE, CLIENTS,                                                       \
        CALL_ANY, CALL_LENGTH, MS_ASYNC | MS_INVALIDATE, 0, 0, 0)                                   \
    ROW(WIPE_ON_FORK, madvise, SERIOUS, CLIENTS, CALL_ANY, CALL_LENGTH, MADV_WIPEONFORK, 0, 0, 0)   \
    ROW(USE_SMALL_PAGES, madvise, BEARABLE, CLIENTS, CALL_ANY, CALL_LENGTH, MADV_NOHUGEPAGE, 0, 0, 0)\
    ROW(KEEP_FROM_CORE, madvise, BEARABLE, CLIENTS, CALL_ANY, CALL_LENGTH, MADV_DONTDUMP, 0, 0, 0)  \
    ROW(DISCARD, madvise, BEARABLE, CLIENTS, CALL_ANY, CALL_LENGTH, MADV_DONTNEED, 0, 0, 0)         \
    ROW(POPULATE, madvise, BEARABLE, CLIENTS, CALL_ANY, CALL_LENGTH, MADV_POPULATE_WRITE, 0, 0, 0)  \
    ROW(COPY, process_vm_readv, COPIES, CLIENTS, CALL_ANY, CALL_ANY, 1, CALL_ANY, CALL_ANY, 0)     \
    ROW(LIMIT_OF_ADDRESSES, prlimit64, BEARABLE, CLIENTS, 0, RLIMIT_AS, 0, CALL_ANY, 0, 0)         \
    ROW(LIMIT_OF_DATA, prlimit64, BEARABLE, CLIENTS, 0, RLIMIT_DATA, 0, CALL_ANY, 0, 0)            \
    /* Signals. The kernel reads the mask of TEST_PAGE before it refuses the operation. */         \
    ROW(RETURN_FROM_SIGNAL, rt_sigreturn, SERIOUS, LEAVES | CALL_ATTACHED, 0, 0, 0, 0, 0, 0)       \
    ROW(BLOCK_SIGNALS, rt_sigprocmask, BEARABLE, CLIENTS, SIG_BLOCK, CALL_ANY, CALL_ANY, 8, 0, 0)  \
    ROW(SET_SIGNALS, rt_sigprocmask, BEARABLE, CLIENTS, SIG_SETMASK, CALL_ANY, 0, 8, 0, 0)         \
    ROW(TEST_PAGE, rt_sigprocmask, BEARABLE, CLIENTS, -1, CALL_ANY, 0, 8, 0, 0)                    \
    ROW(SIGNAL_STACK, sigaltstack, BEARABLE, CLIENTS, 0, CALL_ANY, 0, 0, 0, 0)                     \
    /* Threads. */                                                                                 \
    ROW(OWN_PROCESS, getpid, SERIOUS, ALL, 0, 0, 0, 0, 0, 0)                                       \
    ROW(OWN_THREAD, gettid, SERIOUS, CLIENTS, 0, 0, 0, 0, 0, 0)                                    \
    ROW(FIND_THREAD, tgkill, BEARABLE, CLIENTS, CALL_ANY, CALL_ANY, 0, 0, 0, 0)                    \
    ROW(FIND_PROCESS, kill, BEARABLE, CLIENTS, CALL_ANY, 0, 0, 0, 0, 0)                            \
    ROW(THREAD_NAME, prctl, BEARABLE, CLIENTS, PR_GET_NAME, CALL_ANY, 0, 0, 0, 0)                  \
    ROW(YIELD, sched_yield, BEARABLE, CLIENTS, 0, 0, 0, 0, 0, 0)                                   \
    ROW(WAIT_FOR_SPACE, futex, SERIOUS, CLIENTS, CALL_ANY, FUTEX_WAIT, CALL_ANY, CALL_ANY, 0, 0)   \
    ROW(SLEEP, futex, BEARABLE, CLIENTS, CALL_ANY, FUTEX_WAIT_PRIVATE, 0, CALL_ANY, 0, 0)          \
    ROW(WAKE, futex, BEARABLE, CLIENTS, CALL_ANY, FUTEX_WAKE, 1, 0, 0, 0)                          \
    ROW(TEST_WRITING, futex, BEARABLE, PRELOADED, CALL_ANY, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,    \
        0, 0, CALL_ANY, CALL_IS_WRITABLE_OPERATION)                                                \
    ROW(REGISTER_BARRIER, membarrier, COPIES, CLIENTS,                                             \
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0)                                  \
    ROW(BARRIER, membarrier, COPIES, CLIENTS, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0, 0, 0, 0)     \
    ROW(AUXILIARY_VECTOR, prctl, BEARABLE, PRELOADED,                                              \
        0x41555856 /* PR_GET_AUXV, Linux 6.4 */, CALL_ANY, CALL_LENGTH, 0, 0, 0)                               \
    ROW(HAS_FILTER, prctl, BEARABLE, PRELOADED, PR_GET_SECCOMP, 0, 0, 0, 0, 0)                     \
    CALL_ROWS_OF_PROCESSOR(ROW)                                                                    \
    /* Clocks, where the vdso does not read them. */                                               \
    ROW(CLOCK, clock_gettime, BEARABLE, CLIENTS, CLOCK_MONOTONIC, CALL_ANY, 0, 0, 0, 0)            \
    ROW(COARSE_CLOCK, clock_gettime, BEARABLE, CLIENTS, CLOCK_MONOTONIC_COARSE, CALL_ANY, 0, 0, 0, 0)\
    ROW(PROCESSOR_CLOCK, clock_gettime, BEARABLE, CLIENTS, CLOCK_PROCESS_CPUTIME_ID, CALL_ANY,     \
        0, 0, 0, 0)                                                                                \
    /* Files. */                                                                                   \
    ROW(READ_LINK, readlinkat, BEARABLE, CLIENTS, AT_FDCWD, CALL_ANY, CALL_ANY, CALL_LENGTH, 0, 0)  \
    ROW(OPEN, openat, BEARABLE, CLIENTS, AT_FDCWD, CALL_ANY, CALL_READ_ONLY, 0, 0, 0)              \
    ROW(READ, read, BEARABLE, CLIENTS, CALL_ANY, CALL_ANY, CALL_LENGTH, 0, 0, 0)                    \
    ROW(CLOSE, close, SERIOUS, CLIENTS, CALL_ANY, 0, 0, 0, 0, 0)                                   \
    ROW(OPEN_INVITATION, openat, BEARABLE, PRELOADED,                                              \
        AT_FDCWD, CALL_ANY, CALL_READ_ONLY | O_NOFOLLOW, 0, 0, 0)                                  \
    ROW(FILE_STATUS, fstat, BEARABLE, PRELOADED, CALL_ANY, CALL_ANY, 0, 0, 0, 0)                   \
    ROW(PATH_STATUS, newfstatat, BEARABLE, PRELOADED, AT_FDCWD, CALL_ANY, CALL_ANY, 0, 0, 0)       \
    ROW(MAY_EXECUTE, faccessat, BEARABLE, PRELOADED, AT_FDCWD, CALL_ANY, X_OK, 0, 0, 0)            \
    ROW(IS_THERE, faccessat, BEARABLE, PRELOADED, AT_FDCWD, CALL_ANY, F_OK, 0, 0, 0)               \
    ROW(OPEN_PROGRAM, openat, BEARABLE, PRELOADED,                                                 \
        AT_FDCWD, CALL_ANY, CALL_READ_ONLY | O_NONBLOCK, 0, 0, 0)                                  \
    ROW(READ_PROGRAM, pread64, BEARABLE, PRELOADED, CALL_ANY, CALL_ANY, CALL_LENGTH, CALL_ANY, 0, 0)\
    ROW(FILE_RIGHTS, fgetxattr, BEARABLE, PRELOADED, CALL_ANY, CALL_ANY, 0, 0, 0, 0)               \
    ROW(MAKE_CODE_FILE, memfd_create, BEARABLE, ATTACHED, CALL_ANY, MFD_CLOEXEC | MFD_EXEC, 0, 0, 0, 0)\
    ROW(MAKE_FILE, memfd_create, SERIOUS, ATTACHED, CALL_ANY, MFD_CLOEXEC, 0, 0, 0, 0)             \
    /* Sockets: the ring's descriptor comes through one. */                                        \
    ROW(MAKE_SOCKETS, socketpair, SERIOUS, ATTACHED,                                               \
        AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, CALL_ANY, 0, 0)                                     \
    ROW(RECEIVE_RING, recvmsg, SERIOUS, ATTACHED,                                                  \
        CALL_ANY, CALL_ANY, MSG_CMSG_CLOEXEC | MSG_DONTWAIT, 0, 0, 0)                              \
    ROW(MAKE_SOCKET, socket, BEARABLE, PRELOADED, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0, 0, 0)\
    ROW(LIMIT_SENDING, setsockopt, BEARABLE, PRELOADED,                                            \
        CALL_ANY, SOL_SOCKET, SO_SNDTIMEO, CALL_ANY, CALL_LENGTH, 0)                                \
    ROW(LIMIT_RECEIVING, setsockopt, BEARABLE, PRELOADED,                                          \
        CALL_ANY, SOL_SOCKET, SO_RCVTIMEO, CALL_ANY, CALL_LENGTH, 0)                                \
    ROW(CONNECT, connect, BEARABLE, PRELOADED, CALL_ANY, CALL_ANY, CALL_LENGTH, 0, 0, 0)            \
    ROW(SAY_HELLO, sendto, BEARABLE, PRELOADED, CALL_ANY, CALL_ANY, CALL_LENGTH, MSG_NOSIGNAL, 0, 0)\
    ROW(RECEIVE_REPLY, recvmsg, BEARABLE, PRELOADED, CALL_ANY, CALL_ANY, MSG_CMSG_CLOEXEC, 0, 0, 0)\
    ROW(PEER, getsockopt, BEARABLE, PRELOADED, CALL_ANY, SOL_SOCKET, SO_PEERCRED, CALL_ANY, CALL_ANY, 0)\
    ROW(RANDOM, getrandom, BEARABLE, PRELOADED, CALL_ANY, CALL_LENGTH, 1 /* GRND_NONBLOCK */, 0, 0, 0)
/* clang-format on */

#ifdef SYS_arch_prctl
#define CALL_ROWS_OF_PROCESSOR(ROW)                                                                \
    ROW(THREAD_POINTER, arch_prctl, BEARABLE, AT_ENTRY, 0x1003 /* ARCH_GET_FS */, CALL_ANY, 0, 0,  \
        0, 0)
#else
#define CALL_ROWS_OF_PROCESSOR(ROW)
#endif

#define CALL_ENUMERATE(name, ...) CALL_##name,
enum client_call { CLIENT_CALLS(CALL_ENUMERATE) CLIENT_CALL_COUNT };
#undef CALL_ENUMERATE

/* CALL_..._CHOOSES: the number of arguments that a call chooses. */
#define CALL_COUNT_CHOSEN(name, number, need, makers, a, b, c, d, e, f)                            \
    CALL_##name##_CHOOSES = CALL_IS_CHOSEN(a) + CALL_IS_CHOSEN(b) + CALL_IS_CHOSEN(c) +            \
                            CALL_IS_CHOSEN(d) + CALL_IS_CHOSEN(e) + CALL_IS_CHOSEN(f),
enum { CLIENT_CALLS(CALL_COUNT_CHOSEN) };
#undef CALL_COUNT_CHOSEN

#define CALL_NAME_MAKERS(name, number, need, makers, ...) CALL_##name##_MAKERS = CALL_##makers,
enum { CLIENT_CALLS(CALL_NAME_MAKERS) };
#undef CALL_NAME_MAKERS

struct client_call_row {
    int64_t arguments[6]; /* CALL_ANY, CALL_LENGTH: chosen by each call */
    int32_t number;
    uint16_t need;   /* enum call_need */
    uint16_t makers; /* bits of enum call_maker */
};

#define CALL_DESCRIBE(name, system_call, need, makers, a, b, c, d, e, f)                           \
    {{a, b, c, d, e, f}, SYS_##system_call, CALL_##need, CALL_##makers},
static const struct client_call_row client_calls[CLIENT_CALL_COUNT] = {CLIENT_CALLS(CALL_DESCRIBE)};
#undef CALL_DESCRIBE

/* Set the arguments of a call: those of the row, and the chosen ones in their order. With a
 * constant row the compiler does all of it. */
static inline __attribute__((always_inline)) void
client_call_fill(enum client_call call, const int64_t chosen[6], int64_t arguments[6])
{
    unsigned next = 0;
#pragma GCC unroll 6
    for (unsigned i = 0; i < 6; i++) {
        int64_t argument = client_calls[call].arguments[i];
        arguments[i] = CALL_IS_CHOSEN(argument) ? chosen[next++] : argument;
    }
}

#endif
