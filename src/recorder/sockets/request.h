/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The framing of heap_profile's requests to the daemon and of their replies: one SOCK_SEQPACKET
 * message each, this header followed by a serialized ControlRequest or ControlReply
 * (proto/control.proto). The magic distinguishes a request from a hello.
 */
#ifndef HEAPPROFD_RECORDER_SOCKETS_REQUEST_H
#define HEAPPROFD_RECORDER_SOCKETS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REQUEST_MAGIC UINT32_C(0x48504354) /* "HPCT" */
#define REQUEST_VERSION 1

/* Fits in the default buffers of a unix socket on Linux (208 KiB). */
#define REQUEST_BYTES_MAX (128u << 10)

struct request_header {
    uint32_t magic;
    uint32_t version;
};

static inline bool request_is_one(const void *bytes, size_t length)
{
    struct request_header header;
    if (length < sizeof(header))
        return false;
    memcpy(&header, bytes, sizeof(header));
    return header.magic == REQUEST_MAGIC;
}

#endif
