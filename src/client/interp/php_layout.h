/* SPDX-License-Identifier: Apache-2.0 */
/* Where PHP keeps what the client reads, on 64-bit machines: by version what differs. Builds for
 * debugging or for several threads have it elsewhere. */
#ifndef HEAPPROFD_CLIENT_INTERP_PHP_LAYOUT_H
#define HEAPPROFD_CLIENT_INTERP_PHP_LAYOUT_H

#include <stdint.h>

/* Offsets in bytes, in a function that is written in PHP. */
struct php_layout {
    uint32_t api; /* ZEND_MODULE_API_NO */
    uint8_t code; /* address of its instructions, */
    uint8_t code_count;
    uint8_t file; /* and the function's first line in the next word */
};

/* executor_globals: the innermost frame. */
#define PHP_GLOBALS_FRAME 488u

/* A hash table, and an entry of it: offsets. */
enum {
    PHP_TABLE_ENTRIES = 16,
    PHP_ENTRY_POINTER = 0,
};

/* What an extension says of itself: words. */
enum {
    PHP_MODULE_API = 0,   /* upper half */
    PHP_MODULE_BUILD = 1, /* lowest byte: for debugging; the next: for several threads */
    PHP_MODULE_WORDS = 2,
};

/* A frame: words. */
enum {
    PHP_FRAME_INSTRUCTION = 0, /* the one that it executes */
    PHP_FRAME_FUNCTION = 3,
    PHP_FRAME_THIS = 4,
    PHP_FRAME_FLAGS = 5, /* lower half; its lowest byte is the type of `this` */
    PHP_FRAME_OUTER = 6,
    PHP_FRAME_WORDS = 7,
};

#define PHP_FRAME_IS_ENTRY 0x20000u /* the loop was entered with it */

#define PHP_VALUE_TYPE 0xffu /* mask */
#define PHP_VALUE_OBJECT 8u

/* An object, and a generator: offsets in bytes. */
enum {
    PHP_OBJECT_CLASS = 16,
    PHP_GENERATOR_FRAME = 56,
    PHP_GENERATOR_WAITS_FOR = 152, /* the generator to which it has delegated */
};

#define PHP_INSTRUCTION_BYTES 32u
#define PHP_INSTRUCTION_LINE 24u

/* A function: words. */
enum {
    PHP_FUNCTION_TYPE = 0, /* lowest byte */
    PHP_FUNCTION_NAME = 1,
    PHP_FUNCTION_CLASS = 2,
    PHP_FUNCTION_WORDS = 23, /* that are read of one in PHP */
    PHP_FUNCTION_HEAD = 3,   /* and of one in C */
};

enum {
    PHP_FUNCTION_IN_C = 1,
    PHP_FUNCTION_IN_PHP = 2,
    PHP_FUNCTION_EVAL = 4, /* the text that was given to eval() */
};

#define PHP_CLASS_NAME 8u

/* A string: words. */
enum {
    PHP_STRING_HASH = 1, /* 0: not computed yet */
    PHP_STRING_LENGTH = 2,
    PHP_STRING_CONTENT = 3, /* with a 0 at its end: at least a word */
    PHP_STRING_WORDS = 4,
};

#endif
