/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of the ring. All integers are native-endian. Every record begins with a header, and
 * its length is a multiple of 8 bytes.
 *
 * Order: a MODULE precedes the first STACK with a frame in it, a STACK the first ALLOC that names
 * it, a THREAD the first ALLOC or FREE of its slot, a HEAP the first record with its index, an
 * INTERVAL the first ALLOC with its index, a NAME and a CONTEXT the first TAGGED_ALLOC or SCOPE
 * that names them, a CODE the first STACK with a frame in its function, and a WALK the one ALLOC
 * that names it.
 *
 * After MODULES_RESET all modules and stacks are dropped and sent again: a library was unloaded,
 * and its addresses may belong to another module. It contains the new generation of modules, and
 * precedes the first STACK and MODULE of that generation. Several threads may announce the same
 * generation, or an older one late: the daemon ignores all but the first of the newest.
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
    RECORD_ABANDONED = 11, /* its writer left it by longjmp: its contents do not count */
    RECORD_TAGGED_ALLOC = 12,
    RECORD_NAME = 13,
    RECORD_CONTEXT = 14,
    RECORD_UNMAP = 15,
    RECORD_WALK = 16,
    RECORD_SCOPE = 17,
    RECORD_CODE = 18,
    RECORD_FREE_LAST = 19,
};

/* Read and written as one 64-bit word. */
union record_header {
    struct {
        uint32_t length; /* bytes including the header; a multiple of 8 */
        uint8_t type;    /* enum record_type */
        uint8_t heap;    /* index of the heap; 0 is libc.malloc */
        uint16_t thread; /* slot in ring_thread[] */
    };
    uint64_t word;
};

/* Flags of record_alloc. */
enum record_alloc_flag {
    RECORD_ALLOC_LOST_FREE = 1, /* not in the live set: no FREE will follow */
    RECORD_ALLOC_WEIGHED = 2,   /* the program sampled it itself: the record stands for `size` bytes
                                   and one allocation, without variance */
    RECORD_ALLOC_RANGE = 4,     /* the memory [address, address + size): ranges that were there are
                                   gone, and UNMAPs will report its end. Sampled at interval 1 */
    RECORD_ALLOC_WALK = 8,      /* `stack` is the token of a WALK that the same thread has sent */
};

struct record_modules_reset {
    union record_header header;
    uint32_t generation; /* counts up from 1 and may wrap; a session begins with 0 */
    uint32_t pad;
};

/* A sampled allocation, sent after the allocator returned. If the address is still live in the
 * ledger, it counts as freed first. */
struct record_alloc {
    union record_header header;
    uint64_t address;  /* in heaps other than malloc's: any number from the program, including 0 */
    uint64_t size;     /* requested bytes */
    uint64_t stack;    /* hash of a STACK that was sent before; 0: no stack is available */
    uint32_t time_ms;  /* since the session's start, CLOCK_MONOTONIC_COARSE; it overflows after 49.7
                        * days, and the reader restores the rest */
    uint32_t ordinal;  /* the thread's number of allocation calls including this one, mod 2^32 */
    uint32_t interval; /* index of the current INTERVAL; 0 is the session's first */
    uint32_t flags;    /* enum record_alloc_flag */
};

/* A sampled allocation that has a context or a named type. */
struct record_tagged_alloc {
    struct record_alloc alloc;
    uint64_t type;    /* hash of a NAME that was sent before; 0: none */
    uint64_t context; /* hash of a CONTEXT that was sent before; 0: none */
};

/* The name of a type or scope. It is valid until the session ends, and may be sent again. */
struct record_name {
    union record_header header;
    uint64_t hash; /* of the bytes; never 0 */
    uint32_t length;
    uint32_t pad;
    uint8_t bytes[]; /* usually UTF-8; not terminated */
};

#define RECORD_NAME_BYTES_MAX 1024

