/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the JSON of MemoryInfra heap dumps as a stream: bytes are fed as they come, the parts of
 * the format come out by callbacks. Object form or bare list of events, keys in any order, numbers
 * and texts decoded; unknown members are skipped and cost no memory. Nothing is kept between
 * events: ids, incremental maps and processes are for the caller to put together.
 *
 * An event's keys are in any order, and Chrome has `args` first: the contents of an event are
 * reported as they are met, between event_begin and event_end, and their process only by event_end.
 * Within an event, too, allocators may come before maps, and heaps before regions.
 *
 * A problem is a `struct error` that names the byte and the event. Malformed JSON ends the reading.
 * Well-formed JSON without a meaning (a size that is a text, an unknown version) spoils its event:
 * `problem` is called, the rest of the event is skipped, event_end has `spoilt`, and reading
 * continues with the next one. Heaps as Chrome wrote them before version 59 (`heaps` with totals,
 * whose stacks are in `stackFrames`) are a problem, too, unless the dump has heaps_v2 beside them;
 * the rest of the event counts.
 */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_READ_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/error.h"

/* UTF-8, unescaped, not terminated, valid during the call. Without zeros: they become U+FFFD. Bytes
 * that are not UTF-8 are as in the file. */
struct memory_infra_text {
    const char *at;
    size_t length;
};

/* Return whether they are equal. */
static inline bool memory_infra_text_is(struct memory_infra_text text, const char *wanted)
{
    return strlen(wanted) == text.length && memcmp(text.at, wanted, text.length) == 0;
}

#define MEMORY_INFRA_NONE UINT64_MAX /* of an id: missing */

/* First address of regions without a known address. No process has memory there, and readers
 * require an address. */
#define MEMORY_INFRA_NOWHERE (UINT64_C(1) << 63)

/* An event, as known at its end. Texts are "" where missing. */
struct memory_infra_event {
    uint64_t number; /* in the list of events, from 0 */
    uint64_t begin;  /* its first byte in the (unpacked) file */
    struct memory_infra_text name, phase;
    struct memory_infra_text id; /* as in the file, "0x3" */
    int64_t pid, tid;            /* INT64_MIN: missing */
    double ts_us;                /* NAN: missing */
    bool has_dumps;              /* args.dumps is there: a memory dump, if phase is "v" */
    /* args.name and args.labels: of the metadata events process_name, thread_name (of `tid`),
     * process_labels. */
    struct memory_infra_text argument_name, argument_labels;
    bool spoilt; /* its contents are not to be used; `problem` was called */
};

/* heaps_v2.maps.nodes */
struct memory_infra_node {
    uint64_t id, name_sid;
    uint64_t parent;   /* MEMORY_INFRA_NONE: a root */
    uint64_t file_sid; /* MEMORY_INFRA_NONE: unknown; an extension of ours, so is line */
    uint32_t line;     /* 0: unknown */
};

/* One heap of heaps_v2.allocators: parallel arrays, each `count` long. */
struct memory_infra_heap {
    struct memory_infra_text name;
    uint64_t begin; /* byte where its object begins */
    const uint64_t *nodes, *types;
    const double *counts, *sizes; /* finite, not negative */
    size_t count;
};

/* vm_regions */
struct memory_infra_region {
    uint64_t start, size;
    uint64_t file_offset; /* `fo` as it stands; see has_file_offset */
    bool has_file_offset;
    uint64_t
        load_bias; /* the part of `fo` that is no offset in the file (our heapprofd_bias), or 0 */
    uint32_t protection;               /* 4 read, 2 write, 1 execute, 128 may be shared */
    struct memory_infra_text file;     /* "" for anonymous */
    struct memory_infra_text build_id; /* lower-case hex */
    struct memory_infra_text debug_path;
    uint64_t timestamp;
    uint64_t proportional, private_dirty, private_clean, shared_dirty, shared_clean, swapped;
    uint32_t known; /* the existing ones: enum profile_smaps_known */
};

/* An attribute of an allocator: malloc, size, bytes, 0x1a4. */
struct memory_infra_attribute {
    struct memory_infra_text allocator, name, units;
    bool scalar;
    double value;                  /* of a scalar */
    struct memory_infra_text text; /* of another */
};

/* The reader's callbacks; any may be NULL. They return 0 to continue, or a negative errno that ends
 * the reading. */
struct memory_infra_visitor {
    int (*event_begin)(void *context, uint64_t number, uint64_t offset);
    int (*event_end)(void *context, const struct memory_infra_event *event);
    /* A problem of the present event. */
    int (*problem)(void *context, const struct error *problem);

    /* heaps_v2.maps. An id may be defined again, by another event or the same one. */
    int (*string)(void *context, uint64_t id, struct memory_infra_text text);
    int (*node)(void *context, const struct memory_infra_node *node);
    int (*type)(void *context, uint64_t id, uint64_t name_sid);
    int (*heap)(void *context, const struct memory_infra_heap *heap);

    int (*region)(void *context, const struct memory_infra_region *region);
    /* process_totals: "resident_set_bytes" and the like; a bool is 0 or 1. */
    int (*total)(void *context, struct memory_infra_text name, double value);
    int (*attribute)(void *context, const struct memory_infra_attribute *attribute);

    /* A scalar of the file's `metadata` (numbers as they are written, true, false), or of an object
     * one level deeper, with its key in `inner`; else that is "". No event is open then. */
    int (*metadata)(void *context, struct memory_infra_text key, struct memory_infra_text inner,
                    struct memory_infra_text value);
};

struct memory_infra_reader;

/* The visitor must outlive the reader. Return NULL without memory. */
struct memory_infra_reader *memory_infra_reader_new(const struct memory_infra_visitor *visitor,
                                                    void *context);
/* Feed the next bytes, unpacked. Return 0 or a negative errno, after which no more bytes may be
 * fed. -EBADMSG: malformed. */
int memory_infra_reader_feed(struct memory_infra_reader *reader, const void *bytes, size_t length,
                             struct error *error);
/* End the file. Return -EBADMSG if it is cut off, or has no events. */
int memory_infra_reader_end(struct memory_infra_reader *reader, struct error *error);
void memory_infra_reader_free(struct memory_infra_reader *reader);

/* Return the address in a frame's name "pc:55d71aa81293". False: it is another name. */
bool memory_infra_read_pc(struct memory_infra_text name, uint64_t *address);

/* Read all of a source and unpack it (trace/read/trace_source.h). Returns like the functions
 * above. */
struct trace_source;
int memory_infra_read_source(struct trace_source *source,
                             const struct memory_infra_visitor *visitor, void *context,
                             struct error *error);

/* Return whether a file that begins with these bytes, unpacked, can be such JSON: an object or a
 * list of objects, as far as they go. */
bool memory_infra_begins(const void *bytes, size_t length);

#endif
