/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turn values of the JSON into calls of the visitor. An invalid number that figures depend on
 * spoils its event; other malformed values (regions, totals, attributes) are left out with a
 * problem.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/read_private.h"
#include "profile/profile.h"
#include "util/array.h"
#include "util/hex.h"

#define NUMBER_CHARS_MAX 100u

#define VISIT(reader, call, ...)                                                                   \
    ((reader)->visitor->call == NULL                                                               \
         ? 1                                                                                       \
         : reader_answer(reader, (reader)->visitor->call((reader)->context, __VA_ARGS__)))

/* --- numbers: JSON numbers, and hexadecimal texts --- */

/* At most 19 digits and nothing else. */
static bool read_digits(struct memory_infra_text text, uint64_t *value)
{
    uint64_t result = 0;
    if (text.length == 0 || text.length > 19)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        unsigned digit = (unsigned char)text.at[i] - '0';
        if (digit > 9)
            return false;
        result = result * 10 + digit;
    }
    *value = result;
    return true;
}

static bool read_double(struct memory_infra_text text, double *value)
{
    char copy[NUMBER_CHARS_MAX + 1];
    uint64_t whole;
    if (text.length <= 15 && read_digits(text, &whole)) {
        *value = (double)whole;
        return true;
    }
    if (text.length == 0 || text.length > NUMBER_CHARS_MAX)
        return false;
    memcpy(copy, text.at, text.length);
    copy[text.length] = '\0';
    char *end;
    *value = strtod(copy, &end);
    return end == copy + text.length && isfinite(*value);
}

/* Read a whole number that is not negative, also 1e3 and 1.0. */
static bool read_whole(struct memory_infra_text text, uint64_t *value)
{
    double number;
    if (read_digits(text, value))
        return true;
    if (!read_double(text, &number) || !(number >= 0) || number >= 0x1p63 ||
        number != floor(number))
        return false;
    *value = (uint64_t)number;
    return true;
}

/* Read 1 to 16 hexadecimal digits from `at` on, and nothing else. */
static bool read_hex_digits(struct memory_infra_text text, size_t at, uint64_t *value)
{
    uint64_t result = 0;
    if (text.length <= at || text.length - at > 16)
        return false;
    for (; at < text.length; at++) {
        unsigned digit = hex_digit(text.at[at]);
        if (digit > 15)
            return false;
        result = result << 4 | digit;
    }
    *value = result;
    return true;
}

static bool read_hex(struct memory_infra_text text, uint64_t *value)
{
    bool prefixed = text.length > 2 && text.at[0] == '0' && (text.at[1] | 0x20) == 'x';
    return read_hex_digits(text, prefixed ? 2 : 0, value);
}

bool memory_infra_read_pc(struct memory_infra_text name, uint64_t *address)
{
    return name.length > 3 && memcmp(name.at, "pc:", 3) == 0 && read_hex_digits(name, 3, address);
}

/* Read hexadecimal text as in the format; a JSON number is taken unchanged. */
static bool read_hexadecimal(const struct value *value, uint64_t *number)
{
    return value->kind == VALUE_TEXT     ? read_hex(value->text, number)
           : value->kind == VALUE_NUMBER ? read_whole(value->text, number)
                                         : false;
}

/* --- places --- */

static int shown_length(struct memory_infra_text text)
{
    return text.length < 60 ? (int)text.length : 60;
}

/* "size" is "1f4", ... */
static int complain_of_value(struct memory_infra_reader *reader, bool spoils, const char *name,
                             const struct value *value, const char *wanted)
{
    const char *quote = value->kind == VALUE_TEXT ? "\"" : "";
    return reader_complain(reader, spoils, "\"%.60s\" is %s%.*s%s, not %s", name, quote,
                           shown_length(value->text), value->text.at, quote, wanted);
}

static struct memory_infra_text kept(const struct kept_text *kept_text)
{
    return (struct memory_infra_text){kept_text->length == 0 ? "" : kept_text->at,
                                      kept_text->length};
}