/* The scopes of a thread, innermost first, by the hashes of their NAMEs. */
struct record_context {
    union record_header header;
    uint64_t hash; /* of names; never 0 */
    uint32_t count;
    uint32_t pad;
    uint64_t names[];
};

#define RECORD_CONTEXT_NAMES_MAX 256

enum record_scope_flag {
    RECORD_SCOPE_BEGINS = 1,     /* else it ends */
    RECORD_SCOPE_AFTER_LOSS = 2, /* before this one, records of the thread's scopes were lost */
};

/* A scope begins or ends, with all scopes that are still open inside it. Only if the session asks
 * for it (HANDSHAKE_SCOPES). */
struct record_scope {
    union record_header header;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t scope;   /* its place in memory: identifies it among the open scopes of its thread */
    uint64_t outer;   /* the innermost scope before it began, or after it ended; 0: none */
    uint64_t name;    /* hash of a NAME that was sent before; 0 if it ends */
    uint32_t flags;   /* enum record_scope_flag */
    uint32_t pad;
};

/* The free of a sampled allocation, sent before the allocator gets the memory back. */
struct record_free {
    union record_header header;
    uint64_t address;
    uint32_t time_ms;
    uint32_t ordinal; /* of the freeing thread; if it equals the ALLOC's and the thread is the same,
                         nothing was allocated in between */
};

/* The free of the block of the record directly before, an ALLOC or TAGGED_ALLOC of the same thread
 * and heap, at the same time and ordinal. A header is all that it needs. */
struct record_free_last {
    union record_header header;
};

/* [address, address + length) was unmapped. It may cover many ranges, or cut a part out of one.
 * Sent after the call has succeeded. If other memory was mapped there meanwhile, its ALLOC is at or
 * after `before`, and it stays. */
struct record_unmap {
    union record_header header;
    uint64_t address;
    uint64_t length;
    uint64_t before; /* ring_control.reserved before the call */
    uint32_t time_ms;
    uint32_t ordinal; /* as in a FREE */
};

/* A realloc failed: the last FREE of this address by the same thread did not happen. */
struct record_unfree {
    union record_header header;
    uint64_t address;
};

/* frames[i] is inside the instruction that was executing: the call for callers (return address - 1
 * on x86-64, - 4 on aarch64), the exact pc for a frame that a signal interrupted. Innermost first.
 */
struct record_stack {
    union record_header header;
    uint64_t hash; /* never 0 */
    uint32_t count;
    uint16_t flags; /* enum record_stack_flag */
    uint16_t error; /* enum unwind_stop: why the walk ended; 0: at the outermost frame */
    uint64_t frames[];
};

enum record_stack_flag {
    RECORD_STACK_TRUNCATED = 1, /* deeper than `count`: the outer frames are missing */
};

/*
 * A frame of an interpreted language, in a STACK between native ones: no address, but the function
 * (a CODE) and the place in it. The function's frame comes directly before that of the native loop
 * that executes it, or before another function's that the same loop executes.
 *
 *   63   62     60   59          20   19             0
 *   1    language    id of the CODE   place in the code
 */
#define RECORD_CODE_FRAME (UINT64_C(1) << 63)
#define RECORD_CODE_ID_BITS 40
#define RECORD_CODE_PLACE_BITS 20
/* Too far into the function for its bits: the line is unknown. */
#define RECORD_CODE_PLACE_UNKNOWN ((1u << RECORD_CODE_PLACE_BITS) - 1)

enum record_language {
    RECORD_LANGUAGE_PYTHON = 0,
    RECORD_LANGUAGE_RUBY = 1,
    RECORD_LANGUAGE_PHP = 2,
    RECORD_LANGUAGES = 3,
};

static inline uint64_t record_code_frame(enum record_language language, uint64_t id, uint64_t place)
{
    id &= (UINT64_C(1) << RECORD_CODE_ID_BITS) - 1;
    if (place > RECORD_CODE_PLACE_UNKNOWN)
        place = RECORD_CODE_PLACE_UNKNOWN;
    return RECORD_CODE_FRAME | (uint64_t)language << 60 | id << RECORD_CODE_PLACE_BITS | place;
}

