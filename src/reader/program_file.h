/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts from a program's ELF file that decide how it can be profiled. Flat, because it is passed
 * between processes (others use daemon/processes/program.h).
 */
#ifndef HEAPPROFD_READER_PROGRAM_FILE_H
#define HEAPPROFD_READER_PROGRAM_FILE_H

#include <stdint.h>

#define PROGRAM_BUILD_ID_MAX 64
#define PROGRAM_ALLOCATOR_BYTES 24

enum program_sanitizer {
    PROGRAM_SANITIZER_NONE,
    PROGRAM_SANITIZER_ADDRESS,
    PROGRAM_SANITIZER_THREAD,
    PROGRAM_SANITIZER_MEMORY,
    PROGRAM_SANITIZER_HWADDRESS,
    PROGRAM_SANITIZER_LEAK,
    PROGRAM_SANITIZERS,
};

/* Each field except the texts and the sanitizer is 0 or 1. */
struct program_file {
    uint8_t other_machine;
    uint8_t has_interpreter; /* else it is linked statically */
    uint8_t is_musl, is_go;
    uint8_t allocator_is_exported; /* as malloc, so its libraries allocate from it, too */
    uint8_t has_client;            /* linked to the client library, or contains it */
    uint8_t has_noop;              /* linked to the library whose functions do nothing */
    uint8_t has_unwind_tables, has_symbols, has_debug_info, has_debug_link;
    uint8_t sanitizer; /* enum program_sanitizer: linked in with its allocator */
    char allocator[PROGRAM_ALLOCATOR_BYTES]; /* name of its own malloc, such as "je_malloc"; "": no
                                                symbol shows one */
    char build_id[2 * PROGRAM_BUILD_ID_MAX + 1]; /* hexadecimal; "": none */
};

/* Parse the open file. Return 0, or -ENOEXEC if it is not an ELF file. */
int program_file_parse(int fd, struct program_file *program);

#endif