static struct memory_infra_text text_of(const struct memory_infra_reader *reader, enum field field)
{
    return reader->present[field] ? kept(&reader->texts[field]) : (struct memory_infra_text){"", 0};
}

/* Return the key that leads out of the place this many levels up; 0: this one. */
static struct memory_infra_text key_above(const struct memory_infra_reader *reader, unsigned levels)
{
    return kept(&reader->keys[reader->depth - 1 - levels]);
}

static void forget(struct memory_infra_reader *reader, enum field first, enum field last)
{
    memset(reader->present + first, 0, (last - first + 1) * sizeof(*reader->present));
}

static int enter_event(struct memory_infra_reader *reader)
{
    forget(reader, FIELD_EVENT_NAME, FIELD_ARGUMENT_LABELS);
    forget(reader, FIELD_PID, FIELD_TS);
    reader->event = (struct memory_infra_event){
        .number = reader->event_count++,
        .begin = reader_offset(reader) - 1,
        .pid = INT64_MIN,
        .tid = INT64_MIN,
        .ts_us = NAN,
    };
    reader->in_event = true;
    return VISIT(reader, event_begin, reader->event.number, reader->event.begin);
}

int reader_enter(struct memory_infra_reader *reader, enum place place)
{
    switch (place) {
    case PLACE_EVENTS:
        reader->has_events = true;
        break;
    case PLACE_EVENT:
        return enter_event(reader);
    case PLACE_DUMPS:
        reader->event.has_dumps = true;
        reader->has_old_heaps = reader->present[FIELD_VERSION] = false;
        break;
    case PLACE_OLD_HEAPS:
        reader->has_old_heaps = true;
        break;
    case PLACE_HEAPS_V2:
        forget(reader, FIELD_VERSION, FIELD_VERSION);
        break;
    case PLACE_STRING:
        forget(reader, FIELD_ID, FIELD_ID);
        forget(reader, FIELD_STRING, FIELD_REAL_NAME);
        break;
    case PLACE_NODE:
    case PLACE_TYPE:
        forget(reader, FIELD_ID, FIELD_LINE);
        break;
    case PLACE_HEAP:
        reader->heap_begin = reader_offset(reader) - 1;
        for (size_t i = 0; i < 4; i++)
            reader->columns[i].count = 0;
        break;
    case PLACE_REGION:
        forget(reader, FIELD_PROTECTION, FIELD_SWAPPED);
        forget(reader, FIELD_REGION_FILE, FIELD_REGION_DEBUG_PATH);
        break;
    case PLACE_ATTRIBUTE:
        forget(reader, FIELD_ATTRIBUTE_TYPE, FIELD_ATTRIBUTE_VALUE);
        break;
    default:
        break;
    }
    return 1;
}

static int leave_event(struct memory_infra_reader *reader)
{
    struct memory_infra_event *event = &reader->event;
    event->name = text_of(reader, FIELD_EVENT_NAME);
    event->phase = text_of(reader, FIELD_EVENT_PHASE);
    event->id = text_of(reader, FIELD_EVENT_ID);
    event->argument_name = text_of(reader, FIELD_ARGUMENT_NAME);
    event->argument_labels = text_of(reader, FIELD_ARGUMENT_LABELS);
    int go_on = VISIT(reader, event_end, event);
    reader->in_event = false;
    return go_on;
}

/* An event with both kinds of heaps has the same figures in both. */
static int leave_dumps(struct memory_infra_reader *reader)
{
    if (!reader->has_old_heaps || reader->present[FIELD_VERSION])
        return 1;
    return reader_complain(reader, false,
                           "its heaps are in the format of Chrome before version 59 "
                           "(stackFrames), which is not read: Catapult's trace2html shows them");
}

/* Check the required members of an entry of the maps. */
static int complain_of_lack(struct memory_infra_reader *reader, const char *what)
{
    return reader_complain(reader, true, "%s without %s", what,
                           reader->present[FIELD_ID] ? "a name (string, or name_sid)"
                                                     : "a number for its id");
}

