/* SPDX-License-Identifier: Apache-2.0 */
/* Compresses the body of a message. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_COMPRESS_H
#define HEAPPROFD_PRODUCTION_SINKS_COMPRESS_H

#include "production/sinks/sink.h"

/* Return the name that HTTP has for a compression. */
const char *compress_name(enum sink_compression compression);

/* Return the compressed bytes, to be freed, and their length; NULL: no memory. */
void *compress_bytes(enum sink_compression compression, const void *bytes, size_t length,
                     size_t *compressed_length);

#endif
