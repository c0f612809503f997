/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read SmapsPackets: the mappings of a process's memory and their resident bytes. They are kept as
 * in the trace, without sums.
 */
#include <errno.h>
#include <stdlib.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder.h"
#include "util/array.h"

/* A process has at most 65,530 mappings, unless its system allows more. Beyond this number of rows
 * in total, each row must have taken this many bytes of the file: a list of zeros costs a byte per
 * row. */
#define FREE_ROWS UINT64_C(131072)
#define ROW_BYTES_MIN 8u

#define ENTRY(name) PB_SMAPS_ENTRY_##name
#define MEMBER(name, member) PROTO_MEMBER(ENTRY(name), struct profile_smaps, member)

static const struct proto_member entry_members[] = {
    MEMBER(PATH, path),
    MEMBER(SIZE_KB, size_kb),
    MEMBER(PRIVATE_DIRTY_KB, private_dirty_kb),
    MEMBER(SWAP_KB, swap_kb),
    MEMBER(FILE_NAME, file_name),
    MEMBER(START_ADDRESS, start_address),
    MEMBER(MODULE_TIMESTAMP, module_timestamp),
    MEMBER(MODULE_DEBUGID, module_debugid),
    MEMBER(MODULE_DEBUG_PATH, module_debug_path),
    MEMBER(PROTECTION_FLAGS, protection_flags),
    MEMBER(PRIVATE_CLEAN_RESIDENT_KB, private_clean_resident_kb),
    MEMBER(SHARED_DIRTY_RESIDENT_KB, shared_dirty_resident_kb),
    MEMBER(SHARED_CLEAN_RESIDENT_KB, shared_clean_resident_kb),
    MEMBER(LOCKED_KB, locked_kb),
    MEMBER(PROPORTIONAL_RESIDENT_KB, proportional_resident_kb),
};

/* By field number: the figure that is known if the field is there. */
static const enum profile_smaps_known known_by[] = {
    [ENTRY(PRIVATE_DIRTY_KB)] = PROFILE_SMAPS_PRIVATE_DIRTY,
    [ENTRY(SWAP_KB)] = PROFILE_SMAPS_SWAP,
    [ENTRY(START_ADDRESS)] = PROFILE_SMAPS_START,
    [ENTRY(PRIVATE_CLEAN_RESIDENT_KB)] = PROFILE_SMAPS_PRIVATE_CLEAN,
    [ENTRY(SHARED_DIRTY_RESIDENT_KB)] = PROFILE_SMAPS_SHARED_DIRTY,
    [ENTRY(SHARED_CLEAN_RESIDENT_KB)] = PROFILE_SMAPS_SHARED_CLEAN,
    [ENTRY(PROPORTIONAL_RESIDENT_KB)] = PROFILE_SMAPS_PROPORTIONAL,
};

static int builder_smaps_take_entry(struct builder *builder, struct proto_span entry,
                                    struct profile_smaps *smaps)
{
    struct proto_field field;
    int status;
    smaps->path = smaps->file_name = smaps->module_debugid = smaps->module_debug_path = "";
    while ((status = proto_next(&entry, &field)) > 0) {
        builder_store(builder, PROTO_MEMBERS(entry_members), &field, smaps);
        if (field.number < sizeof(known_by) / sizeof(known_by[0]))
            smaps->known |= known_by[field.number];
    }
    return status < 0 ? -EBADMSG : builder->error;
}

static int builder_smaps_add(struct builder *builder, const struct profile_smaps *smaps)
{
    struct profile *profile = builder->profile;
    if (profile->smaps_count >= FREE_ROWS + builder->smaps_bytes / ROW_BYTES_MIN)
        return -EBADMSG;
    if (ARRAY_ADD(&profile->smaps, &profile->smaps_count, &builder->smaps_capacity, *smaps) < 0)
        return builder_fail(builder);
    builder_date(builder, DATED_SMAPS, 0, profile->smaps_count - 1);
    return 0;
}

/* --- packed: one list per field --- */

#define PACKED(name) PB_PACKED_SMAPS_##name
#define PACKED_LISTS 16

struct packed_smaps {
    const char **names;
    size_t name_count, name_capacity;
    struct proto_span lists[PACKED_LISTS]; /* by field number; NULL: absent */
};

static int read_lists(struct builder *builder, struct proto_span message,
                      struct packed_smaps *packed)
{
    struct proto_field field;
    int status;
    while ((status = proto_next(&message, &field)) > 0) {
        if (field.type != PROTO_BYTES)
            continue;
        if (field.number == PACKED(STRING_TABLE)) {
            if (ARRAY_RESERVE(&packed->names, &packed->name_capacity, packed->name_count, 1) < 0)
                return builder_fail(builder);
            packed->names[packed->name_count++] = builder_text_of_span(builder, field.span);
        } else if (field.number < PACKED_LISTS) {
            packed->lists[field.number] = field.span;
        }
    }
    return status < 0 ? -EBADMSG : builder->error;
}

