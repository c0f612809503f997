/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the reader process makes of files. Runs after it has given up its rights; files are
 * untrusted, and requests come from the asker, which is trusted.
 */
#ifndef HEAPPROFD_READER_ANSWERS_H
#define HEAPPROFD_READER_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "reader/protocol.h"

/* A request with what came with it. */
struct question {
    struct reader_request request;
    int fd, debug_fd; /* -1: none */
    void *bytes;      /* request.bytes of them */
};

/* Bytes of the reply, malloc'd; freed by the caller. */
struct answer {
    void *bytes;
    size_t length;
};

/* Each returns the reply's code. */
int answer_names(const struct question *question, struct answer *answer);
int answer_functions(const struct question *question, struct answer *answer);
int answer_segment(const struct question *question, struct answer *answer);
int answer_unwind_open(const struct question *question);
int answer_unwind_rules(const struct question *question, struct answer *answer);
void answer_unwind_close(uint32_t file);

#endif