/* Return the language of a frame, or Python if there is no such language. */
static inline enum record_language record_code_language(uint64_t frame)
{
    uint64_t language = frame >> 60 & 7;
    return language < RECORD_LANGUAGES ? (enum record_language)language : RECORD_LANGUAGE_PYTHON;
}

/* Return the frame without its place: it identifies the function. */
static inline uint64_t record_code_function(uint64_t frame)
{
    return frame & ~(uint64_t)RECORD_CODE_PLACE_UNKNOWN;
}

/* How `table` of a CODE says which line a place belongs to (src/profile/interp/code_lines.h). */
enum record_line_table {
    RECORD_LINES_NONE = 0, /* the place is the line */
    /* The place is the number of the instruction, from 1 on; 0: before the first. */
    RECORD_LINES_PYTHON_39 = 1,  /* co_lnotab */
    RECORD_LINES_PYTHON_310 = 2, /* co_linetable */
    RECORD_LINES_PYTHON_311 = 3, /* co_linetable with columns */
};

/* A function of an interpreted language. It may be sent again. Two functions with the same id but
 * other contents cannot be told apart from then on. */
struct record_code {
    union record_header header;
    uint64_t function;   /* record_code_function() */
    uint32_t first_line; /* 0: unknown */
    uint32_t table_length;
    uint16_t name_length; /* UTF-8, with its class or outer function, if known */
    uint16_t file_length; /* UTF-8 */
    uint16_t lines;       /* enum record_line_table */
    uint16_t flags;       /* enum record_code_flag */
    uint8_t bytes[];      /* name, file, table */
};

enum record_code_flag {
    RECORD_CODE_TABLE_CUT = 1, /* the table is longer: lines after its end are unknown */
};

#define RECORD_CODE_NAME_MAX 1024u
#define RECORD_CODE_FILE_MAX 4096u /* PATH_MAX */
#define RECORD_CODE_TABLE_MAX 32768u

/*
 * A walk that stopped in a module for which the client has no CFI, with everything that the daemon
 * needs to continue it: the frames so far, the registers of the next frame, and the stack from
 * there outwards. `words` contains register_count registers by their DWARF numbers, then the
 * frames, then stack_bytes / 8 words of the stack.
 */
struct record_walk {
    union record_header header;
    uint64_t token;         /* for the ALLOC; never 0 */
    uint64_t pc;            /* in the frame to be unwound, in the form of frames[] */
    uint64_t known;         /* bit n: the register with number n is known */
    uint64_t stack_address; /* start of the copy */
    uint32_t stack_bytes;   /* a multiple of 8 */
    uint32_t module;        /* the client's number of the module that contains pc */
    uint16_t register_count;
    uint16_t frame_count;
    uint16_t flags; /* enum record_walk_flag */
    uint16_t pad;
    uint64_t words[];
};

enum record_walk_flag {
    RECORD_WALK_INTERRUPTED = 1, /* a signal interrupted the code at pc, which is exact */
    RECORD_WALK_CUT = 2,         /* the stack continues after the copy */
};

#define RECORD_WALK_REGISTERS_MAX 64
#define RECORD_WALK_STACK_BYTES_MAX 49152u
#define RECORD_WALK_BYTES_MAX 65536u

/* A loaded object. Addresses [start, end); rel_pc = pc - start + exact_offset + load_bias, as in
 * the trace's Mapping. */
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
    uint32_t index; /* for use in ALLOCs */
    uint32_t pad;
};

struct record_heap {
    union record_header header; /* header.heap: its index */
    uint64_t interval_bytes;
    char name[64];     /* terminated */
    uint32_t interval; /* index of the heap's own INTERVAL, which was sent before */
    uint32_t pad;
};

#endif
