/* SPDX-License-Identifier: Apache-2.0 */
/* Where Ruby 3.1 keeps what the client reads, on 64-bit machines: offsets in bytes. */
#ifndef HEAPPROFD_CLIENT_INTERP_RUBY_LAYOUT_H
#define HEAPPROFD_CLIENT_INTERP_RUBY_LAYOUT_H

#define RUBY_VERSION "3.1."

/* An execution context: of a thread, or of a fiber. */
enum {
    RUBY_CONTEXT_STACK = 0, /* words: address, number of words, innermost frame */
    RUBY_CONTEXT_THREAD = 48,
};

/* A thread. */
enum {
    RUBY_THREAD_VM = 32, /* words: virtual machine, execution context */
    RUBY_THREAD_ID = 80,
    RUBY_THREAD_BLOCKING = 168, /* not 0: in a function that runs without the global lock */
};

/* A frame: words. The innermost frame has the lowest address. */
enum {
    RUBY_FRAME_PC = 0,
    RUBY_FRAME_CODE = 2,
    RUBY_FRAME_ENVIRONMENT = 4, /* address of the flags */
    RUBY_FRAME_WORDS = 8,
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
    RUBY_OBJECT_DATA = 2, /* embedded contents, or: */
    RUBY_STRING_LENGTH = 2,
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
    RUBY_BODY_FIRST_LINE = 11,  /* shifted by 1 */
    RUBY_BODY_ENTRIES = 15,     /* for ranges of code, in order */
    RUBY_BODY_ENTRY_COUNT = 17, /* lower half */
    RUBY_BODY_INDEX = 18,
    RUBY_BODY_WORDS = 19,
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
