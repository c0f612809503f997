/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outer form of what heap_profile asks of the daemon, and of what it gets back: one
 * SOCK_SEQPACKET message each, this header and then a serialized ControlRequest or
 * ControlReply (proto/control.proto). Its magic tells it from a hello.
 */
#ifndef HEAPPROFD_WIRE_REQUEST_H
#define HEAPPROFD_WIRE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define REQUEST_MAGIC UINT32_C(0x48504354) /* "HPCT" */
#define REQUEST_VERSION 1

/* Fits the buffers that Linux gives a unix socket by default (208 KiB). */
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
