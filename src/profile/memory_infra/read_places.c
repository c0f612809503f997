/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of MemoryInfra's JSON, a rule for each place (read_places.h). */
#include "profile/memory_infra/read_places.h"

#include "profile/memory_infra/frame_name.h"

#define WAY(key, place, field)                                                                     \
    {                                                                                              \
        key, sizeof(key) - 1, place, field                                                         \
    }
#define WAYS(...) ((const struct way[]){__VA_ARGS__, {NULL, 0, PLACE_NONE, FIELD_NONE}})
#define ANY_WAY(place, field) ((const struct way[]){{NULL, 0, place, field}})
#define LIST_OF(item)                                                                              \
    {                                                                                              \
        .list = true, .element = { NULL, 0, item, FIELD_NONE }                                     \
    }
#define COLUMN                                                                                     \
    {                                                                                              \
        .list = true                                                                               \
    }

const struct place_rule place_rules[PLACES] = {
    [PLACE_FILE] = {.ways = WAYS(WAY("traceEvents", PLACE_EVENTS, FIELD_NONE),
                                 WAY("metadata", PLACE_METADATA, FIELD_NONE))},
    [PLACE_EVENTS] = LIST_OF(PLACE_EVENT),
    [PLACE_EVENT] = {.ways =
                         WAYS(WAY("args", PLACE_ARGUMENTS, FIELD_NONE),
                              WAY("id", PLACE_NONE, FIELD_EVENT_ID),
                              WAY("name", PLACE_NONE, FIELD_EVENT_NAME),
                              WAY("ph", PLACE_NONE, FIELD_EVENT_PHASE),
                              WAY("pid", PLACE_NONE, FIELD_PID), WAY("tid", PLACE_NONE, FIELD_TID),
                              WAY("ts", PLACE_NONE, FIELD_TS))},
    [PLACE_ARGUMENTS] = {.ways = WAYS(WAY("dumps", PLACE_DUMPS, FIELD_NONE),
                                      WAY("name", PLACE_NONE, FIELD_ARGUMENT_NAME),
                                      WAY("labels", PLACE_NONE, FIELD_ARGUMENT_LABELS))},
    [PLACE_DUMPS] = {.ways = WAYS(WAY("heaps_v2", PLACE_HEAPS_V2, FIELD_NONE),
                                  WAY("heaps", PLACE_OLD_HEAPS, FIELD_NONE),
                                  WAY("allocators", PLACE_ALLOCATORS, FIELD_NONE),
                                  WAY("process_totals", PLACE_TOTALS, FIELD_NONE),
                                  WAY("process_mmaps", PLACE_MMAPS, FIELD_NONE))},
    [PLACE_TOTALS] = {.ways = ANY_WAY(PLACE_NONE, FIELD_TOTAL)},
    [PLACE_MMAPS] = {.ways = WAYS(WAY("vm_regions", PLACE_REGIONS, FIELD_NONE))},
    [PLACE_REGIONS] = LIST_OF(PLACE_REGION),
    [PLACE_REGION] = {.ways = WAYS(WAY("sa", PLACE_NONE, FIELD_REGION_START),
                                   WAY("sz", PLACE_NONE, FIELD_REGION_SIZE),
                                   WAY("pf", PLACE_NONE, FIELD_PROTECTION),
                                   WAY("mf", PLACE_NONE, FIELD_REGION_FILE),
                                   WAY("bs", PLACE_REGION_BYTES, FIELD_NONE),
                                   WAY("id", PLACE_NONE, FIELD_REGION_BUILD_ID),
                                   WAY("fo", PLACE_NONE, FIELD_REGION_OFFSET),
                                   WAY("heapprofd_bias", PLACE_NONE, FIELD_REGION_BIAS),
                                   WAY("ts", PLACE_NONE, FIELD_REGION_TIMESTAMP),
                                   WAY("df", PLACE_NONE, FIELD_REGION_DEBUG_PATH))},
    [PLACE_REGION_BYTES] = {.ways = WAYS(WAY("pss", PLACE_NONE, FIELD_PROPORTIONAL),
                                         WAY("pd", PLACE_NONE, FIELD_PRIVATE_DIRTY),
                                         WAY("pc", PLACE_NONE, FIELD_PRIVATE_CLEAN),
                                         WAY("sd", PLACE_NONE, FIELD_SHARED_DIRTY),
                                         WAY("sc", PLACE_NONE, FIELD_SHARED_CLEAN),
                                         WAY("sw", PLACE_NONE, FIELD_SWAPPED))},
    [PLACE_ALLOCATORS] = {.ways = ANY_WAY(PLACE_ALLOCATOR, FIELD_NONE)},
    [PLACE_ALLOCATOR] = {.ways = WAYS(WAY("attrs", PLACE_ATTRIBUTES, FIELD_NONE))},
    [PLACE_ATTRIBUTES] = {.ways = ANY_WAY(PLACE_ATTRIBUTE, FIELD_NONE)},
    [PLACE_ATTRIBUTE] = {.ways = WAYS(WAY("type", PLACE_NONE, FIELD_ATTRIBUTE_TYPE),
                                      WAY("units", PLACE_NONE, FIELD_ATTRIBUTE_UNITS),
                                      WAY("value", PLACE_NONE, FIELD_ATTRIBUTE_VALUE))},
    [PLACE_HEAPS_V2] = {.ways = WAYS(WAY("version", PLACE_NONE, FIELD_VERSION),
                                     WAY("maps", PLACE_MAPS, FIELD_NONE),
                                     WAY("allocators", PLACE_HEAPS, FIELD_NONE))},
    [PLACE_MAPS] = {.ways = WAYS(WAY("strings", PLACE_STRINGS, FIELD_NONE),
                                 WAY("nodes", PLACE_NODES, FIELD_NONE),
                                 WAY("types", PLACE_TYPES, FIELD_NONE))},
    [PLACE_STRINGS] = LIST_OF(PLACE_STRING),
    [PLACE_STRING] = {.ways = WAYS(WAY("id", PLACE_NONE, FIELD_ID),
                                   WAY("string", PLACE_NONE, FIELD_STRING),
                                   WAY(FRAME_NAME_MEMBER, PLACE_NONE, FIELD_REAL_NAME))},
    [PLACE_NODES] = LIST_OF(PLACE_NODE),
    [PLACE_NODE] = {.ways = WAYS(WAY("id", PLACE_NONE, FIELD_ID),
                                 WAY("name_sid", PLACE_NONE, FIELD_NAME_SID),
                                 WAY("parent", PLACE_NONE, FIELD_PARENT),
                                 WAY("file_sid", PLACE_NONE, FIELD_FILE_SID),
                                 WAY("line", PLACE_NONE, FIELD_LINE))},
    [PLACE_TYPES] = LIST_OF(PLACE_TYPE),
    [PLACE_TYPE] = {.ways = WAYS(WAY("id", PLACE_NONE, FIELD_ID),
                                 WAY("name_sid", PLACE_NONE, FIELD_NAME_SID))},
    [PLACE_HEAPS] = {.ways = ANY_WAY(PLACE_HEAP, FIELD_NONE)},
    [PLACE_HEAP] = {.ways = WAYS(WAY("nodes", PLACE_COLUMN_NODES, FIELD_NONE),
                                 WAY("types", PLACE_COLUMN_TYPES, FIELD_NONE),
                                 WAY("counts", PLACE_COLUMN_COUNTS, FIELD_NONE),
                                 WAY("sizes", PLACE_COLUMN_SIZES, FIELD_NONE))},
    [PLACE_COLUMN_NODES] = COLUMN,
    [PLACE_COLUMN_TYPES] = COLUMN,
    [PLACE_COLUMN_COUNTS] = COLUMN,
    [PLACE_COLUMN_SIZES] = COLUMN,
    [PLACE_OLD_HEAPS] = {.ways = ANY_WAY(PLACE_NONE, FIELD_NONE)},
    [PLACE_METADATA] = {.ways = ANY_WAY(PLACE_METADATA_INNER, FIELD_METADATA)},
    [PLACE_METADATA_INNER] = {.ways = ANY_WAY(PLACE_NONE, FIELD_METADATA)},
};
