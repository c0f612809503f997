/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of file_reader.c to the reader process: start, request, deadline, end. */
#ifndef HEAPPROFD_RECORDER_READER_READER_LINK_H
#define HEAPPROFD_RECORDER_READER_READER_LINK_H

#include "recorder/reader/file_reader.h"

/*
 * Send a request. Return the reply's code (0 or more, or a negative errno of the reader). *reply
 * has its bytes, *length of them; the caller frees it (NULL: none). -EIO: there is no reader, or it
 * failed at this file.
 */
int reader_link_request(const struct reader_file *file, const struct reader_request *request,
                        const void *bytes, unsigned deadline_ms, void **reply, size_t *length);

/* Send a request that has no reply, if there is a reader. */
void reader_link_send(const struct reader_request *request);

/* Return whether the reader runs and has replied to all requests. */
bool reader_link_is_idle(void);

/* Send a request whose reply has no bytes, and do not wait for it: the next request waits first.
 * Send nothing if the reader is not idle. */
void reader_link_begin(const struct reader_file *file, const struct reader_request *request,
                       unsigned deadline_ms);

/* End a reader that sent an invalid reply about the file. */
void reader_link_reject_reply(const struct reader_file *file);

#endif
