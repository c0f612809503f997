/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol between a profiler process and its file reader (file_reader.h) over a stream socket: one
 * request at a time, each with one reply except READER_UNWIND_CLOSE. At its start the reader sends
 * a reply without a request: whether it gave up its rights, and the last step of that (an int).
 */
#ifndef HEAPPROFD_RECORDER_READER_PROTOCOL_H
#define HEAPPROFD_RECORDER_READER_PROTOCOL_H

#include <stdint.h>

#define READER_BUILD_ID_MAX 64
#define READER_DESCRIPTORS_MAX 2

/* Limits of the bytes after a request and after a reply. */
#define READER_REQUEST_BYTES_MAX (1u << 20)
#define READER_REPLY_BYTES_MAX (64u << 20)

/* Limits of addresses in a request for names, and in one for rules. */
#define READER_ADDRESSES_MAX 32768u
#define READER_RULES_MAX 512u
#define READER_FUNCTIONS_MAX 4096u
#define READER_PREFIX_BYTES 32u /* longer prefixes are left out */

enum reader_kind {
    /* Descriptors: the file, then its debug file if there is one. Bytes: addresses in ascending
     * order; none: only read the symbols. Reply: a uint32_t for each, 0 or 1 + the offset of its
     * name in the strings that follow. */
    READER_NAMES = 1,
    /* The same descriptors. Reply: code 1 if the file has more than what the process has loaded. */
    READER_UNWIND_OPEN,
    /* Bytes: addresses. Reply, for each: a uint64_t, the number of bytes of the struct frame_rule
     * that follows, or 0 if the file has no rule. */
    READER_UNWIND_RULES,
    READER_UNWIND_CLOSE,
    /* Descriptor: the file; argument: an offset. Reply: a struct reader_segment. */
    READER_SEGMENT,
    /* Descriptors: the file, then its debug file if there is one. Reply: a struct program_file. */
    READER_PROGRAM,
    /* The same descriptors. Bytes: names, each terminated; "*END" stands for all names of global
     * symbols that end so after a prefix. Reply: code 1 if the file itself lists all its functions;
     * a struct reader_function for each function with one of these names, in the order of the
     * tables; at most READER_FUNCTIONS_MAX, half of them by endings. */
    READER_FUNCTIONS,
};

struct reader_request {
    uint32_t kind;        /* enum reader_kind */
    uint32_t file;        /* the profiler's number of a file that the reader keeps */
    uint32_t descriptors; /* number that come with the request */
    uint32_t bytes;       /* number that follow */
    uint64_t argument;
    uint32_t build_id_length; /* 0: any file matches */
    uint8_t build_id[READER_BUILD_ID_MAX];
    uint32_t pad;
};

struct reader_reply {
    int32_t code;   /* 0 or more; or a negative errno without bytes */
    uint32_t bytes; /* number that follow */
};

/* An executable segment: rel_pc = pc - start + offset + bias. */
struct reader_segment {
    uint64_t bias;
    uint32_t build_id_length;
    uint8_t build_id[READER_BUILD_ID_MAX];
    uint32_t pad;
};

struct reader_function {
    uint32_t name; /* index among the requested names */
    uint32_t pad;
    uint64_t value, size;
    char prefix[READER_PREFIX_BYTES]; /* what "*" stands for; "": the name is the requested one */
};

#endif
