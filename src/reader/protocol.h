/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profiler process and its file reader (file_reader.h) say to each other over a stream
 * socket: one request at a time, each with one reply except for READER_UNWIND_CLOSE. The reader
 * sends a reply of its own accord first: whether it could give up its rights, and the last step of
 * that (an int).
 */
#ifndef HEAPPROFD_READER_PROTOCOL_H
#define HEAPPROFD_READER_PROTOCOL_H

#include <stdint.h>

#define READER_BUILD_ID_MAX 64
#define READER_DESCRIPTORS_MAX 2

/* Bounds of what follows a request and a reply. */
#define READER_REQUEST_BYTES_MAX (1u << 20)
#define READER_REPLY_BYTES_MAX (64u << 20)

/* Addresses in one request for names, and for rules. */
#define READER_ADDRESSES_MAX 32768u
#define READER_RULES_MAX 512u
#define READER_FUNCTIONS_MAX 4096u

enum reader_kind {
    /* Descriptors: the file, then its debug file if there is one. Bytes: addresses in ascending
     * order. Reply: a uint32_t for each, 0 or 1 + the offset of its name in the strings that
     * follow. */
    READER_NAMES = 1,
    /* The same descriptors. Reply: code 1 if the file has more than what is loaded from it. */
    READER_UNWIND_OPEN,
    /* Bytes: addresses. Reply, for each: a uint64_t, the number of bytes of the struct frame_rule
     * that follows; 0: the file has none. */
    READER_UNWIND_RULES,
    READER_UNWIND_CLOSE,
    /* Descriptor: the file; argument: an offset. Reply: a struct reader_segment. */
    READER_SEGMENT,
    /* Descriptor: the file. Reply: a struct program_file. */
    READER_PROGRAM,
    /* Descriptor: the file. Bytes: names, each terminated. Reply: struct reader_function for each
     * function of .symtab that has one of them, in the order of the table. */
    READER_FUNCTIONS,
};

struct reader_request {
    uint32_t kind;        /* enum reader_kind */
    uint32_t file;        /* the asker's number of a file that the reader keeps */
    uint32_t descriptors; /* that come with it */
    uint32_t bytes;       /* that follow */
    uint64_t argument;
    uint32_t build_id_length; /* 0: any file will do */
    uint8_t build_id[READER_BUILD_ID_MAX];
    uint32_t pad;
};

struct reader_reply {
    int32_t code;   /* 0 or more; or a negative errno, then nothing follows */
    uint32_t bytes; /* that follow */
};

/* An executable segment: rel_pc = pc - start + offset + bias. */
struct reader_segment {
    uint64_t bias;
    uint32_t build_id_length;
    uint8_t build_id[READER_BUILD_ID_MAX];
    uint32_t pad;
};

struct reader_function {
    uint32_t name; /* index of the name among those asked for */
    uint32_t pad;
    uint64_t value, size;
};

#endif
