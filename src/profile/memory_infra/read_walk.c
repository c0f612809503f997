/* SPDX-License-Identifier: Apache-2.0 */
/* The format's grammar: a table of the places in the JSON, and of the keys that lead from one to
 * another. yajl's callbacks are followed through it; parts outside the table are skipped. */
#include <string.h>

#include "profile/memory_infra/frame_name.h"
#include "profile/memory_infra/read_private.h"
#include "util/array.h"

/* --- the table --- */

struct place_rule {
    bool list;
    struct way element;     /* of a list */
    const struct way *ways; /* of an object; ends with key NULL, which matches any other key */
};

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

static const struct place_rule place_rules[PLACES] = {
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

/* --- the callbacks --- */

/* Return the way of a value that begins here. NULL: none. */
static const struct way *way_here(const struct memory_infra_reader *reader)
{
    static const struct way file_way = {NULL, 0, PLACE_FILE, FIELD_NONE};
    if (reader->depth == 0)
        return &file_way;
    const struct place_rule *rule = &place_rules[reader->places[reader->depth - 1]];
    return rule->list ? &rule->element : reader->way;
}

static enum place place_here(const struct memory_infra_reader *reader)
{
    return reader->depth == 0 ? PLACE_NONE : reader->places[reader->depth - 1];
}

/* Report a value of the wrong kind. `args` of events other than memory dumps can be anything. */
static int complain_of_kind(struct memory_infra_reader *reader, const char *is)
{
    enum place place = place_here(reader);
    const struct way *way = way_here(reader);
    if (reader->event.spoilt || way == NULL)
        return 1;
    if (!reader->in_event) {
        if (place == PLACE_FILE && way->place == PLACE_EVENTS)
            return reader_stop(reader, -EBADMSG, "traceEvents is %s, not a list", is);
        return 1;
    }
    if (place < PLACE_DUMPS)
        return 1;
    if (way->key != NULL)
        return reader_complain(reader, true, "\"%s\" is %s", way->key, is);
    return reader_complain(reader, true, "%s is %s",
                           place_rules[place].list ? "an element of a list" : "a value", is);
}

static int on_value(struct memory_infra_reader *reader, enum value_kind kind,
                    struct memory_infra_text text)
{
    static const char *const names[] = {[VALUE_NULL] = "null",
                                        [VALUE_BOOL] = "true or false",
                                        [VALUE_NUMBER] = "a number",
                                        [VALUE_TEXT] = "a text"};
    struct value value = {kind, text};
    reader->quiet = 0;
    if (reader->skipped > 0)
        return 1;
    if (reader->depth == 0)
        return reader_stop(reader, -EBADMSG, "the file is %s, not an object or list", names[kind]);
    enum place place = place_here(reader);
    const struct way *way = way_here(reader);
    if (reader->in_event && reader->event.spoilt && place != PLACE_EVENT)
        return 1;
    bool column = place >= PLACE_COLUMN_NODES && place <= PLACE_COLUMN_SIZES;
    if (!column && (way == NULL || way->field == FIELD_NONE))
        return way == NULL || way->place == PLACE_NONE || kind == VALUE_NULL
                   ? 1
                   : complain_of_kind(reader, names[kind]);
    return reader_value(reader, place, way, &value);
}

/* Find a key among a place's ways. */
static const struct way *find_way(const struct way *way, struct memory_infra_text key)
{
    for (; way->key != NULL; way++)
        if (way->length == key.length && way->key[0] == key.at[0] &&
            memcmp(way->key, key.at, key.length) == 0)
            break;
    return way;
}

/* Replace zeros in a text by U+FFFD. */
static int replace_zeros(struct memory_infra_reader *reader, struct memory_infra_text *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    struct kept_text *into = &reader->zeroless;
    if (text->length == 0 || memchr(text->at, '\0', text->length) == NULL)
        return 1;
    if (ARRAY_RESERVE(&into->at, &into->capacity, 0, 3 * text->length) < 0)
        return reader_out_of_memory(reader);
    char *at = into->at;
    for (size_t i = 0; i < text->length; i++)
        if (text->at[i] == '\0')
            at = mempcpy(at, replacement, sizeof(replacement) - 1);
        else
            *at++ = text->at[i];
    *text = (struct memory_infra_text){into->at, (size_t)(at - into->at)};
    return 1;
}

static int on_key(void *context, const unsigned char *bytes, size_t length)
{
    struct memory_infra_reader *reader = context;
    struct memory_infra_text key = {(const char *)bytes, length};
    reader->quiet = 0;
    if (reader->skipped > 0)
        return 1;
    enum place place = place_here(reader);
    const struct way *way = find_way(place_rules[place].ways, key);
    reader->way = way;
    if (reader->in_event && reader->event.spoilt && place != PLACE_EVENT)
        reader->way = NULL;
    if (way->key != NULL || (way->place == PLACE_NONE && way->field == FIELD_NONE))
        return 1;
    return replace_zeros(reader, &key) &&
           reader_keep(reader, &reader->keys[reader->depth - 1], key);
}

static int on_begin(struct memory_infra_reader *reader, bool list)
{
    reader->quiet = 0;
    if (reader->depth + reader->skipped >= DEPTH_MAX)
        return reader_stop(reader, -EBADMSG, "objects and lists deeper than %u", DEPTH_MAX);
    if (reader->skipped > 0 || (reader->in_event && reader->event.spoilt)) {
        reader->skipped++;
        return 1;
    }
    const struct way *way = way_here(reader);
    enum place next = way == NULL ? PLACE_NONE : way->place;
    if (reader->depth == 0 && list) {
        next = PLACE_EVENTS;
        reader->bare_list = true;
    }
    if (next == PLACE_NONE || place_rules[next].list != list) {
        /* A column has no key: its place shows that this is wrong. */
        enum place place = place_here(reader);
        bool wrong = next != PLACE_NONE || (way != NULL && way->field >= FIELD_TEXTS) ||
                     (place >= PLACE_COLUMN_NODES && place <= PLACE_COLUMN_SIZES);
        reader->skipped = 1;
        return wrong ? complain_of_kind(reader, list ? "a list" : "an object") : 1;
    }
    reader->places[reader->depth++] = (uint8_t)next;
    reader->way = NULL;
    return reader_enter(reader, next);
}

static int on_end(void *context)
{
    struct memory_infra_reader *reader = context;
    reader->quiet = 0;
    if (reader->skipped > 0) {
        reader->skipped--;
        return 1;
    }
    enum place place = place_here(reader);
    int go_on = 1;
    if (place == PLACE_EVENT || !(reader->in_event && reader->event.spoilt))
        go_on = reader_leave(reader, place);
    reader->depth--;
    reader->way = NULL;
    return go_on;
}

static int on_null(void *context)
{
    return on_value(context, VALUE_NULL, (struct memory_infra_text){"null", 4});
}

static int on_boolean(void *context, int yes)
{
    struct memory_infra_text text = {yes ? "true" : "false", yes ? 4 : 5};
    return on_value(context, VALUE_BOOL, text);
}

static int on_number(void *context, const char *digits, size_t length)
{
    return on_value(context, VALUE_NUMBER, (struct memory_infra_text){digits, length});
}

static int on_text(void *context, const unsigned char *bytes, size_t length)
{
    struct memory_infra_text text = {(const char *)bytes, length};
    return replace_zeros(context, &text) && on_value(context, VALUE_TEXT, text);
}

static int on_object(void *context)
{
    return on_begin(context, false);
}

static int on_list(void *context)
{
    return on_begin(context, true);
}

const yajl_callbacks reader_callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_text,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end,
    .yajl_start_array = on_list,
    .yajl_end_array = on_end,
};
