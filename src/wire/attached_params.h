/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared data of the attacher and of the client that it brings into a process: one block in the
 * client's data, found by its name in the blob's symbol table.
 *
 * The attacher fills it in before the client can run. The client writes `mapped` and `inside`, from
 * which the attacher learns at the end what to unmap and whether a thread is still inside. If an
 * attacher dies, a later one can find the block and undo the attach with it: it contains the
 * patched sites.
 */
#ifndef HEAPPROFD_WIRE_ATTACHED_PARAMS_H
#define HEAPPROFD_WIRE_ATTACHED_PARAMS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/allocator_functions.h"
#include "wire/pymalloc_words.h"
#include "wire/ring.h"

#define ATTACHED_MAGIC UINT64_C(0x6864656863747461) /* "atchhehd" */
#define ATTACHED_VERSION 10

/* Name of the mapping in /proc/PID/maps. */
#define ATTACHED_MEMFD_NAME "heapprofd_client"
/* Name of a ring that is mapped from outside. It has the common prefix of all rings. */
#define ATTACHED_RING_NAME "heapprofd-ring-attached"

/* Functions that can be hooked. If several names have one address, the first one counts. */
enum attached_function {
    ATTACHED_MALLOC,
    ATTACHED_FREE,
    ATTACHED_CALLOC,
    ATTACHED_REALLOC,
    ATTACHED_REALLOCARRAY,
    ATTACHED_POSIX_MEMALIGN,
    ATTACHED_ALIGNED_ALLOC,
    ATTACHED_MEMALIGN,
    ATTACHED_VALLOC,
    ATTACHED_PVALLOC,
    ATTACHED_CFREE,
    ATTACHED_FREE_SIZED,
    ATTACHED_FREE_ALIGNED_SIZED,
    ATTACHED_DLCLOSE, /* this and the next two are the C library's */
    ATTACHED_PRCTL,
    ATTACHED_SYSCALL,
    ATTACHED_CXX,                          /* the first of enum cxx_function */
    ATTACHED_EXTENDED = ATTACHED_CXX + 20, /* the first of enum extended_function */
    ATTACHED_FUNCTIONS = ATTACHED_EXTENDED + EXTENDED_FUNCTIONS,
};

/* Return whether the function belongs to the C library, whatever the allocator is. */
static inline int attached_is_of_libc(unsigned function)
{
    return function >= ATTACHED_DLCLOSE && function <= ATTACHED_SYSCALL;
}

/* Besides, families of libraries have sites, whose `function` is from ATTACHED_FUNCTIONS on. */
#define ATTACHED_FAMILY_SITES_MAX 512
#define ATTACHED_SITES_MAX (ATTACHED_FUNCTIONS + ATTACHED_FAMILY_SITES_MAX)
#define ATTACHED_SITE_BYTES 24
#define ATTACHED_MAPPED_MAX 64
#define ATTACHED_PROGRAM_BYTES 512

/* A patched entry of a function. */
struct attached_site {
    uint64_t address;  /* of the first changed byte */
    uint32_t length;   /* 0: the site is free */
    uint32_t function; /* enum attached_function, or beyond */
    uint8_t original[ATTACHED_SITE_BYTES];
    uint8_t patched[ATTACHED_SITE_BYTES];
    uint64_t trampoline; /* does what `original` did and continues after it */
};

struct attached_mapping {
    uint64_t address; /* 0: unused */
    uint64_t bytes;
};

/*
 * A thread of the process, found by its thread pointer, because there is no thread-local storage.
 * Its cell points to its slot. While the thread is inside a real function whose own calls of hooked
 * functions must not count, the cell points to `pass`, in which no sample is ever due.
 */
struct attached_thread {
    uint64_t key;             /* thread pointer; 0: free */
    struct ring_thread *cell; /* counters of the hot path; NULL: none */
    struct ring_thread *slot; /* in the ring; NULL: none */
    uint64_t passing; /* stack pointer of the function that set the cell to `pass`; 0: none did */
    struct ring_thread *python; /* counters of the heap python.object; NULL: not known yet */
    /* Registers of the caller of the hook that calls pymalloc now (struct unwind_registers). Only
     * valid for a stack that has a frame of that hook. */
    const void *hook_caller;
    uint8_t pad[16];
    struct ring_thread pass;
};

