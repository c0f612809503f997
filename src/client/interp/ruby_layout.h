/* SPDX-License-Identifier: Apache-2.0 */
/* Where Ruby keeps what the client reads, on 64-bit machines: by version what differs. */
#ifndef HEAPPROFD_CLIENT_INTERP_RUBY_LAYOUT_H
#define HEAPPROFD_CLIENT_INTERP_RUBY_LAYOUT_H

#include <stdint.h>

struct ruby_layout {
    char version[5]; /* how ruby_version begins */

    /* A thread: offsets in bytes. */
    uint16_t thread_context;
    uint16_t thread_native;   /* what has its id; 0: the thread itself */
    uint16_t thread_id;       /* pthread_self() */
    uint16_t thread_blocking; /* not 0: in a function that runs without the global lock */

    uint8_t frame_words;    /* of a frame */
    uint8_t string_content; /* the word where an embedded string begins */

    /* What a code object points to: words. */
    uint8_t body_entries;     /* for ranges of code, in order */
    uint8_t body_entry_count; /* lower half */
    uint8_t body_index;
    uint8_t first_line_shift;
};

/* An execution context: of a thread, or of a fiber. */
enum {
    RUBY_CONTEXT_STACK = 0, /* words: address, number of words, innermost frame */
    RUBY_CONTEXT_THREAD = 48,
};

#define RUBY_THREAD_VM 32u

/* A frame: words. The innermost frame has the lowest address. */
enum {
    RUBY_FRAME_PC = 0,
    RUBY_FRAME_CODE = 2,
    RUBY_FRAME_ENVIRONMENT = 4, /* address of the flags */
    RUBY_FRAME_WORDS = 5,       /* that are read */
};

enum {
    RUBY_FRAME_KIND = 0x7fff0001, /* mask */
    RUBY_FRAME_DUMMY = 0x79990001,
    RUBY_FRAME_IS_ENTRY = 0x20,  /* the loop was entered with it */
    RUBY_FRAME_IS_NATIVE = 0x80, /* a function in C */
};

/* An object's flags. */
enum {
    RUBY_TYPE = 0x1f, /* mask */
    RUBY_TYPE_STRING = 0x05,
    RUBY_TYPE_ARRAY = 0x07,
    RUBY_CODE_TYPE = 0xf01f, /* mask: the type of internal objects, and which one */
    RUBY_CODE_OBJECT = 0x701a,
    RUBY_NOT_EMBEDDED = 1 << 13, /* of a string */
    RUBY_EMBEDDED_LENGTH_SHIFT = 14,
    RUBY_EMBEDDED_LENGTH = 0x1f, /* mask */
    RUBY_ARRAY_EMBEDDED = 1 << 13,
};

/* Objects: words. */
enum {
    RUBY_OBJECT_FLAGS = 0,
    RUBY_ARRAY_CONTENT = 2, /* if it is embedded */
    RUBY_STRING_LENGTH = 2, /* in 3.1 not of an embedded one */
    RUBY_STRING_BYTES = 3,
    RUBY_ARRAY_ITEMS = 4,
    RUBY_OBJECT_WORDS = 5,
    RUBY_CODE_BODY = 2,
};

/* What a code object points to: words. */
enum {
    RUBY_BODY_SIZE = 0, /* upper half: the number of words of code */
    RUBY_BODY_CODE = 1,
    RUBY_BODY_PATH = 8, /* a string, or an array whose first item is one */
    RUBY_BODY_LABEL = 10,
    RUBY_BODY_FIRST_LINE = 11, /* lower half */
    RUBY_BODY_WORDS = 19,      /* that are read */
};

/* The line is in an entry's first 4 bytes. */
#define RUBY_ENTRY_BYTES 12u

/*
 * The index: at how many positions up to a given one an entry begins. The first positions have this
 * number itself, in 7 bits, 9 of them in a word. Blocks of 512 positions follow: the number before
 * the block, 9 bits for the number before each group of 64 positions but the first, and a bit for
 * each position.
 */
enum {
    RUBY_INDEX_DIRECT = 54,
    RUBY_INDEX_DIRECT_PER_WORD = 9,
    RUBY_INDEX_DIRECT_BITS = 7,
    RUBY_INDEX_DIRECT_BYTES = 48,
    RUBY_INDEX_BLOCK = 512,
    RUBY_INDEX_BLOCK_BYTES = 80,
    RUBY_INDEX_BLOCK_WORDS = 10,
    RUBY_INDEX_GROUP = 64,
    RUBY_INDEX_GROUP_BITS = 9,
};

#endif