static int leave_string(struct memory_infra_reader *reader)
{
    if (!reader->present[FIELD_ID] || !reader->present[FIELD_STRING])
        return complain_of_lack(reader, "a string");
    /* Without the escapes of frame_name.h. */
    enum field name = reader->present[FIELD_REAL_NAME] ? FIELD_REAL_NAME : FIELD_STRING;
    return VISIT(reader, string, reader->numbers[FIELD_ID], text_of(reader, name));
}

static int leave_node(struct memory_infra_reader *reader)
{
    const uint64_t *numbers = reader->numbers;
    const bool *present = reader->present;
    if (!present[FIELD_ID] || !present[FIELD_NAME_SID])
        return complain_of_lack(reader, "a node");
    struct memory_infra_node node = {
        .id = numbers[FIELD_ID],
        .name_sid = numbers[FIELD_NAME_SID],
        .parent = present[FIELD_PARENT] ? numbers[FIELD_PARENT] : MEMORY_INFRA_NONE,
        .file_sid = present[FIELD_FILE_SID] ? numbers[FIELD_FILE_SID] : MEMORY_INFRA_NONE,
        .line = present[FIELD_LINE] && numbers[FIELD_LINE] <= UINT32_MAX
                    ? (uint32_t)numbers[FIELD_LINE]
                    : 0,
    };
    return VISIT(reader, node, &node);
}

static int leave_type(struct memory_infra_reader *reader)
{
    if (!reader->present[FIELD_ID] || !reader->present[FIELD_NAME_SID])
        return complain_of_lack(reader, "a type");
    return VISIT(reader, type, reader->numbers[FIELD_ID], reader->numbers[FIELD_NAME_SID]);
}

static int leave_heap(struct memory_infra_reader *reader)
{
    const struct column *columns = reader->columns;
    struct memory_infra_heap heap = {
        .name = key_above(reader, 1),
        .begin = reader->heap_begin,
        .nodes = columns[0].ids,
        .types = columns[1].ids,
        .counts = columns[2].values,
        .sizes = columns[3].values,
        .count = columns[0].count,
    };
    for (size_t i = 1; i < 4; i++)
        if (columns[i].count != heap.count)
            return reader_complain(
                reader, true, "the heap %.*s has %zu nodes, %zu types, %zu counts and %zu sizes",
                shown_length(heap.name), heap.name.at, columns[0].count, columns[1].count,
                columns[2].count, columns[3].count);
    return VISIT(reader, heap, &heap);
}

static uint64_t number_of(const struct memory_infra_reader *reader, enum field field)
{
    return reader->present[field] ? reader->numbers[field] : 0;
}

/* The byte counts of a region in the file. */
static uint32_t known_byte_counts(const struct memory_infra_reader *reader)
{
    static const struct {
        enum field field;
        enum profile_smaps_known known;
    } kinds[] = {
        {FIELD_PROPORTIONAL, PROFILE_SMAPS_PROPORTIONAL},
        {FIELD_PRIVATE_DIRTY, PROFILE_SMAPS_PRIVATE_DIRTY},
        {FIELD_PRIVATE_CLEAN, PROFILE_SMAPS_PRIVATE_CLEAN},
        {FIELD_SHARED_DIRTY, PROFILE_SMAPS_SHARED_DIRTY},
        {FIELD_SHARED_CLEAN, PROFILE_SMAPS_SHARED_CLEAN},
        {FIELD_SWAPPED, PROFILE_SMAPS_SWAP},
    };
    uint32_t known = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (reader->present[kinds[i].field])
            known |= kinds[i].known;
    return known;
}

