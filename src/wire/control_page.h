/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page by which processes with the preload library learn of sessions: the file `control` in the
 * daemon's run directory, beside its socket. Only the daemon writes it. A process maps it read-only
 * at its start and never again (it may have forbidden itself system calls since). The file outlives
 * the daemon and is never replaced or shortened, so that a process that has mapped it also sees the
 * sessions of the next daemon.
 *
 * The run directory is $HEAPPROFD_RUN_DIR, else /run/heapprofd, else $XDG_RUNTIME_DIR/heapprofd.
 * Processes check both of the latter two.
 *
 * A starting process sends a hello while `asks_newcomers` is set. A running process does so when it
 * is invited: the daemon has checked before that it may profile this process.
 *
 * Every user can read the page, but learns neither who is invited nor how many are. Each place
 * contains a token or random bits. A token is a keyed hash that only the invited process and those
 * who may read its memory can compute: the key consists of the addresses where the kernel put the
 * parts of its address space. (Processes that were forked without exec share these addresses.) With
 * each generation all places change.
 */
#ifndef HEAPPROFD_WIRE_CONTROL_PAGE_H
#define HEAPPROFD_WIRE_CONTROL_PAGE_H

#include <stdint.h>

#define CONTROL_PAGE_MAGIC UINT32_C(0x48504347) /* "HPCG" */
#define CONTROL_PAGE_VERSION 2
#define CONTROL_PAGE_BYTES 4096u

#define RUN_DIRECTORY_ENV "HEAPPROFD_RUN_DIR"
#define RUN_DIRECTORY_OF_SYSTEM "/run/heapprofd"
#define RUN_DIRECTORY_NAME "heapprofd" /* below $XDG_RUNTIME_DIR */
#define RUN_DIRECTORY_SOCKET "socket"
#define RUN_DIRECTORY_CONTROL "control"
#define RUN_DIRECTORY_LOCK "lock"

#define CONTROL_PAGE_INVITED_MAX 500u

struct control_page {
    uint32_t magic;                            /* CONTROL_PAGE_MAGIC, written last */
    uint32_t version;                          /* CONTROL_PAGE_VERSION */
    uint32_t generation;                       /* incremented after processes were invited */
    uint32_t asks_newcomers;                   /* 1: a session wants processes from their start */
    uint64_t tokens[CONTROL_PAGE_INVITED_MAX]; /* of this generation, in random order */
};

_Static_assert(sizeof(struct control_page) <= CONTROL_PAGE_BYTES, "fits its page");

/* Values of the process's auxiliary vector: about 90 random bits, unless the process was started
 * without address space randomization. */
struct control_page_secret {
    uint64_t loader;  /* AT_BASE */
    uint64_t random;  /* AT_RANDOM: the address, not the bytes there */
    uint64_t vdso;    /* AT_SYSINFO_EHDR */
    uint64_t headers; /* AT_PHDR; 0 if the loader was run as a program, which changes the value */
};

static inline uint64_t control_page_rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

/* Mix the state by one round of SipHash. */
static inline void control_page_mix(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = control_page_rotate(v[1], 13) ^ v[0];
    v[0] = control_page_rotate(v[0], 32);
    v[2] += v[3];
    v[3] = control_page_rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = control_page_rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = control_page_rotate(v[1], 17) ^ v[2];
    v[2] = control_page_rotate(v[2], 32);
}

/* Return the token that invites a process in a generation: SipHash-2-4 of the last four words, with
 * the first two as its key. `pid` is the process's number in its own namespace. */
static inline uint64_t control_page_token(const struct control_page_secret *secret, int32_t pid,
                                          uint32_t generation)
{
    const uint64_t words[] = {secret->vdso, secret->headers,
                              (uint64_t)generation << 32 | (uint32_t)pid,
                              UINT64_C(24) << 56 /* bytes of these words */};
    uint64_t v[4] = {
        secret->loader ^ UINT64_C(0x736f6d6570736575),
        secret->random ^ UINT64_C(0x646f72616e646f6d),
        secret->loader ^ UINT64_C(0x6c7967656e657261),
        secret->random ^ UINT64_C(0x7465646279746573),
    };
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        v[3] ^= words[i];
        control_page_mix(v);
        control_page_mix(v);
        v[0] ^= words[i];
    }
    v[2] ^= 0xff;
    for (unsigned i = 0; i < 4; i++)
        control_page_mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
