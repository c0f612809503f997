/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a whole pprof file into memory and indexes its messages by id. */
#include "profile/import/pprof_file.h"

#include <stdlib.h>

#include "pprof_field_numbers.h"
#include "util/array.h"

#define READ_BYTES (1u << 16)
/* Number of bytes between checks of the memory. */
#define BOUND_FIELDS 65536u

/* Make room for one more item and return its index, or -ENOMEM; `name` is its array. */
#define MORE(file, name)                                                                           \
    ARRAY_RESERVE(&(file)->name##s, &(file)->name##_capacity, (file)->name##_count, 1)

void pprof_file_free(struct pprof_file *file)
{
    free(file->bytes);
    free(file->strings);
    free(file->mappings);
    free(file->functions);
    free(file->locations);
    free(file->types);
    free(file->comments);
    id_map_free(&file->mapping_ids);
    id_map_free(&file->function_ids);
    id_map_free(&file->location_ids);
}

struct proto_span pprof_file_string(const struct pprof_file *file, uint64_t index)
{
    return index < file->string_count ? file->strings[index] : (struct proto_span){0};
}

static const struct proto_member mapping_members[] = {
    PROTO_MEMBER(PPROF_MAPPING_ID, struct pprof_mapping, id),
    PROTO_MEMBER(PPROF_MAPPING_MEMORY_START, struct pprof_mapping, start),
    PROTO_MEMBER(PPROF_MAPPING_MEMORY_LIMIT, struct pprof_mapping, limit),
    PROTO_MEMBER(PPROF_MAPPING_FILE_OFFSET, struct pprof_mapping, offset),
    PROTO_MEMBER(PPROF_MAPPING_FILENAME, struct pprof_mapping, file),
    PROTO_MEMBER(PPROF_MAPPING_BUILD_ID, struct pprof_mapping, build_id),
};
static const struct proto_member function_members[] = {
    PROTO_MEMBER(PPROF_FUNCTION_ID, struct pprof_function, id),
    PROTO_MEMBER(PPROF_FUNCTION_NAME, struct pprof_function, name),
    PROTO_MEMBER(PPROF_FUNCTION_SYSTEM_NAME, struct pprof_function, system_name),
    PROTO_MEMBER(PPROF_FUNCTION_FILENAME, struct pprof_function, file),
};
static const struct proto_member location_members[] = {
    PROTO_MEMBER(PPROF_LOCATION_ID, struct pprof_location, id),
    PROTO_MEMBER(PPROF_LOCATION_MAPPING_ID, struct pprof_location, mapping),
    PROTO_MEMBER(PPROF_LOCATION_ADDRESS, struct pprof_location, address),
};
static const struct proto_member type_members[] = {
    PROTO_MEMBER(PPROF_VALUE_TYPE_TYPE, struct pprof_value_type, type),
    PROTO_MEMBER(PPROF_VALUE_TYPE_UNIT, struct pprof_value_type, unit),
};

static const struct proto_member earlier_members[] = {
    PROTO_MEMBER(PPROF_EARLIER_EXACT_BYTES, struct pprof_earlier, earlier.exact_bytes),
    PROTO_MEMBER(PPROF_EARLIER_EXACT_CALLS, struct pprof_earlier, earlier.exact_calls),
    PROTO_MEMBER(PPROF_EARLIER_SAMPLES, struct pprof_earlier, earlier.sampled.samples),
    PROTO_MEMBER(PPROF_EARLIER_BYTES, struct pprof_earlier, earlier.sampled.allocated_bytes),
    PROTO_MEMBER(PPROF_EARLIER_COUNT, struct pprof_earlier, earlier.sampled.allocated_count),
    PROTO_MEMBER(PPROF_EARLIER_BYTES_VARIANCE, struct pprof_earlier,
                 earlier.sampled.allocated_bytes_variance),
    PROTO_MEMBER(PPROF_EARLIER_COUNT_VARIANCE, struct pprof_earlier,
                 earlier.sampled.allocated_count_variance),
    PROTO_MEMBER(PPROF_EARLIER_UNKNOWN, struct pprof_earlier, earlier.unknown),
    PROTO_MEMBER(PPROF_EARLIER_SAMPLED_BYTES, struct pprof_earlier, earlier.sampled_bytes),
    PROTO_MEMBER(PPROF_EARLIER_SAMPLED_CALLS, struct pprof_earlier, earlier.sampled_calls),
    PROTO_MEMBER(PPROF_EARLIER_PERIOD_SAMPLED_BYTES, struct pprof_earlier, period_sampled_bytes),
    PROTO_MEMBER(PPROF_EARLIER_PERIOD_SAMPLED_CALLS, struct pprof_earlier, period_sampled_calls),
};

static int take_mapping(struct pprof_file *file, struct proto_span span)
{
    struct pprof_mapping mapping = {0};
    if (proto_read_members(PROTO_MEMBERS(mapping_members), span, &mapping) < 0)
        return -EBADMSG;
    if (MORE(file, mapping) < 0 ||
        id_map_set(&file->mapping_ids, mapping.id, (uint32_t)file->mapping_count) < 0)
        return -ENOMEM;
    file->mappings[file->mapping_count++] = mapping;
    return 0;
}

static int take_function(struct pprof_file *file, struct proto_span span)
{
    struct pprof_function function = {0};
    if (proto_read_members(PROTO_MEMBERS(function_members), span, &function) < 0)
        return -EBADMSG;
    if (MORE(file, function) < 0 ||
        id_map_set(&file->function_ids, function.id, (uint32_t)file->function_count) < 0)
        return -ENOMEM;
    file->functions[file->function_count++] = function;
    return 0;
}

static int take_location(struct pprof_file *file, struct proto_span span)
{
    struct pprof_location location = {.message = span};
    if (proto_read_members(PROTO_MEMBERS(location_members), span, &location) < 0)
        return -EBADMSG;
    if (MORE(file, location) < 0 ||
        id_map_set(&file->location_ids, location.id, (uint32_t)file->location_count) < 0)
        return -ENOMEM;
    file->locations[file->location_count++] = location;
    return 0;
}

static int take_type(struct pprof_file *file, struct proto_span span)
{
    struct pprof_value_type type = {0};
    if (proto_read_members(PROTO_MEMBERS(type_members), span, &type) < 0)
        return -EBADMSG;
    if (MORE(file, type) < 0)
        return -ENOMEM;
    file->types[file->type_count++] = type;
    return 0;
}

static int take_string(struct pprof_file *file, struct proto_span span)
{
    if (MORE(file, string) < 0)
        return -ENOMEM;
    file->strings[file->string_count++] = span;
    return 0;
}

static int take_comment(struct pprof_file *file, uint64_t string)
{
    if (MORE(file, comment) < 0)
        return -ENOMEM;
    file->comments[file->comment_count++] = string;
    return 0;
}

static int take_comments(struct pprof_file *file, const struct proto_field *field)
{
    struct proto_span span = field->span;
    uint64_t value;
    if (field->type == PROTO_VARINT)
        return take_comment(file, field->value);
    while (span.at < span.end) {
        if (!proto_read_varint(&span, &value))
            return -EBADMSG;
        if (take_comment(file, value) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int take_field(struct pprof_file *file, const struct proto_field *field)
{
    bool message = field->type == PROTO_BYTES;
    switch (field->number) {
    case PPROF_PROFILE_SAMPLE_TYPE:
        return message ? take_type(file, field->span) : -EBADMSG;
    case PPROF_PROFILE_MAPPING:
        return message ? take_mapping(file, field->span) : -EBADMSG;
    case PPROF_PROFILE_LOCATION:
        return message ? take_location(file, field->span) : -EBADMSG;
    case PPROF_PROFILE_FUNCTION:
        return message ? take_function(file, field->span) : -EBADMSG;
    case PPROF_PROFILE_STRING_TABLE:
        return message ? take_string(file, field->span) : -EBADMSG;
    case PPROF_PROFILE_COMMENT:
        return take_comments(file, field);
    case PPROF_PROFILE_PERIOD_TYPE:
        return message && proto_read_members(PROTO_MEMBERS(type_members), field->span,
                                             &file->period_type) == 0
                   ? 0
                   : -EBADMSG;
    case PPROF_PROFILE_EARLIER:
        file->is_of_period = true;
        return message && proto_read_members(PROTO_MEMBERS(earlier_members), field->span,
                                             &file->earlier) == 0
                   ? 0
                   : -EBADMSG;
    case PPROF_PROFILE_DROP_FRAMES:
        file->drop_frames = field->value;
        break;
    case PPROF_PROFILE_KEEP_FRAMES:
        file->keep_frames = field->value;
        break;
    case PPROF_PROFILE_DEFAULT_SAMPLE_TYPE:
        file->default_type = field->value;
        break;
    case PPROF_PROFILE_PERIOD:
        file->period = field->value;
        break;
    case PPROF_PROFILE_TIME_NANOS:
        file->time_nanos = field->value;
        break;
    case PPROF_PROFILE_DURATION_NANOS:
        file->duration_nanos = field->value;
        break;
    }
    return 0;
}

static int read_bytes(struct pprof_file *file, struct trace_source *source, struct error *error)
{
    size_t capacity = 0;
    ssize_t got;
    do {
        if (file->length > PPROF_BYTES_MAX)
            return error_set(error, -E2BIG, "a pprof file of more than %llu MiB, unpacked",
                             (unsigned long long)PPROF_BYTES_MAX >> 20);
        if (file->length == capacity &&
            ARRAY_RESERVE(&file->bytes, &capacity, file->length, READ_BYTES) < 0)
            return error_set(error, -ENOMEM, "no memory to read the pprof file");
        got = trace_source_read(source, file->bytes + file->length, capacity - file->length, error);
        if (got < 0)
            return (int)got;
        file->length += (size_t)got;
    } while (got > 0);
    return 0;
}

int pprof_file_read(struct pprof_file *file, struct trace_source *source, struct error *error)
{
    struct proto_field field;
    int status, code = read_bytes(file, source, error);
    if (code < 0)
        return code;
    struct proto_span span = {file->bytes, file->bytes + file->length};
    for (size_t fields = 1;; fields++) {
        if (fields % BOUND_FIELDS == 0 && trace_source_check(source, error) < 0)
            return -EFBIG;
        size_t offset = (size_t)(span.at - file->bytes);
        status = proto_next(&span, &field);
        if (status == 0)
            return 0;
        code = status < 0 ? -EBADMSG : take_field(file, &field);
        if (code == -ENOMEM)
            return error_set(error, code, "no memory to read the pprof file");
        if (code < 0)
            return error_set(error, code, "the pprof file is damaged at offset %zu: %s", offset,
                             status < 0 ? "not a protobuf field, or cut off"
                                        : "a malformed message");
    }
}
