/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as MemoryInfra's JSON. The reader's reports must not depend on how the bytes are split,
 * events must be in the file, one after the other, and the profile must be consistent: no callsite
 * of a dump has negative figures, and its parts add up.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "profile/import/import.h"
#include "profile/memory_infra/read.h"

/* --- a hash of the reports --- */

struct log {
    uint64_t hash, events, begun;
    size_t length;
};

static void put(struct log *log, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++)
        log->hash = (log->hash ^ at[i]) * UINT64_C(0x100000001b3);
}

static void put_number(struct log *log, uint64_t number)
{
    put(log, &number, sizeof(number));
}

static void put_double(struct log *log, double number)
{
    put(log, &number, sizeof(number));
}

static void put_text(struct log *log, struct memory_infra_text text)
{
    check(text.length == 0 || memchr(text.at, '\0', text.length) == NULL);
    put_number(log, text.length);
    put(log, text.at, text.length);
}

static int on_event_begin(void *context, uint64_t number, uint64_t offset)
{
    struct log *log = context;
    check(number == log->events && log->begun == log->events && offset < log->length);
    log->begun++;
    put_number(log, offset);
    return 0;
}

static int on_event_end(void *context, const struct memory_infra_event *event)
{
    struct log *log = context;
    check(event->number == log->events && event->begin < log->length);
    log->events++;
    put_number(log, event->begin);
    put_text(log, event->name);
    put_text(log, event->phase);
    put_text(log, event->id);
    put_number(log, (uint64_t)event->pid);
    put_number(log, (uint64_t)event->tid);
    put_double(log, isnan(event->ts_us) ? -1 : event->ts_us);
    put_number(log, event->has_dumps);
    put_text(log, event->argument_name);
    put_text(log, event->argument_labels);
    put_number(log, event->spoilt);
    return 0;
}

static int on_problem(void *context, const struct error *problem)
{
    check(problem->code == -EBADMSG && problem->message[0] != '\0');
    put(context, problem->message, strlen(problem->message));
    return 0;
}

static int on_string(void *context, uint64_t id, struct memory_infra_text text)
{
    put_number(context, id);
    put_text(context, text);
    return 0;
}

static int on_node(void *context, const struct memory_infra_node *node)
{
    put_number(context, node->id);
    put_number(context, node->name_sid);
    put_number(context, node->parent);
    put_number(context, node->file_sid);
    put_number(context, node->line);
    return 0;
}

static int on_type(void *context, uint64_t id, uint64_t name_sid)
{
    put_number(context, id);
    put_number(context, name_sid);
    return 0;
}

static int on_heap(void *context, const struct memory_infra_heap *heap)
{
    put_text(context, heap->name);
    for (size_t i = 0; i < heap->count; i++) {
        check(heap->sizes[i] >= 0 && heap->counts[i] >= 0 && isfinite(heap->sizes[i]) &&
              isfinite(heap->counts[i]));
        put_number(context, heap->nodes[i]);
        put_number(context, heap->types[i]);
        put_double(context, heap->sizes[i]);
        put_double(context, heap->counts[i]);
    }
    return 0;
}

static int on_region(void *context, const struct memory_infra_region *region)
{
    put_number(context, region->start);
    put_number(context, region->size);
    put_number(context, region->file_offset);
    put_number(context, region->protection);
    put_text(context, region->file);
    put_text(context, region->build_id);
    put_text(context, region->debug_path);
    put_number(context, region->proportional);
    return 0;
}

static int on_total(void *context, struct memory_infra_text name, double value)
{
    put_text(context, name);
    put_double(context, value);
    return 0;
}

static int on_attribute(void *context, const struct memory_infra_attribute *attribute)
{
    put_text(context, attribute->allocator);
    put_text(context, attribute->name);
    put_text(context, attribute->units);
    put_text(context, attribute->text);
    put_double(context, attribute->value);
    return 0;
}

