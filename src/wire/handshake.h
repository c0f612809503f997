/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process joins a session.
 *
 * The client connects to a SOCK_SEQPACKET unix socket (path in the environment, HEAPPROFD_SOCKET),
 * sends one struct handshake_hello, and receives one struct handshake_reply, with the ring's memfd
 * as SCM_RIGHTS if it was accepted. Both sides then close the socket; only the memory mapping
 * remains. The daemon learns the peer's identity from the kernel (SO_PEERCRED), not from the hello.
 */
#ifndef HEAPPROFD_WIRE_HANDSHAKE_H
#define HEAPPROFD_WIRE_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#define HANDSHAKE_MAGIC UINT32_C(0x48504853) /* "HPHS" */
#define HANDSHAKE_VERSION 4
#define HANDSHAKE_SOCKET_ENV "HEAPPROFD_SOCKET"

/* After this time a client gives up on the daemon and runs unprofiled. */
#define HANDSHAKE_TIMEOUT_MS 2000

enum handshake_origin {
    HANDSHAKE_STARTUP = 1, /* first allocation of a new image */
    HANDSHAKE_FORK = 2,    /* first allocation of a forked child */
    HANDSHAKE_RUNNING = 3, /* a process that was dormant until now */
    /* It is about to become a static program. The reply has no ring; the sender then calls exec at
     * once. Only for the profiler of a command. */
    HANDSHAKE_EXEC = 4,
};

struct handshake_hello {
    uint32_t magic;
    uint32_t version;
    uint32_t origin;         /* enum handshake_origin */
    uint32_t tid;            /* of the caller, in its own namespace */
    uint32_t pid;            /* in its own namespace */
    uint32_t is_initialized; /* 0: no constructor of another object, not even the C library's, has
                                run yet */
    char allocator[64]; /* file name of the object with the real malloc, terminated; empty: malloc
                           is not hooked */
};

enum handshake_verdict {
    HANDSHAKE_ACCEPTED = 1,
    HANDSHAKE_NOT_A_TARGET = 2, /* stay dormant */
};

enum handshake_flag {
    HANDSHAKE_BLOCK_CLIENT = 1,     /* wait when the ring is full */
    HANDSHAKE_HELLO_AFTER_FORK = 2, /* forked children send a hello, too */
    HANDSHAKE_SCOPES = 8,           /* send each begin and end of a scope */
    HANDSHAKE_MAY_COPY = 4,         /* the seccomp filters of the process allow process_vm_readv */
};

static inline bool handshake_hello_is_sound(const struct handshake_hello *hello)
{
    return hello->magic == HANDSHAKE_MAGIC && hello->version == HANDSHAKE_VERSION &&
           hello->origin >= HANDSHAKE_STARTUP && hello->origin <= HANDSHAKE_RUNNING;
}

static inline bool handshake_is_before_exec(const struct handshake_hello *hello)
{
    return hello->magic == HANDSHAKE_MAGIC && hello->version == HANDSHAKE_VERSION &&
           hello->origin == HANDSHAKE_EXEC;
}

struct handshake_reply {
    uint32_t magic;
    uint32_t version;
    uint32_t verdict;                 /* enum handshake_verdict */
    uint32_t flags;                   /* enum handshake_flag */
    uint64_t interval_bytes;          /* 0: malloc is not profiled */
    uint64_t block_client_timeout_us; /* 0: as long as the daemon lives */
    uint64_t data_bytes;              /* of the ring */
    /* If the ring has fewer free bytes than this, the interval is doubled; 0: never. */
    uint64_t adaptive_threshold_bytes;
    uint64_t adaptive_max_interval_bytes; /* 0: no limit */
    uint64_t start_ms;                    /* start of time_ms, CLOCK_MONOTONIC_COARSE */
    /* The profile may cost this share of the program's processor time; 0: the interval is given.
     * Above it, the interval after the first one is wide_interval_bytes (client/sample/overhead.h).
     */
    uint32_t max_overhead_percent;
    uint32_t pad;
    uint64_t wide_interval_bytes; /* 0: the first interval, doubled */
};

#endif
