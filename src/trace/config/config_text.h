/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own fields in the text of a configuration. Perfetto's tools and protoc refuse a field that
 * they do not know, so we write ours as comments, which we read as fields:
 *
 *     heapprofd_config {
 *       sampling_interval_bytes: 4096
 *       # heapprofd: max_overhead_percent: 5
 *     }
 */
#ifndef HEAPPROFD_TRACE_CONFIG_CONFIG_TEXT_H
#define HEAPPROFD_TRACE_CONFIG_CONFIG_TEXT_H

#include <stddef.h>

#define CONFIG_TEXT_MARK "# heapprofd: "

/* Return a malloc'd copy of a printed configuration, with our fields as comments; NULL: no memory.
 */
char *config_text_comment(const char *text);

/* Return a malloc'd copy of `length` bytes in which such comments are fields, at the same lines and
 * columns; NULL: no memory. */
char *config_text_uncomment(const char *text, size_t length);

#endif