static int leave_region(struct memory_infra_reader *reader)
{
    if (!reader->present[FIELD_REGION_START] || !reader->present[FIELD_REGION_SIZE])
        return reader_complain(reader, false, "a region without a start (sa) or a size (sz)");
    struct memory_infra_text build_id = text_of(reader, FIELD_REGION_BUILD_ID);
    for (size_t i = 0; i < build_id.length; i++) {
        char *c = &reader->texts[FIELD_REGION_BUILD_ID].at[i];
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c | 0x20) : *c;
    }
    struct memory_infra_region region = {
        .start = number_of(reader, FIELD_REGION_START),
        .size = number_of(reader, FIELD_REGION_SIZE),
        .file_offset = number_of(reader, FIELD_REGION_OFFSET),
        .has_file_offset = reader->present[FIELD_REGION_OFFSET],
        .load_bias = number_of(reader, FIELD_REGION_BIAS),
        .protection = (uint32_t)number_of(reader, FIELD_PROTECTION),
        .file = text_of(reader, FIELD_REGION_FILE),
        .build_id = build_id,
        .debug_path = text_of(reader, FIELD_REGION_DEBUG_PATH),
        .timestamp = number_of(reader, FIELD_REGION_TIMESTAMP),
        .proportional = number_of(reader, FIELD_PROPORTIONAL),
        .private_dirty = number_of(reader, FIELD_PRIVATE_DIRTY),
        .private_clean = number_of(reader, FIELD_PRIVATE_CLEAN),
        .shared_dirty = number_of(reader, FIELD_SHARED_DIRTY),
        .shared_clean = number_of(reader, FIELD_SHARED_CLEAN),
        .swapped = number_of(reader, FIELD_SWAPPED),
        .known = known_byte_counts(reader),
    };
    return VISIT(reader, region, &region);
}

static int leave_attribute(struct memory_infra_reader *reader)
{
    struct memory_infra_text type = text_of(reader, FIELD_ATTRIBUTE_TYPE);
    struct memory_infra_attribute attribute = {
        .allocator = key_above(reader, 3),
        .name = key_above(reader, 1),
        .units = text_of(reader, FIELD_ATTRIBUTE_UNITS),
        .scalar = memory_infra_text_is(type, "scalar"),
        .text = text_of(reader, FIELD_ATTRIBUTE_VALUE),
    };
    struct value value = {(enum value_kind)reader->numbers[FIELD_ATTRIBUTE_VALUE], attribute.text};
    uint64_t number;
    if (!reader->present[FIELD_ATTRIBUTE_VALUE])
        return 1;
    if (attribute.scalar && read_hexadecimal(&value, &number))
        attribute.value = (double)number;
    else if (attribute.scalar &&
             (value.kind != VALUE_NUMBER || !read_double(value.text, &attribute.value)))
        return complain_of_value(reader, false, "value", &value, "a hexadecimal number");
    return VISIT(reader, attribute, &attribute);
}

int reader_leave(struct memory_infra_reader *reader, enum place place)
{
    switch (place) {
    case PLACE_EVENT:
        return leave_event(reader);
    case PLACE_DUMPS:
        return leave_dumps(reader);
    case PLACE_HEAPS_V2:
        return reader->present[FIELD_VERSION]
                   ? 1
                   : reader_complain(reader, true,
                                     "heaps_v2 without a version: only 1 is supported");
    case PLACE_STRING:
        return leave_string(reader);
    case PLACE_NODE:
        return leave_node(reader);
    case PLACE_TYPE:
        return leave_type(reader);
    case PLACE_HEAP:
        return leave_heap(reader);
    case PLACE_REGION:
        return leave_region(reader);
    case PLACE_ATTRIBUTE:
        return leave_attribute(reader);
    default:
        return 1;
    }
}

/* --- values --- */

static int take_column(struct memory_infra_reader *reader, enum place place,
                       const struct value *value)
{
    static const char *const names[] = {"nodes", "types", "counts", "sizes"};
    size_t index = place - PLACE_COLUMN_NODES;
    struct column *column = &reader->columns[index];
    if (ARRAY_RESERVE(&column->ids, &column->capacity, column->count, 1) < 0)
        return reader_out_of_memory(reader);
    if (place <= PLACE_COLUMN_TYPES) {
        if (value->kind != VALUE_NUMBER || !read_whole(value->text, &column->ids[column->count]))
            return complain_of_value(reader, true, names[index], value, "the number of an id");
    } else {
        double *into = &column->values[column->count];
        if (value->kind != VALUE_NUMBER || !read_double(value->text, into) || !(*into >= 0))
            return complain_of_value(reader, true, names[index], value,
                                     "a number from 0 on, not a string");
    }
    column->count++;
    return 1;
}

