/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of the ring. All integers are native-endian; every record begins
 * with a header and is a multiple of 8 bytes long.
 *
 * Order: a MODULE comes before the first STACK with a frame in it, a STACK
 * before the first ALLOC that names it, a THREAD before the first ALLOC or FREE
 * of its slot, a HEAP before the first record with its index, an INTERVAL before the first ALLOC
 * with its index, a NAME and a CONTEXT before the first TAGGED_ALLOC that names them, a WALK before
 * the one ALLOC that names it. After
 * MODULES_RESET all modules and stacks are forgotten and sent anew (a library was unloaded, its
 * addresses may come to mean another). It says which generation of modules begins, and comes before
 * the first STACK and MODULE of that generation. Several threads may announce the same generation,
 * or an older one late: the daemon ignores all but the first of the newest.
 */
#ifndef HEAPPROFD_WIRE_RECORD_H
#define HEAPPROFD_WIRE_RECORD_H

#include <stdint.h>

enum record_type {
    RECORD_NONE = 0, /* zeroed memory */
    RECORD_BUSY = 1, /* reserved, not yet filled */
    RECORD_ALLOC = 2,
    RECORD_FREE = 3,
    RECORD_UNFREE = 4,
    RECORD_STACK = 5,
    RECORD_MODULE = 6,
    RECORD_MODULES_RESET = 7,
    RECORD_THREAD = 8,
    RECORD_HEAP = 9,
    RECORD_INTERVAL = 10,
    RECORD_ABANDONED = 11, /* its writer was left by a jump: nothing in it counts */
    RECORD_TAGGED_ALLOC = 12,
    RECORD_NAME = 13,
    RECORD_CONTEXT = 14,
    RECORD_UNMAP = 15,
    RECORD_WALK = 16,
};

/* Read and written as one 64-bit word. */
union record_header {
    struct {
        uint32_t length; /* bytes, header included; a multiple of 8 */
        uint8_t type;    /* enum record_type */
        uint8_t heap;    /* index of the heap; 0 is libc.malloc */
        uint16_t thread; /* slot in ring_thread[] */
    };
    uint64_t word;
};

/* Set in record_alloc.flags. */
enum record_alloc_flag {
    RECORD_ALLOC_LOST_FREE = 1, /* not in the live set: no FREE will come */
    RECORD_ALLOC_WEIGHED = 2,   /* the program sampled it itself: size is all that it stands for,
                                   one allocation, certain */
    RECORD_ALLOC_RANGE = 4,     /* the memory [address, address + size): what stood there is gone,
                                   and UNMAPs will say what becomes of it. At interval 1 */
    RECORD_ALLOC_WALK = 8,      /* stack: the token of a WALK that the same thread has sent */
};

struct record_modules_reset {
    union record_header header;
    uint32_t generation; /* counts from 1 up, and may wrap; a session begins in 0 */
    uint32_t pad;
};

/* A sampled allocation, sent after the allocator returned it. An address that
 * is still live for the daemon counts as freed first. */
struct record_alloc {
    union record_header header;
    uint64_t
        address;    /* of other heaps than malloc's: whatever number the program gave, 0 included */
    uint64_t size;  /* bytes as requested */
    uint64_t stack; /* hash of a STACK sent before; 0: no stack could be had */
    uint32_t time_ms;  /* since the session's start, CLOCK_MONOTONIC_COARSE */
    uint32_t ordinal;  /* the thread's count of allocation calls, this one included, mod 2^32 */
    uint32_t interval; /* index of the INTERVAL in force; 0 is the session's first */
    uint32_t flags;    /* enum record_alloc_flag */
};

/* A sampled allocation that was made in a context, or is of a named type. */
struct record_tagged_alloc {
    struct record_alloc alloc;
    uint64_t type;    /* hash of a NAME sent before; 0: none */
    uint64_t context; /* hash of a CONTEXT sent before; 0: none */
};

/* What a type or a context is called. Never forgotten while the session lasts; may come again. */
struct record_name {
    union record_header header;
    uint64_t hash; /* of the bytes; never 0 */
    uint32_t length;
    uint32_t pad;
    uint8_t bytes[]; /* UTF-8 as a rule, not terminated */
};

#define RECORD_NAME_BYTES_MAX 1024

