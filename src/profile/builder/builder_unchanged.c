/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reuse unchanged samples. Most samples of a dump have the same bytes as in the previous dump. They
 * are not read again: the dump gets the sample that the same bytes of the same callstack produced
 * before.
 *
 * Bytes are kept only for heaps whose samples were found to be steady, so a trace with one dump has
 * no cost. Bytes mean the same as long as their ids do: code that changes the meaning of an id
 * calls builder_forget_unchanged() first. At most one message is kept per callstack.
 */
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_sequence.h"
#include "util/array.h"

/* Limit of kept bytes of a sample: only samples of many threads are longer, and they are few. */
#define KEPT_BYTES_MAX 1024u

/* Numbers grow from dump to dump, and so do their encodings. */
#define ROOM_TO_GROW 8u

static int reserve_seen(struct builder *builder, struct builder_sequence *sequence, uint32_t index)
{
    size_t count = sequence->seen_count, wanted = sequence->callstack_count;
    if (index < count)
        return 0;
    wanted += wanted / 4;
    struct sequence_seen *grown = reallocarray(sequence->seen, wanted, sizeof(*grown));
    if (grown == NULL)
        return builder_fail(builder);
    memset(grown + count, 0, (wanted - count) * sizeof(*grown));
    sequence->seen = grown;
    sequence->seen_count = wanted;
    return 0;
}

/* Keep the bytes of a sample. Places of earlier generations are free again. */
static int keep_bytes(struct builder *builder, struct builder_sequence *sequence,
                      struct sequence_seen *seen, struct proto_span entry)
{
    size_t length = proto_length(entry), room = length + ROOM_TO_GROW;
    bool fits = seen->generation == sequence->generation && length <= seen->room;
    if (!fits) {
        if (ARRAY_RESERVE(&sequence->seen_bytes, &sequence->seen_byte_capacity,
                          sequence->seen_byte_count, room) < 0)
            return builder_fail(builder);
        seen->first_byte = sequence->seen_byte_count;
        seen->room = (uint32_t)room;
        sequence->seen_byte_count += room;
    }
    memcpy(sequence->seen_bytes + seen->first_byte, entry.at, length);
    seen->byte_count = (uint32_t)length;
    seen->sample = NULL;
    seen->generation = sequence->generation;
    return 0;
}

static bool is_unchanged(const struct builder_sequence *sequence, const struct sequence_seen *seen,
                         struct proto_span entry)
{
    return seen->sample != NULL && seen->generation == sequence->generation &&
           seen->byte_count == proto_length(entry) &&
           memcmp(sequence->seen_bytes + seen->first_byte, entry.at, seen->byte_count) == 0;
}

int builder_take_unchanged(struct builder *builder, struct builder_sequence *sequence,
                           struct pending_dump *dump, struct proto_span entry,
                           struct pending_origin *origin)
{
    struct proto_span rest = entry;
    struct proto_field field;
    if (!dump->steady || proto_length(entry) > KEPT_BYTES_MAX || proto_next(&rest, &field) <= 0 ||
        field.number != PB_PROFILE_PACKET_HEAP_SAMPLE_CALLSTACK_ID || field.type != PROTO_VARINT)
        return 0;
    uint32_t index = id_map_find(&sequence->callstacks, field.value);
    if (index == ID_MAP_NONE)
        return 0;
    if (reserve_seen(builder, sequence, index) < 0)
        return builder->error;
    struct sequence_seen *seen = &sequence->seen[index];
    bool unchanged = is_unchanged(sequence, seen, entry);
    uint32_t commit = sequence->commits + 1;
    /* A sample that waits for its dump needs its own bytes. */
    if (!unchanged && seen->awaited == commit && seen->generation == sequence->generation)
        return 0;
    if (!unchanged && keep_bytes(builder, sequence, seen, entry) < 0)
        return builder->error;
    *origin = (struct pending_origin){
        .callstack = field.value,
        .known = unchanged ? seen->sample : NULL,
        .kept = index + 1,
        .generation = sequence->generation,
    };
    seen->awaited = commit;
    if (!unchanged)
        return 0;
    dump->known_count++;
    return builder_put_sample(builder, dump, origin, NULL) < 0 ? builder->error : 1;
}

void builder_keep_unchanged(struct builder_sequence *sequence, const struct pending_origin *origin,
                            const struct profile_sample *sample)
{
    if (origin->kept != 0 && origin->generation == sequence->generation)
        sequence->seen[origin->kept - 1].sample = sample;
}

/* Read a sample from its kept bytes. They were read before and have not changed since. */
static void read_from_bytes(struct builder *builder, const struct builder_sequence *sequence,
                            struct pending_dump *dump, size_t index)
{
    struct pending_origin *origin = &dump->origins[index];
    const struct sequence_seen *seen = &sequence->seen[origin->kept - 1];
    const uint8_t *bytes = sequence->seen_bytes + seen->first_byte;
    struct proto_span entry = {bytes, bytes + seen->byte_count};
    enum builder_sample_kind kind;
    origin->part_first = dump->part_count;
    origin->known = NULL;
    dump->known_count--;
    builder_read_sample(builder, dump, entry, &dump->samples[index], origin, &kind);
}

void builder_forget_unchanged(struct builder *builder, struct builder_sequence *sequence)
{
    /* Nothing was kept since the last call: a trace may redefine ids millions of times. */
    if (sequence->seen_byte_count == 0)
        return;
    for (size_t i = 0; i < sequence->pending_count; i++) {
        struct pending_dump *dump = &sequence->pending[i];
        for (size_t j = 0; j < dump->sample_count && dump->known_count > 0; j++)
            if (dump->origins[j].known != NULL)
                read_from_bytes(builder, sequence, dump, j);
    }
    sequence->seen_byte_count = 0;
    sequence->generation++;
}
