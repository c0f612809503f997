/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of the reader process to requests about files. They run without rights. Files are
 * untrusted. Requests come from the asker, which is trusted.
 */
#ifndef HEAPPROFD_READER_ANSWERS_H
#define HEAPPROFD_READER_ANSWERS_H

#include <stddef.h>
#include <stdint.h>

#include "reader/protocol.h"

/* A request with its descriptors and bytes. */
struct question {
    struct reader_request request;
    int fd, debug_fd; /* -1: none */
    void *bytes;      /* request.bytes of them */
};

/* Bytes of the reply, malloc'd. The caller frees them. */
struct answer {
    void *bytes;
    size_t length;
};

/* Each function returns the code of the reply. */
int answer_names(const struct question *question, struct answer *answer);
int answer_functions(const struct question *question, struct answer *answer);
int answer_segment(const struct question *question, struct answer *answer);
int answer_unwind_open(const struct question *question);
int answer_unwind_rules(const struct question *question, struct answer *answer);
void answer_unwind_close(uint32_t file);

#endif
