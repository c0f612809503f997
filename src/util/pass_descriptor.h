/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a message over a unix socket, with one descriptor or without (SCM_RIGHTS). */
#ifndef HEAPPROFD_UTIL_PASS_DESCRIPTOR_H
#define HEAPPROFD_UTIL_PASS_DESCRIPTOR_H

#include <stddef.h>
#include <sys/uio.h>

/* Send the parts as one message with `descriptor` (-1: none). `flags` are for sendmsg(), in
 * addition to MSG_NOSIGNAL. Return the number of bytes sent, or a negative errno. */
ssize_t pass_descriptor(int socket, const struct iovec *parts, size_t count, int descriptor,
                        int flags);

#endif
