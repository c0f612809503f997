/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Java methods that a trace's frames name, so that only the necessary part of a map is written;
 * and the packages of the trace. It keeps the distinct names, not the packets.
 */
#ifndef HEAPPROFD_PROFILE_DEOBFUSCATE_TRACE_NAMES_H
#define HEAPPROFD_PROFILE_DEOBFUSCATE_TRACE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/intern.h"
#include "trace/proto_cursor.h"
#include "util/error.h"

struct trace_names {
    struct trace_name {
        char *text; /* "a.b.c.d": method d of class a.b.c */
        size_t class_length;
    } * items;
    size_t count, capacity;
    struct intern_table ids;     /* of the texts: index + 1 */
    struct intern_table classes; /* of their classes */
    char **packages;
    size_t package_count, package_capacity;
    struct intern_table package_ids;
    /* A Java heap graph has types and fields besides the frames' methods. */
    bool has_heap_graph;
    char warning[512]; /* why the trace was not read completely, or "" */
};

/* Read a trace; `path` as for trace_reader_open(). `tell` receives the number of bytes read after
 * each packet; NULL: none. Return 0, or a negative errno if nothing could be read. Clear *names in
 * any case. */
int trace_names_read(struct trace_names *names, const char *path,
                     void (*tell)(void *context, uint64_t bytes), void *context,
                     struct error *error);
/* Add the names of one TracePacket. Return 0 or -ENOMEM. */
int trace_names_add(struct trace_names *names, struct proto_span packet);
/* Add a frame's name, if it is that of a method. Return 0 or -ENOMEM. */
int trace_names_add_frame(struct trace_names *names, const char *name);
void trace_names_clear(struct trace_names *names);

#endif
