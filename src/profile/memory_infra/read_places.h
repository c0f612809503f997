/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The format's grammar as a table: the places in the JSON of MemoryInfra, and which key leads
 * where. Private to the reader.
 */
#ifndef HEAPPROFD_PROFILE_MEMORY_INFRA_READ_PLACES_H
#define HEAPPROFD_PROFILE_MEMORY_INFRA_READ_PLACES_H

#include <stdbool.h>
#include <stdint.h>

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

struct place_rule {
    bool list;
    const struct way *ways; /* of an object; ends with key NULL, which matches any other key */
    struct way element;     /* of a list */
};

extern const struct place_rule place_rules[PLACES];

#endif
