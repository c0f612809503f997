/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handlers of the reader process, one for each kind of request. They run without rights. Files are
 * untrusted; requests come from the profiler, which is trusted.
 */
#ifndef HEAPPROFD_RECORDER_READER_HANDLERS_H
#define HEAPPROFD_RECORDER_READER_HANDLERS_H

#include <stddef.h>
#include <stdint.h>

#include "recorder/reader/protocol.h"

/* A received request. */
struct reader_call {
    struct reader_request request;
    int fd, debug_fd; /* -1: none */
    void *bytes;      /* request.bytes of them */
};

/* The bytes of the reply, malloc'd. The caller frees them. */
struct reader_result {
    void *bytes;
    size_t length;
};

/* Each function returns the code of the reply. */
int handle_names(const struct reader_call *call, struct reader_result *result);
int handle_functions(const struct reader_call *call, struct reader_result *result);
int handle_segment(const struct reader_call *call, struct reader_result *result);
int handle_unwind_open(const struct reader_call *call);
int handle_unwind_rules(const struct reader_call *call, struct reader_result *result);
void handle_unwind_close(uint32_t file);

#endif
