/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts from a program's ELF file that decide how it can be profiled. Flat, because it is passed
 * between processes (others use recorder/processes/program.h).
 */
#ifndef HEAPPROFD_RECORDER_READER_PROGRAM_FILE_H
#define HEAPPROFD_RECORDER_READER_PROGRAM_FILE_H

#include <stdint.h>

#include "util/elf_machine.h"

#define PROGRAM_BUILD_ID_MAX 64
#define PROGRAM_ALLOCATOR_BYTES 24

/* The allocator of a program that has a #[global_allocator] and no other sign of one. */
#define PROGRAM_RUSTS_ALLOCATOR "__rust_alloc"
#define PROGRAM_DEBUG_LINK_BYTES 128

enum program_sanitizer {
    PROGRAM_SANITIZER_NONE,
    PROGRAM_SANITIZER_ADDRESS,
    PROGRAM_SANITIZER_THREAD,
    PROGRAM_SANITIZER_MEMORY,
    PROGRAM_SANITIZER_HWADDRESS,
    PROGRAM_SANITIZER_LEAK,
    PROGRAM_SANITIZERS,
};

/* Where a symbol was found. */
enum program_symbols {
    PROGRAM_SYMBOLS_NONE,
    PROGRAM_SYMBOLS_FILE,      /* .symtab or .dynsym */
    PROGRAM_SYMBOLS_DEBUGDATA, /* .gnu_debugdata */
    PROGRAM_SYMBOLS_DEBUG_FILE,
    PROGRAM_SYMBOLS_KINDS,
};

/* What became of the debug file that was passed. */
enum program_debug_use {
    PROGRAM_DEBUG_FILE_NONE,  /* none was, or it was not needed */
    PROGRAM_DEBUG_FILE_OTHER, /* it belongs to another build, or is damaged */
    PROGRAM_DEBUG_FILE_EMPTY, /* it has no symbols */
    PROGRAM_DEBUG_FILE_USED,
    PROGRAM_DEBUG_FILE_RESULTS,
};

/* Each field of one byte is 0 or 1, unless it has an enum. */
struct program_file {
    struct elf_machine machine;
    uint8_t other_machine;   /* nothing else is read */
    uint8_t has_interpreter; /* else it is linked statically */
    uint8_t is_go;
    uint8_t is_python;              /* it exports CPython, or is linked to its library */
    uint8_t python_minor;           /* the N of CPython 3.N; 0: unknown */
    uint8_t is_ruby;                /* it is linked to Ruby's library */
    uint8_t ruby_major, ruby_minor; /* of Ruby's version; 0: unknown */
    uint8_t is_php;                 /* it has the loop of PHP's engine */
    uint8_t allocator_is_exported;  /* as malloc, so its libraries allocate from it, too */
    uint8_t has_client;             /* linked to the client library, or contains it */
    uint8_t has_noop;               /* linked to the library whose functions do nothing */
    uint8_t has_unwind_tables, has_symbols, has_debug_info;
    uint8_t has_all_functions; /* in its .symtab or .gnu_debugdata: no debug file has more */
    uint8_t debug_file;        /* enum program_debug_use */
    uint8_t allocator_source;  /* enum program_symbols */
    uint8_t sanitizer;         /* enum program_sanitizer: linked in with its allocator */
    char allocator[PROGRAM_ALLOCATOR_BYTES]; /* name of its own malloc, such as "je_malloc"; "": no
                                                symbol shows one */
    char debug_link[PROGRAM_DEBUG_LINK_BYTES];   /* name of its debug file; "": none is named */
    char build_id[2 * PROGRAM_BUILD_ID_MAX + 1]; /* hexadecimal; "": none */
};

/* Parse the open file. `debug_fd`: its debug file, or -1. Return 0, or -ENOEXEC if it is not an ELF
 * file. */
int program_file_parse(int fd, int debug_fd, struct program_file *program);

#endif
