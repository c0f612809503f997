/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data inside a page that is a file: blocks with names, each deflated and in base64, as one
 * JSON object. A block is text, such as an answer of the server, or a header with columns:
 *
 *   four bytes       the length of the header, little-endian
 *   the header       JSON; its member `columns` has name, type and count of each column
 *   the columns      as byte planes: the first bytes of all values, then the second bytes and so on
 *
 * A column is of doubles ("f64"), or of differences of whole numbers ("d32": each value less the
 * one before it, modulo 2^32). Planes and differences deflate to about two thirds of what the plain
 * values do. src/tools/view/page/saved/blocks.ts reads them.
 */
#ifndef HEAPPROFD_VIEW_SAVED_BLOCKS_H
#define HEAPPROFD_VIEW_SAVED_BLOCKS_H

#include <stdio.h>

#include "util/json_writer.h"

/* The JSON object. */
struct saved_blocks {
    FILE *out;
    size_t packed_bytes; /* before base64 */
    bool has_block;
};

/* Write a block. Errors of the stream are left in ferror(). */
void saved_blocks_add(struct saved_blocks *blocks, const char *name, const void *bytes,
                      size_t length);

/* A block with columns that is being made. */
struct saved_block {
    struct json_writer json; /* of the header: members may be added before the first column */
    FILE *head, *data;
    char *head_text, *data_text;
    size_t head_bytes, data_bytes;
    bool has_column;
};

void saved_block_begin(struct saved_block *block);
void saved_block_numbers(struct saved_block *block, const char *name, const uint32_t *values,
                         size_t count);
void saved_block_doubles(struct saved_block *block, const char *name, const double *values,
                         size_t count);
/* Write the block under its name, and free it. */
void saved_block_end(struct saved_block *block, struct saved_blocks *blocks, const char *name);

#endif