static int on_metadata(void *context, struct memory_infra_text key, struct memory_infra_text inner,
                       struct memory_infra_text value)
{
    put_text(context, key);
    put_text(context, inner);
    put_text(context, value);
    return 0;
}

static const struct memory_infra_visitor visitor = {
    .event_begin = on_event_begin,
    .event_end = on_event_end,
    .problem = on_problem,
    .string = on_string,
    .node = on_node,
    .type = on_type,
    .heap = on_heap,
    .region = on_region,
    .total = on_total,
    .attribute = on_attribute,
    .metadata = on_metadata,
};

/* Read in pieces of `size` bytes. */
static int read_in_pieces(const uint8_t *bytes, size_t length, size_t size, struct log *log)
{
    struct error error = {0};
    *log = (struct log){.hash = UINT64_C(0xcbf29ce484222325), .length = length};
    struct memory_infra_reader *reader = memory_infra_reader_new(&visitor, log);
    int code = 0;
    for (size_t at = 0; at < length && code == 0; at += size)
        code = memory_infra_reader_feed(reader, bytes + at, length - at < size ? length - at : size,
                                        &error);
    if (code == 0)
        code = memory_infra_reader_end(reader, &error);
    check(code == 0 || error.message[0] != '\0');
    memory_infra_reader_free(reader);
    return code;
}

/* --- the profile --- */

static bool is_near(double one, double other)
{
    return fabs(one - other) <= 1e-6 * (1 + fabs(one) + fabs(other));
}

static void check_sample(const struct profile *profile, const struct profile_sample *sample)
{
    double bytes = 0, count = 0;
    check(sample->callsite < profile->callsite_count);
    check(sample->figures.allocated_bytes >= 0 && sample->figures.allocated_count >= 0);
    check(sample->figures.freed_bytes <= sample->figures.allocated_bytes);
    check(sample->figures.freed_count <= sample->figures.allocated_count);
    for (uint32_t i = 0; i < sample->part_count; i++) {
        check(sample->parts[i].type != NULL && sample->parts[i].context != NULL);
        bytes += sample->parts[i].figures.allocated_bytes;
        count += sample->parts[i].figures.allocated_count;
    }
    check(sample->part_count == 0 || (is_near(bytes, sample->figures.allocated_bytes) &&
                                      is_near(count, sample->figures.allocated_count)));
}

static void check_profile(const struct profile *profile)
{
    for (size_t i = 0; i < profile->callsite_count; i++) {
        check(profile->callsites[i].frame < profile->frame_count);
        check(profile->callsites[i].parent == PROFILE_NONE || profile->callsites[i].parent < i);
    }
    for (size_t i = 0; i < profile->frame_count; i++)
        check(profile->frames[i].mapping == PROFILE_NONE ||
              profile->frames[i].mapping < profile->mapping_count);
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        check(heap->process < profile->process_count && heap->dump_count > 0);
        for (size_t j = 0; j < heap->dump_count; j++) {
            check(j == 0 || heap->dumps[j].order > heap->dumps[j - 1].order);
            for (size_t k = 0; k < heap->dumps[j].sample_count; k++)
                check_sample(profile, heap->dumps[j].samples[k]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct log whole, pieces;
    struct error error = {0};
    int code = read_in_pieces(bytes, length, length + 1, &whole);
    for (size_t size = 1; size <= 7; size += 3) {
        check(read_in_pieces(bytes, length, size, &pieces) == code);
        check(pieces.hash == whole.hash && pieces.events == whole.events);
    }
    if (import_kind_of(bytes, length, true) != IMPORT_MEMORY_INFRA)
        return 0;
    struct profile *profile = import_profile_bytes(bytes, length, NULL, &error);
    check(profile != NULL || error.message[0] != '\0');
    if (profile == NULL)
        return 0;
    check_profile(profile);
    profile_free(profile);
    return 0;
}
