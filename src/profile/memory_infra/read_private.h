/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the reader's files: read.c feeds the bytes to yajl, read_walk.c follows its callbacks,
 * read_values.c interprets the values. */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_READ_PRIVATE_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_READ_PRIVATE_H

#include <yajl/yajl_parse.h>

#include "profile/memory_infra/read.h"

enum place {
    PLACE_NONE, /* unknown: skipped */
    PLACE_FILE,
    PLACE_EVENTS,
    PLACE_EVENT,
    PLACE_ARGUMENTS,
    PLACE_DUMPS,
    PLACE_TOTALS,
    PLACE_MMAPS,
    PLACE_REGIONS,
    PLACE_REGION,
    PLACE_REGION_BYTES,
    PLACE_ALLOCATORS,
    PLACE_ALLOCATOR,
    PLACE_ATTRIBUTES,
    PLACE_ATTRIBUTE,
    PLACE_HEAPS_V2,
    PLACE_MAPS,
    PLACE_STRINGS,
    PLACE_STRING,
    PLACE_NODES,
    PLACE_NODE,
    PLACE_TYPES,
    PLACE_TYPE,
    PLACE_HEAPS,
    PLACE_HEAP,
    PLACE_COLUMN_NODES, /* the four columns in a row */
    PLACE_COLUMN_TYPES,
    PLACE_COLUMN_COUNTS,
    PLACE_COLUMN_SIZES,
    PLACE_OLD_HEAPS, /* of Chrome before version 59 */
    PLACE_METADATA,
    PLACE_METADATA_INNER,
    PLACES,
};

/* Single values. Texts are kept by field until their object ends. */
enum field {
    FIELD_NONE,
    FIELD_EVENT_NAME,
    FIELD_EVENT_PHASE,
    FIELD_EVENT_ID,
    FIELD_ARGUMENT_NAME,
    FIELD_ARGUMENT_LABELS,
    FIELD_STRING,
    FIELD_REAL_NAME, /* of a string that is escaped twice */
    FIELD_REGION_FILE,
    FIELD_REGION_BUILD_ID,
    FIELD_REGION_DEBUG_PATH,
    FIELD_ATTRIBUTE_TYPE,
    FIELD_ATTRIBUTE_UNITS,
    FIELD_ATTRIBUTE_VALUE,
    FIELD_TEXTS, /* texts above, numbers below */
    FIELD_PID = FIELD_TEXTS,
    FIELD_TID,
    FIELD_TS,
    FIELD_ID,
    FIELD_NAME_SID,
    FIELD_PARENT,
    FIELD_FILE_SID,
    FIELD_LINE,
    FIELD_VERSION,
    FIELD_PROTECTION,
    FIELD_REGION_START, /* hexadecimal texts up to FIELD_SWAPPED */
    FIELD_REGION_SIZE,
    FIELD_REGION_OFFSET,
    FIELD_REGION_BIAS,
    FIELD_REGION_TIMESTAMP,
    FIELD_PROPORTIONAL,
    FIELD_PRIVATE_DIRTY,
    FIELD_PRIVATE_CLEAN,
    FIELD_SHARED_DIRTY,
    FIELD_SHARED_CLEAN,
    FIELD_SWAPPED,
    FIELD_TOTAL,
    FIELD_METADATA,
    FIELDS,
};

/* Where a key, or an element of a list, leads. */
struct way {
    const char *key;
    uint8_t length;
    uint8_t place; /* of an object or list; PLACE_NONE: none is expected here */
    uint8_t field; /* of a single value; FIELD_NONE: none is expected here */
};

#define PLACES_DEEP 16u /* deeper than any path through the table */
#define DEPTH_MAX 512u

/* Text that is kept until its object ends. */
struct kept_text {
    char *at;
    size_t length, capacity;
};

/* A value as it is in the JSON. */
enum value_kind { VALUE_NULL, VALUE_BOOL, VALUE_NUMBER, VALUE_TEXT };
struct value {
    enum value_kind kind;
    struct memory_infra_text text; /* a number as it is written; a bool "true", "false" */
};

struct memory_infra_reader {
    const struct memory_infra_visitor *visitor;
    void *context;
    yajl_handle parser;
    int code; /* why reading ended; 0: it did not */
    struct error failure;

    uint64_t fed;   /* bytes before the chunk that is being read */
    bool in_chunk;  /* yajl is reading one, or has failed in it */
    uint64_t quiet; /* bytes of whole chunks since the last callback */
    uint64_t mark;  /* length of a byte order mark, which yajl does not get */
    bool bare_list; /* number of events */
    bool has_events;

    uint8_t places[PLACES_DEEP];
    unsigned depth;
    unsigned skipped; /* open objects and lists within a skipped value */
    const struct way *way;
    struct kept_text keys[PLACES_DEEP]; /* the last key, in places with any key */

    /* The event. */
    struct memory_infra_event event;
    uint64_t event_count;
    bool in_event;
    struct kept_text texts[FIELD_TEXTS];
    uint64_t numbers[FIELDS];
    bool present[FIELDS];

    /* Its parts. */
    bool has_old_heaps;
    uint64_t heap_begin;
    struct column {
        union {
            uint64_t *ids;
            double *values;
        };
        size_t count, capacity;
    } columns[4];
    struct kept_text zeroless; /* a text that had zeros */
};

/* The offset after yajl's last token. */
uint64_t reader_offset(const struct memory_infra_reader *reader);

/* End the reading. Return 0, which ends yajl's, too. */
int reader_stop(struct memory_infra_reader *reader, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int reader_out_of_memory(struct memory_infra_reader *reader);
/* Report a problem of the event; `spoils`: its contents must not be used. Return 1 to continue, or
 * 0. */
int reader_complain(struct memory_infra_reader *reader, bool spoils, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Convert a visitor's result: 1 to continue, or 0. */
int reader_answer(struct memory_infra_reader *reader, int code);

int reader_keep(struct memory_infra_reader *reader, struct kept_text *kept,
                struct memory_infra_text text);

/* yajl's, whose context is the reader. */
extern const yajl_callbacks reader_callbacks;

/* Called when a place is entered or left, and for a single value at the reader's way or in a list
 * of values. */
int reader_enter(struct memory_infra_reader *reader, enum place place);
int reader_leave(struct memory_infra_reader *reader, enum place place);
int reader_value(struct memory_infra_reader *reader, enum place place, const struct way *way,
                 const struct value *value);

#endif