/* Read one element of each present list. Return 1, 0 at their end, or -EBADMSG if their lengths
 * differ. */
static int next_row(struct packed_smaps *packed, uint64_t values[PACKED_LISTS])
{
    unsigned lists = 0, ended = 0;
    for (unsigned i = 0; i < PACKED_LISTS; i++) {
        struct proto_span *list = &packed->lists[i];
        lists += list->at != NULL;
        ended += list->at != NULL && list->at == list->end;
    }
    if (lists == ended || ended > 0)
        return lists == ended ? 0 : -EBADMSG;
    for (unsigned i = 0; i < PACKED_LISTS; i++)
        if (packed->lists[i].at != NULL && !proto_read_varint(&packed->lists[i], &values[i]))
            return -EBADMSG;
    return 1;
}

#define LIST(name, member, known)                                                                  \
    {                                                                                              \
        PACKED(name), offsetof(struct profile_smaps, member), known                                \
    }

static void fill_row(struct profile_smaps *smaps, const struct packed_smaps *packed,
                     const uint64_t *values)
{
    static const struct {
        uint16_t list, offset; /* of a uint64_t in struct profile_smaps */
        unsigned known;        /* of enum profile_smaps_known; 0: always known */
    } lists[] = {
        LIST(SIZE_KB, size_kb, 0),
        LIST(SWAP_KB, swap_kb, PROFILE_SMAPS_SWAP),
        LIST(PRIVATE_DIRTY_KB, private_dirty_kb, PROFILE_SMAPS_PRIVATE_DIRTY),
        LIST(PRIVATE_CLEAN_KB, private_clean_resident_kb, PROFILE_SMAPS_PRIVATE_CLEAN),
        LIST(SHARED_DIRTY_KB, shared_dirty_resident_kb, PROFILE_SMAPS_SHARED_DIRTY),
        LIST(SHARED_CLEAN_KB, shared_clean_resident_kb, PROFILE_SMAPS_SHARED_CLEAN),
        LIST(LOCKED_KB, locked_kb, 0),
        LIST(PSS_KB, proportional_resident_kb, PROFILE_SMAPS_PROPORTIONAL),
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        *(uint64_t *)((char *)smaps + lists[i].offset) = values[lists[i].list];
        smaps->known |= packed->lists[lists[i].list].at != NULL ? lists[i].known : 0;
    }
}

static int take_packed(struct builder *builder, struct proto_span message,
                       const struct profile_smaps *of)
{
    struct packed_smaps packed = {0};
    uint64_t values[PACKED_LISTS] = {0};
    int code = read_lists(builder, message, &packed), more = 0;
    for (uint64_t row = 0; code == 0 && (more = next_row(&packed, values)) > 0; row++) {
        bool is_named = packed.lists[PACKED(NAME_ID)].at != NULL;
        uint64_t name = is_named ? values[PACKED(NAME_ID)] : row;
        struct profile_smaps smaps = *of;
        if (name >= packed.name_count) {
            code = -EBADMSG;
            break;
        }
        smaps.path = packed.names[name];
        smaps.file_name = smaps.module_debugid = smaps.module_debug_path = "";
        fill_row(&smaps, &packed, values);
        code = builder_smaps_add(builder, &smaps);
    }
    free(packed.names);
    return code < 0 ? code : more;
}

int builder_smaps(struct builder *builder, struct proto_span packet, uint64_t packet_ns)
{
    struct proto_span again = packet;
    struct proto_field field;
    int32_t pid = 0;
    int status, code = 0;
    builder->smaps_bytes += proto_length(packet);
    while ((status = proto_next(&packet, &field)) > 0) {
        if (field.number == PB_SMAPS_PACKET_PID)
            pid = (int32_t)field.value;
    }
    if (status < 0)
        return -EBADMSG;
    builder_mention(builder, pid, 0, packet_ns);
    uint32_t process = builder_process(builder, pid);
    if (process == PROFILE_NONE)
        return builder->error;
    while (code == 0 && proto_next(&again, &field) > 0) {
        struct profile_smaps smaps = {.boottime_ns = packet_ns, .process = process};
        if (field.number == PB_SMAPS_PACKET_PACKED_ENTRIES && field.type == PROTO_BYTES)
            code = take_packed(builder, field.span, &smaps);
        if (field.number != PB_SMAPS_PACKET_ENTRIES || field.type != PROTO_BYTES)
            continue;
        code = builder_smaps_take_entry(builder, field.span, &smaps);
        if (code == 0)
            code = builder_smaps_add(builder, &smaps);
        if (code == 0)
            code = builder_keep(builder, 1);
    }
    return code;
}
