/*
 * See builder.h: SmapsPackets, the mappings of a process's memory with what of them is resident.
 * Kept as they are told; nothing is summed up.
 */
#include <errno.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder.h"
#include "util/array.h"

#define ENTRY(name) PB_SMAPS_ENTRY_##name

static int take_entry(struct builder *builder, struct proto_span entry, struct profile_smaps *smaps)
{
    struct proto_field field;
    int status;
    smaps->path = smaps->file_name = smaps->module_debugid = smaps->module_debug_path = "";
    while ((status = proto_next(&entry, &field)) > 0) {
        switch (field.number) {
        case ENTRY(PATH):
            smaps->path = builder_text_of_span(builder, field.span);
            break;
        case ENTRY(SIZE_KB):
            smaps->size_kb = field.value;
            break;
        case ENTRY(PRIVATE_DIRTY_KB):
            smaps->private_dirty_kb = field.value;
            smaps->told |= PROFILE_SMAPS_PRIVATE_DIRTY;
            break;
        case ENTRY(SWAP_KB):
            smaps->swap_kb = field.value;
            smaps->told |= PROFILE_SMAPS_SWAP;
            break;
        case ENTRY(FILE_NAME):
            smaps->file_name = builder_text_of_span(builder, field.span);
            break;
        case ENTRY(START_ADDRESS):
            smaps->start_address = field.value;
            smaps->told |= PROFILE_SMAPS_START;
            break;
        case ENTRY(MODULE_TIMESTAMP):
            smaps->module_timestamp = field.value;
            break;
        case ENTRY(MODULE_DEBUGID):
            smaps->module_debugid = builder_text_of_span(builder, field.span);
            break;
        case ENTRY(MODULE_DEBUG_PATH):
            smaps->module_debug_path = builder_text_of_span(builder, field.span);
            break;
        case ENTRY(PROTECTION_FLAGS):
            smaps->protection_flags = (uint32_t)field.value;
            break;
        case ENTRY(PRIVATE_CLEAN_RESIDENT_KB):
            smaps->private_clean_resident_kb = field.value;
            smaps->told |= PROFILE_SMAPS_PRIVATE_CLEAN;
            break;
        case ENTRY(SHARED_DIRTY_RESIDENT_KB):
            smaps->shared_dirty_resident_kb = field.value;
            smaps->told |= PROFILE_SMAPS_SHARED_DIRTY;
            break;
        case ENTRY(SHARED_CLEAN_RESIDENT_KB):
            smaps->shared_clean_resident_kb = field.value;
            smaps->told |= PROFILE_SMAPS_SHARED_CLEAN;
            break;
        case ENTRY(LOCKED_KB):
            smaps->locked_kb = field.value;
            break;
        case ENTRY(PROPORTIONAL_RESIDENT_KB):
            smaps->proportional_resident_kb = field.value;
            smaps->told |= PROFILE_SMAPS_PROPORTIONAL;
            break;
        }
    }
    return status < 0 ? -EBADMSG : builder->error;
}

int builder_smaps(struct builder *builder, struct proto_span packet, uint64_t packet_ns)
{
    struct profile *profile = builder->profile;
    struct proto_span again = packet;
    struct proto_field field;
    int32_t pid = 0;
    int status, code = 0;
    while ((status = proto_next(&packet, &field)) > 0) {
        if (field.number == PB_SMAPS_PACKET_PID)
            pid = (int32_t)field.value;
    }
    if (status < 0)
        return -EBADMSG;
    builder_meet(builder, pid, 0, packet_ns);
    uint32_t process = builder_process(builder, pid);
    if (process == PROFILE_NONE)
        return builder->error;
    while (code == 0 && proto_next(&again, &field) > 0) {
        struct profile_smaps smaps = {.boottime_ns = packet_ns, .process = process};
        if (field.number != PB_SMAPS_PACKET_ENTRIES || field.type != PROTO_BYTES)
            continue;
        code = take_entry(builder, field.span, &smaps);
        if (code < 0)
            break;
        if (array_reserve(&profile->smaps, &builder->smaps_capacity, profile->smaps_count, 1,
                          sizeof(smaps)) < 0)
            return builder_fail(builder);
        profile->smaps[profile->smaps_count++] = smaps;
        builder_date(builder, DATED_SMAPS, 0, profile->smaps_count - 1);
    }
    return code;
}
