/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `type = otlp`: OpenTelemetry's profiles over HTTP, whose signal is in development: `experimental
 * = yes` says that a later version of the other side may need a later one of ours.
 *
 * A request has one period: a resource with the labels, and four profiles (allocated and live,
 * objects and bytes) that share a dictionary of stacks, locations, functions and strings. Entry 0
 * of each table is empty, because index 0 means "not set".
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "production/sinks/encode_each.h"
#include "production/sinks/kinds.h"
#include "production/sinks/label_choice.h"
#include "profile/rollup.h"
#include "trace/intern.h"
#include "trace/proto_buffer.h"
#include "trace/proto_cursor.h"

/* Numbers of fields in opentelemetry/proto/{profiles/v1development,common/v1,resource/v1}. */
enum {
    DATA_RESOURCE_PROFILES = 1,
    DATA_DICTIONARY = 2,
    RESOURCE_PROFILES_RESOURCE = 1,
    RESOURCE_PROFILES_SCOPE_PROFILES = 2,
    RESOURCE_ATTRIBUTES = 1,
    KEY_VALUE_KEY = 1,
    KEY_VALUE_VALUE = 2,
    ANY_VALUE_STRING = 1,
    SCOPE_PROFILES_SCOPE = 1,
    SCOPE_PROFILES_PROFILES = 2,
    SCOPE_NAME = 1,
    SCOPE_VERSION = 2,
    DICTIONARY_MAPPINGS = 1,
    DICTIONARY_LOCATIONS = 2,
    DICTIONARY_FUNCTIONS = 3,
    DICTIONARY_LINKS = 4,
    DICTIONARY_STRINGS = 5,
    DICTIONARY_ATTRIBUTES = 6,
    DICTIONARY_STACKS = 7,
    MAPPING_START = 1,
    MAPPING_LIMIT = 2,
    MAPPING_OFFSET = 3,
    MAPPING_FILENAME = 4,
    MAPPING_ATTRIBUTES = 5,
    LOCATION_MAPPING = 1,
    LOCATION_ADDRESS = 2,
    LOCATION_LINES = 3,
    LINE_FUNCTION = 1,
    LINE_LINE = 2,
    FUNCTION_NAME = 1,
    FUNCTION_SYSTEM_NAME = 2,
    FUNCTION_FILENAME = 3,
    STACK_LOCATIONS = 1,
    ATTRIBUTE_KEY = 1,
    ATTRIBUTE_VALUE = 2,
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLES = 2,
    PROFILE_TIME = 3,
    PROFILE_DURATION = 4,
    PROFILE_PERIOD_TYPE = 5,
    PROFILE_PERIOD = 6,
    PROFILE_ID = 7,
    VALUE_TYPE_TYPE = 1,
    VALUE_TYPE_UNIT = 2,
    SAMPLE_STACK = 1,
    SAMPLE_VALUES = 4,
    RESPONSE_PARTIAL_SUCCESS = 1,
    PARTIAL_SUCCESS_REJECTED = 1,
};

enum column { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, COLUMNS };
static const char *const column_types[COLUMNS] = {"alloc_objects", "alloc_space", "inuse_objects",
                                                  "inuse_space"};
static const char *const column_units[COLUMNS] = {"count", "bytes", "count", "bytes"};

/* A request under construction. */
struct writer {
    const struct period *period;
    const struct profile *profile;
    struct proto_buffer dictionary;
    struct intern_table strings, functions;
    uint32_t *mappings, *locations; /* index in their table by the profile's index; 0: not yet */
    uint32_t mapping_count, location_count, attribute_count, stack_count;
    struct proto_buffer samples[COLUMNS];
    double sums[COLUMNS];
    int64_t written[COLUMNS];
    bool failed;
};

/* --- the dictionary --- */

static uint64_t put_string(struct writer *writer, const char *text)
{
    bool added;
    uint64_t id = intern_bytes(&writer->strings, text, strlen(text), &added);
    if (added)
        proto_put_string(&writer->dictionary, DICTIONARY_STRINGS, text);
    writer->failed |= id == 0;
    return id == 0 ? 0 : id - 1;
}

static void otlp_put_part(struct proto_buffer *into, uint32_t field, struct proto_buffer *part)
{
    proto_put_bytes(into, field, part->bytes, part->length);
    into->failed |= part->failed;
    proto_buffer_free(part);
}

static void put_nonzero(struct proto_buffer *into, uint32_t field, uint64_t value)
{
    if (value != 0)
        proto_put_uint(into, field, value);
}

/* Put an attribute that holds a build id, and return its index. */
static uint32_t put_build_id(struct writer *writer, const char *build_id)
{
    struct proto_buffer attribute = {0}, value = {0};
    proto_put_string(&value, ANY_VALUE_STRING, build_id);
    proto_put_uint(&attribute, ATTRIBUTE_KEY,
                   put_string(writer, "process.executable.build_id.gnu"));
    otlp_put_part(&attribute, ATTRIBUTE_VALUE, &value);
    otlp_put_part(&writer->dictionary, DICTIONARY_ATTRIBUTES, &attribute);
    return ++writer->attribute_count;
}

static uint32_t put_mapping(struct writer *writer, uint32_t index)
{
    const struct profile_mapping *from = &writer->profile->mappings[index];
    struct profile_place place = profile_place_of(writer->profile, writer->period->heap, index);
    struct proto_buffer mapping = {0}, attributes = {0};
    if (writer->mappings[index] != 0)
        return writer->mappings[index];
    put_nonzero(&mapping, MAPPING_START, place.start);
    put_nonzero(&mapping, MAPPING_LIMIT, place.end);
    put_nonzero(&mapping, MAPPING_OFFSET, from->exact_offset);
    put_nonzero(&mapping, MAPPING_FILENAME, put_string(writer, from->path));
    if (*from->build_id != '\0') {
        proto_put_varint(&attributes, put_build_id(writer, from->build_id));
        otlp_put_part(&mapping, MAPPING_ATTRIBUTES, &attributes);
    }
    otlp_put_part(&writer->dictionary, DICTIONARY_MAPPINGS, &mapping);
    return writer->mappings[index] = ++writer->mapping_count;
}

static uint64_t put_function(struct writer *writer, const struct profile_frame *frame)
{
    char label[PROFILE_LABEL_BYTES];
    const char *name = profile_frame_label(writer->profile, frame, label);
    const uint64_t key[] = {put_string(writer, name), put_string(writer, frame->linkage_name),
                            put_string(writer, frame->source_file)};
    bool added;
    uint64_t id = intern_bytes(&writer->functions, key, sizeof(key), &added);
    writer->failed |= id == 0;
    if (added) {
        struct proto_buffer function = {0};
        put_nonzero(&function, FUNCTION_NAME, key[0]);
        put_nonzero(&function, FUNCTION_SYSTEM_NAME, key[1]);
        put_nonzero(&function, FUNCTION_FILENAME, key[2]);
        otlp_put_part(&writer->dictionary, DICTIONARY_FUNCTIONS, &function);
    }
    return id;
}

static uint32_t put_location(struct writer *writer, uint32_t index)
{
    const struct profile_frame *frame = &writer->profile->frames[index];
    struct proto_buffer location = {0}, line = {0};
    if (writer->locations[index] != 0)
        return writer->locations[index];
    if (frame->mapping != PROFILE_NONE) {
        const struct profile_mapping *mapping = &writer->profile->mappings[frame->mapping];
        uint64_t start =
            profile_place_of(writer->profile, writer->period->heap, frame->mapping).start;
        proto_put_uint(&location, LOCATION_MAPPING, put_mapping(writer, frame->mapping));
        put_nonzero(&location, LOCATION_ADDRESS,
                    frame->rel_pc - mapping->exact_offset - mapping->load_bias + start);
    }
    proto_put_uint(&line, LINE_FUNCTION, put_function(writer, frame));
    put_nonzero(&line, LINE_LINE, frame->line);
    otlp_put_part(&location, LOCATION_LINES, &line);
    otlp_put_part(&writer->dictionary, DICTIONARY_LOCATIONS, &location);
    return writer->locations[index] = ++writer->location_count;
}

/* Put the stack of a callsite, the innermost frame first, and return its index. */
static uint32_t put_stack(struct writer *writer, uint32_t callsite)
{
    const struct profile_callsite *callsites = writer->profile->callsites;
    struct proto_buffer stack = {0}, locations = {0};
    for (uint32_t at = callsite; at != PROFILE_NONE; at = callsites[at].parent)
        proto_put_varint(&locations, put_location(writer, callsites[at].frame));
    otlp_put_part(&stack, STACK_LOCATIONS, &locations);
    otlp_put_part(&writer->dictionary, DICTIONARY_STACKS, &stack);
    return ++writer->stack_count;
}

/* --- samples --- */

/* Return the increase of a column's rounded sum, so that the column's total is rounded once. */
static int64_t round_column(struct writer *writer, enum column column, double value)
{
    writer->sums[column] += value;
    double rounded = floor(writer->sums[column] + 0.5);
    int64_t sum = rounded >= 0x1p62 ? INT64_C(1) << 62 : rounded > 0 ? (int64_t)rounded : 0;
    int64_t grown = sum - writer->written[column];
    writer->written[column] = sum;
    return grown;
}

static void put_sample(struct writer *writer, const struct profile_sample *sample)
{
    const struct trace_figures *figures = &sample->figures;
    const double values[COLUMNS] = {figures->allocated_count, figures->allocated_bytes,
                                    fmax(rollup_live_count(figures), 0),
                                    fmax(rollup_live_bytes(figures), 0)};
    uint32_t stack = 0;
    for (enum column i = 0; i < COLUMNS; i++) {
        struct proto_buffer message = {0}, packed = {0};
        int64_t value = round_column(writer, i, values[i]);
        if (value == 0)
            continue;
        if (stack == 0)
            stack = put_stack(writer, sample->callsite);
        proto_put_uint(&message, SAMPLE_STACK, stack);
        proto_put_varint(&packed, (uint64_t)value);
        otlp_put_part(&message, SAMPLE_VALUES, &packed);
        otlp_put_part(&writer->samples[i], PROFILE_SAMPLES, &message);
    }
}

static void put_type(struct writer *writer, struct proto_buffer *profile, uint32_t field,
                     const char *type, const char *unit)
{
    struct proto_buffer message = {0};
    proto_put_uint(&message, VALUE_TYPE_TYPE, put_string(writer, type));
    proto_put_uint(&message, VALUE_TYPE_UNIT, put_string(writer, unit));
    otlp_put_part(profile, field, &message);
}

static void put_fixed64(struct proto_buffer *into, uint32_t field, uint64_t value)
{
    uint8_t bytes[9] = {(uint8_t)(field << 3 | 1)};
    for (int i = 0; i < 8; i++)
        bytes[1 + i] = (uint8_t)(value >> 8 * i);
    proto_put_raw(into, bytes, sizeof(bytes));
}

static void put_profile(struct writer *writer, struct proto_buffer *scope_profiles,
                        enum column column)
{
    const struct period *period = writer->period;
    struct proto_buffer *samples = &writer->samples[column], profile = {0};
    uint8_t id[16];
    put_type(writer, &profile, PROFILE_SAMPLE_TYPE, column_types[column], column_units[column]);
    proto_put_raw(&profile, samples->bytes, samples->length);
    profile.failed |= samples->failed;
    put_fixed64(&profile, PROFILE_TIME, (uint64_t)period->start_ns);
    if (period->end_ns > period->start_ns)
        proto_put_uint(&profile, PROFILE_DURATION, (uint64_t)(period->end_ns - period->start_ns));
    put_type(writer, &profile, PROFILE_PERIOD_TYPE, "space", "bytes");
    put_nonzero(&profile, PROFILE_PERIOD, period->interval_bytes);
    if (getrandom(id, sizeof(id), 0) == sizeof(id))
        proto_put_bytes(&profile, PROFILE_ID, id, sizeof(id));
    otlp_put_part(scope_profiles, SCOPE_PROFILES_PROFILES, &profile);
}

/* --- the request --- */

static void put_attribute(struct proto_buffer *resource, const char *key, const char *text)
{
    struct proto_buffer pair = {0}, value = {0};
    proto_put_string(&value, ANY_VALUE_STRING, text);
    proto_put_string(&pair, KEY_VALUE_KEY, key);
    otlp_put_part(&pair, KEY_VALUE_VALUE, &value);
    otlp_put_part(resource, RESOURCE_ATTRIBUTES, &pair);
}

/* Return OpenTelemetry's name of a label. */
static const char *attribute_of(const char *label)
{
    static const char *const names[][2] = {
        {"service_name", "service.name"}, {"version", "service.version"}, {"host", "host.name"},
        {"container", "container.id"},    {"pid", "process.pid"},         {"user", "process.owner"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(label, names[i][0]) == 0)
            return names[i][1];
    }
    return label;
}

static void put_resource(const struct writer *writer, const struct label_choice *choice,
                         struct proto_buffer *resource_profiles)
{
    struct proto_buffer resource = {0};
    char value[LABEL_CHOICE_VALUE_BYTES_MAX + 1];
    for (size_t i = 0; i < writer->period->label_count; i++) {
        const struct period_label *label = &writer->period->labels[i];
        if (label_choice_keeps(choice, label))
            put_attribute(&resource, attribute_of(label->name), label_choice_value(label, value));
    }
    otlp_put_part(resource_profiles, RESOURCE_PROFILES_RESOURCE, &resource);
}

static void put_scope(struct proto_buffer *scope_profiles)
{
    struct proto_buffer scope = {0};
    proto_put_string(&scope, SCOPE_NAME, "heapprofd");
    proto_put_string(&scope, SCOPE_VERSION, HEAPPROFD_VERSION);
    otlp_put_part(scope_profiles, SCOPE_PROFILES_SCOPE, &scope);
}

static void put_request(struct writer *writer, const struct label_choice *choice,
                        struct proto_buffer *request)
{
    static const uint32_t tables[] = {DICTIONARY_MAPPINGS,   DICTIONARY_LOCATIONS,
                                      DICTIONARY_FUNCTIONS,  DICTIONARY_LINKS,
                                      DICTIONARY_ATTRIBUTES, DICTIONARY_STACKS};
    const struct profile_dump *dump = writer->period->dump;
    struct proto_buffer resource_profiles = {0}, scope_profiles = {0};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        proto_put_bytes(&writer->dictionary, tables[i], "", 0);
    put_string(writer, "");
    for (size_t i = 0; i < dump->sample_count; i++)
        put_sample(writer, dump->samples[i]);
    put_resource(writer, choice, &resource_profiles);
    put_scope(&scope_profiles);
    for (enum column i = 0; i < COLUMNS; i++)
        put_profile(writer, &scope_profiles, i);
    otlp_put_part(&resource_profiles, RESOURCE_PROFILES_SCOPE_PROFILES, &scope_profiles);
    otlp_put_part(request, DATA_RESOURCE_PROFILES, &resource_profiles);
    proto_put_bytes(request, DATA_DICTIONARY, writer->dictionary.bytes, writer->dictionary.length);
    writer->failed |= request->failed || writer->dictionary.failed;
}

static int put_period(void *state, const struct period *period, const struct sink_output *output,
                      struct error *error)
{
    struct writer writer = {.period = period, .profile = period->profile};
    struct proto_buffer request = {0};
    writer.mappings = calloc(period->profile->mapping_count + 1, sizeof(*writer.mappings));
    writer.locations = calloc(period->profile->frame_count + 1, sizeof(*writer.locations));
    if (writer.mappings != NULL && writer.locations != NULL)
        put_request(&writer, state, &request);
    else
        writer.failed = true;
    const struct sink_message message = {.target = "/v1development/profiles",
                                         .content_type = "application/x-protobuf",
                                         .content_encoding = "",
                                         .body = request.bytes,
                                         .length = request.length,
                                         .periods = 1};
    int code = writer.failed ? error_set(error, -ENOMEM, "no memory for a request")
                             : output->put(output->context, &message, error);
    proto_buffer_free(&request);
    proto_buffer_free(&writer.dictionary);
    for (int i = 0; i < COLUMNS; i++)
        proto_buffer_free(&writer.samples[i]);
    intern_free(&writer.strings);
    intern_free(&writer.functions);
    free(writer.mappings);
    free(writer.locations);
    return code;
}

static int otlp_encode(void *state, const struct period *periods, size_t count,
                       const struct sink_output *output, struct error *error)
{
    return encode_each(state, periods, count, output, error, put_period);
}

static void *otlp_open(struct settings_section *section, struct error *error)
{
    bool experimental = false;
    if (setting_bool(section, "experimental", &experimental, error) < 0)
        return NULL;
    if (experimental)
        return label_choice_open(section, error);
    setting_refuse(section, "experimental", error,
                   "OpenTelemetry's profiles are in development, so a sink for them needs "
                   "experimental = yes");
    return NULL;
}

/* Return the number of profiles that an answer says were rejected; 0: it says nothing. */
static uint64_t rejected_by(const char *answer, size_t length)
{
    struct proto_span span = {(const uint8_t *)answer, (const uint8_t *)answer + length};
    struct proto_field field;
    uint64_t rejected = 0;
    while (proto_next(&span, &field) == 1) {
        struct proto_span partial = field.span;
        struct proto_field inner;
        if (field.number != RESPONSE_PARTIAL_SUCCESS || field.type != PROTO_BYTES)
            continue;
        while (proto_next(&partial, &inner) == 1) {
            if (inner.number == PARTIAL_SUCCESS_REJECTED && inner.type == PROTO_VARINT)
                rejected = inner.value;
        }
    }
    return rejected;
}

/* As the protocol says: of all failures only these are temporary. A wrong token or path (401, 403,
 * 404) is not the message's fault. */
static enum sink_verdict otlp_judge(void *state, long status, const char *answer, size_t length)
{
    (void)state;
    if (status >= 200 && status < 300)
        return rejected_by(answer, length) > 0 ? SINK_REFUSED : SINK_TAKEN;
    return status == 400 || status == 413 || status == 415 || status == 422 ? SINK_REFUSED
                                                                            : SINK_AGAIN;
}

const struct sink_kind sink_otlp = {
    .name = "otlp",
    .open = otlp_open,
    .close = label_choice_close,
    .encode = otlp_encode,
    .judge = otlp_judge,
    .compressions = SINK_GZIP | SINK_ZSTD,
};