static int take_text(struct memory_infra_reader *reader, const struct way *way,
                     const struct value *value)
{
    enum field field = way->field;
    if (value->kind == VALUE_NULL)
        return 1;
    if (field == FIELD_STRING && value->kind != VALUE_TEXT)
        return complain_of_value(reader, true, way->key, value, "a text");
    reader->numbers[field] = value->kind;
    if (!reader_keep(reader, &reader->texts[field], value->text))
        return 0;
    reader->present[field] = true;
    return 1;
}

/* Return a process or a thread id. INT64_MIN: malformed. */
static int64_t read_pid(const struct value *value)
{
    double number;
    bool is_number = value->kind == VALUE_NUMBER && read_double(value->text, &number);
    return is_number && number >= INT32_MIN && number <= UINT32_MAX && number == floor(number)
               ? (int64_t)number
               : INT64_MIN;
}

static int take_version(struct memory_infra_reader *reader, const struct value *value)
{
    double version;
    if (value->kind != VALUE_NUMBER || !read_double(value->text, &version) || version != 1)
        return reader_complain(reader, true, "heaps_v2 of version %.*s: only 1 is supported",
                               shown_length(value->text), value->text.at);
    reader->present[FIELD_VERSION] = true;
    return 1;
}

static int take_number(struct memory_infra_reader *reader, const struct way *way,
                       const struct value *value)
{
    enum field field = way->field;
    bool needed = field >= FIELD_ID && field <= FIELD_FILE_SID;
    if (value->kind == VALUE_NULL)
        return 1;
    bool hex = field >= FIELD_REGION_START && field <= FIELD_SWAPPED;
    if (hex ? !read_hexadecimal(value, &reader->numbers[field])
            : value->kind != VALUE_NUMBER || !read_whole(value->text, &reader->numbers[field]))
        return complain_of_value(reader, needed, way->key, value,
                                 hex ? "a hexadecimal number" : "a whole number");
    reader->present[field] = true;
    return 1;
}

static int take_total(struct memory_infra_reader *reader, const struct value *value)
{
    uint64_t number = value->kind == VALUE_BOOL && value->text.length == 4;
    char name[61];
    if (value->kind == VALUE_NULL)
        return 1;
    if (value->kind != VALUE_BOOL && !read_hexadecimal(value, &number)) {
        struct memory_infra_text key = key_above(reader, 0);
        snprintf(name, sizeof(name), "%.*s", shown_length(key), key.at);
        return complain_of_value(reader, false, name, value, "a hexadecimal number");
    }
    return VISIT(reader, total, key_above(reader, 0), (double)number);
}

static int take_metadata(struct memory_infra_reader *reader, enum place place,
                         const struct value *value)
{
    struct memory_infra_text none = {"", 0};
    bool inner = place == PLACE_METADATA_INNER;
    return VISIT(reader, metadata, key_above(reader, inner), inner ? key_above(reader, 0) : none,
                 value->text);
}

int reader_value(struct memory_infra_reader *reader, enum place place, const struct way *way,
                 const struct value *value)
{
    if (place >= PLACE_COLUMN_NODES && place <= PLACE_COLUMN_SIZES)
        return take_column(reader, place, value);
    if (way->field < FIELD_TEXTS)
        return take_text(reader, way, value);
    switch (way->field) {
    case FIELD_PID:
        reader->event.pid = read_pid(value);
        return 1;
    case FIELD_TID:
        reader->event.tid = read_pid(value);
        return 1;
    case FIELD_TS:
        if (value->kind != VALUE_NUMBER || !read_double(value->text, &reader->event.ts_us))
            reader->event.ts_us = NAN;
        return 1;
    case FIELD_VERSION:
        return take_version(reader, value);
    case FIELD_TOTAL:
        return take_total(reader, value);
    case FIELD_METADATA:
        return take_metadata(reader, place, value);
    default:
        return take_number(reader, way, value);
    }
}
