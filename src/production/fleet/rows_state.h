/* SPDX-License-Identifier: Apache-2.0 */
/* The state that rows.c and rows_stacks.c share, and the values of RowBinary. */
#ifndef HEAPPROFD_PRODUCTION_FLEET_ROWS_STATE_H
#define HEAPPROFD_PRODUCTION_FLEET_ROWS_STATE_H

#include <string.h>

#include "production/fleet/rows.h"
#include "production/fleet/sent.h"
#include "trace/proto_buffer.h"

struct fleet_rows {
    struct fleet_body {
        struct proto_buffer bytes;
        uint64_t rows, periods;
    } bodies[FLEET_TABLES];
    struct sent sent;
    uint64_t batch; /* 0: none has begun */
    /* The present period. */
    const char *service, *heap;
    uint64_t series;
    int64_t time_s;
    uint32_t *frames; /* of the present stack, innermost first */
    size_t frame_capacity;
    fleet_rows_put *put;
    void *context;
    struct error *error;
};

/* Return the id of the heap's total, and put its stack, without frames, if it is new. */
uint64_t rows_total(struct fleet_rows *rows);
/* Set the id of a callsite's stack, and put its stack and its symbols if they are new. Return 0 or
 * -ENOMEM with *rows->error set. */
int rows_stack(struct fleet_rows *rows, const struct profile *profile, uint32_t callsite,
               uint64_t *stack);

/* --- values; little-endian, as every processor of ours is --- */

static inline void put_u8(struct proto_buffer *to, uint8_t value)
{
    proto_put_raw(to, &value, sizeof(value));
}
static inline void put_u16(struct proto_buffer *to, uint16_t value)
{
    proto_put_raw(to, &value, sizeof(value));
}
static inline void put_u32(struct proto_buffer *to, uint32_t value)
{
    proto_put_raw(to, &value, sizeof(value));
}
static inline void put_u64(struct proto_buffer *to, uint64_t value)
{
    proto_put_raw(to, &value, sizeof(value));
}
static inline void put_float(struct proto_buffer *to, float value)
{
    proto_put_raw(to, &value, sizeof(value));
}
/* Longer texts are cut: readers refuse them (answer.h). */
#define ROWS_TEXT_BYTES_MAX (16u * 1024u)
static inline void put_text(struct proto_buffer *to, const char *text)
{
    size_t length = strlen(text);
    length = length < ROWS_TEXT_BYTES_MAX ? length : ROWS_TEXT_BYTES_MAX;
    proto_put_varint(to, length);
    proto_put_raw(to, text, length);
}

#endif