/* The scopes that a thread is in, innermost first, by the hashes of their NAMEs. */
struct record_context {
    union record_header header;
    uint64_t hash; /* of names; never 0 */
    uint32_t count;
    uint32_t pad;
    uint64_t names[];
};

#define RECORD_CONTEXT_NAMES_MAX 256

/* A sampled allocation is freed: sent before the allocator gets it back. */
struct record_free {
    union record_header header;
    uint64_t address;
    uint32_t time_ms;
    uint32_t ordinal; /* of the freeing thread; equal to the ALLOC's and of the same thread:
                         nothing was allocated in between */
};

/* What of a heap's ranges lies in [address, address + length) is gone: in part, whole, or many of
 * them. Sent afterwards, once it is known that it is so: what was mapped there meanwhile is known
 * by its ALLOC, which stands at or behind `before`. */
struct record_unmap {
    union record_header header;
    uint64_t address;
    uint64_t length;
    uint64_t before; /* ring_control.reserved as it was before the call */
    uint32_t time_ms;
    uint32_t ordinal; /* as in a FREE */
};

/* A realloc that failed: the FREE of this address that the same thread sent
 * last did not happen. */
struct record_unfree {
    union record_header header;
    uint64_t address;
};

/* frames[i] lies inside the instruction that was executing: the call for
 * callers (return address - 1 on x86-64, - 4 on aarch64), the exact pc for a
 * frame that a signal interrupted. Innermost first. */
struct record_stack {
    union record_header header;
    uint64_t hash; /* never 0 */
    uint32_t count;
    uint16_t flags; /* enum record_stack_flag */
    uint16_t error; /* enum unwind_stop: why the walk ended, 0 at the outermost frame */
    uint64_t frames[];
};

enum record_stack_flag {
    RECORD_STACK_TRUNCATED = 1, /* deeper than count: the outer frames are missing */
};

/*
 * A walk that came to code of a module for which the client has no CFI, and what it takes to go on
 * elsewhere, where the module's file can be read: the frames so far, the registers in the frame
 * that is to be left next, and the stack from there outwards. words: register_count registers by
 * their DWARF numbers, then the frames, then stack_bytes / 8 words of the stack.
 */
struct record_walk {
    union record_header header;
    uint64_t token;         /* for the ALLOC; never 0 */
    uint64_t pc;            /* in the frame to be left, as frames are */
    uint64_t known;         /* bit n: the register with number n is known */
    uint64_t stack_address; /* where the copy begins */
    uint32_t stack_bytes;   /* a multiple of 8 */
    uint32_t module;        /* the client's number of the module with pc */
    uint16_t register_count;
    uint16_t frame_count;
    uint16_t flags; /* enum record_walk_flag */
    uint16_t pad;
    uint64_t words[];
};

enum record_walk_flag {
    RECORD_WALK_INTERRUPTED = 1, /* a signal interrupted at pc: it is exact */
    RECORD_WALK_CUT = 2,         /* the stack goes on behind the copy */
};

#define RECORD_WALK_REGISTERS_MAX 64
#define RECORD_WALK_STACK_BYTES_MAX 49152u
#define RECORD_WALK_BYTES_MAX 65536u

/* Loaded object. Addresses [start, end); rel_pc = pc - start + exact_offset + load_bias
 * as the trace's Mapping has it. */
struct record_module {
    union record_header header;
    uint64_t start, end;
    uint64_t file_offset; /* of start in the file */
    uint64_t load_bias;   /* p_vaddr - p_offset of the executable segment */
    uint16_t build_id_length;
    uint16_t path_length;
    uint32_t pad;
    uint8_t bytes[]; /* build id, then path, neither terminated */
};

#define RECORD_BUILD_ID_MAX 64
#define RECORD_PATH_MAX 4096

struct record_thread {
    union record_header header; /* header.thread: the slot that this thread now has */
    uint32_t tid;
    uint32_t pad;
    char name[16]; /* comm, terminated */
};

struct record_interval {
    union record_header header;
    uint64_t interval_bytes;
    uint32_t index; /* that ALLOCs will carry */
    uint32_t pad;
};

struct record_heap {
    union record_header header; /* header.heap: its index */
    uint64_t interval_bytes;
    char name[64];     /* terminated */
    uint32_t interval; /* index of the INTERVAL that is the heap's own, sent before */
    uint32_t pad;
};

#endif