_Static_assert(sizeof(struct attached_thread) == 128, "two cache lines, neither shared");

/* How CPython's objects are counted. */
struct attached_python {
    uint64_t hooks[PYMALLOC_WORDS];     /* set by the linker */
    uint64_t functions[PYMALLOC_WORDS]; /* pymalloc's; 0: the heap python.object is not profiled */
    uint64_t call_page;
    struct pymalloc_data data; /* the interpreter's, with its tables */
};

/* Allocators under other names: families (allocator_functions.h). The attacher adds those of
 * libraries that the program opens later, and takes out those of closed ones. */
struct attached_families {
    uint64_t thunks;                                /* of all functions; set by the linker */
    char heaps[FAMILIES_MAX][RING_HEAP_NAME_BYTES]; /* their names, for good; "": none */
    struct attached_family {
        uint64_t heap; /* 1 + its place in heaps[]; 0: there is no such family */
        uint64_t kind; /* enum family_kind */
    } families[FAMILIES_MAX];
    uint64_t real[FAMILIES_MAX * FAMILY_FUNCTIONS]; /* trampolines; 0: not patched */
};

struct attached_params {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; /* of this struct */
    /* As in real[]: the hook's assembler has its offset. */
    uint64_t real_syscall;

    /* Set by the linker. */
    uint64_t hooks[ATTACHED_FUNCTIONS];

    /* Set by the attacher. Unknown addresses are 0. */
    uint64_t real[ATTACHED_FUNCTIONS]; /* trampolines */
    uint64_t ring;                     /* mapped as described at struct ring_control */
    uint64_t data_bytes;
    uint64_t interval_bytes;
    uint64_t certain_bytes; /* sampling_certain_bytes() of interval_bytes */
    uint64_t block_client_timeout_us;
    uint64_t adaptive_threshold_bytes, adaptive_max_interval_bytes; /* as in the handshake */
    uint64_t start_ms;
    uint64_t seed;
    uint32_t flags; /* enum handshake_flag */
    int32_t daemon_pid;
    uint64_t max_overhead_percent, wide_interval_bytes; /* as in the handshake */
    uint64_t clock_gettime;                             /* of the vdso */
    uint64_t stack_end;                                 /* of the initial thread */
    uint64_t dl_find_object;                            /* of the loader */
    uint64_t exit, pthread_exit;                        /* of the C library */
    uint64_t heap_visit;                                /* mi_heap_visit_blocks of mimalloc */
    /* What the process's filters (seccomp) forbid: to copy memory by the kernel; to make memory
     * that the kernel does not lock (munlock, mprotect). */
    uint32_t avoid_copying, avoid_unlocking;
    uint32_t at_entry;           /* the program has not run yet: it may have no thread pointer */
    uint64_t image, image_bytes; /* everything that the attacher mapped, except the ring and: */
    uint64_t annex, annex_bytes; /* trampolines of functions out of the image's reach; 0: none */
    uint64_t ring_bytes;         /* of address space */
    uint64_t preloaded, preloaded_bytes; /* code and data of our dormant library; 0: it lacks it */
    /* Address of a word that is 1 in this process and 0 in a forked child: a child whose first
     * allocation comes before the client is set up must not use the parent's ring. */
    uint64_t marker;
    char program[ATTACHED_PROGRAM_BYTES]; /* its path, as the process sees it; "": unknown */
    struct attached_python python;
    struct attached_families families;
    uint64_t site_count;
    struct attached_site sites[ATTACHED_SITES_MAX];

    /* Set by the client. */
    struct attached_mapping mapped[ATTACHED_MAPPED_MAX];
    uint32_t unrecorded; /* number of mappings for which `mapped` has no room */
    uint32_t inside;     /* calls that will return into our code */
    uint64_t threads;    /* struct attached_thread *[RING_THREADS_MAX], by slot; 0: not made yet */
};

_Static_assert(offsetof(struct attached_params, real_syscall) == 16, "as in attached_syscall.S");

#endif
