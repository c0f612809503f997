/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile mapping files, and the packets that are made from them: these are read back as part of a
 * trace whose frames have the names of the mapping's classes. Input: a mapping file.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzzing.h"
#include "pb_field_numbers.h"
#include "profile/builder/profile_read.h"
#include "profile/deobfuscate/deobfuscate.h"
#include "profile/deobfuscate/proguard_map.h"
#include "trace/proto_buffer.h"

#define NAMES_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_interned(struct proto_buffer *interned, uint32_t field, uint64_t iid,
                         const char *text)
{
    struct proto_buffer string = {0};
    proto_put_uint(&string, PB_INTERNED_STRING_IID, iid);
    proto_put_string(&string, PB_INTERNED_STRING_STR, text);
    proto_put_bytes(interned, field, string.bytes, string.length);
    proto_buffer_free(&string);
}

static void put_ids(struct proto_buffer *interned, uint32_t message, const uint64_t fields[][2],
                    size_t count)
{
    struct proto_buffer entry = {0};
    for (size_t i = 0; i < count; i++)
        proto_put_uint(&entry, (uint32_t)fields[i][0], fields[i][1]);
    proto_put_bytes(interned, message, entry.bytes, entry.length);
    proto_buffer_free(&entry);
}

/* Put one stack for each name, with a unique line. */
static void put_frame(struct proto_buffer *interned, struct proto_buffer *dump, uint64_t id,
                      const char *name)
{
    uint64_t frame[][2] = {{PB_FRAME_IID, id},
                           {PB_FRAME_FUNCTION_NAME_ID, id},
                           {PB_FRAME_REL_PC, id},
                           {PB_FRAME_LINE_NUMBER, id % 8}};
    uint64_t stack[][2] = {{PB_CALLSTACK_IID, id}, {PB_CALLSTACK_FRAME_IDS, id}};
    uint64_t sample[][2] = {{PB_PROFILE_PACKET_HEAP_SAMPLE_CALLSTACK_ID, id},
                            {PB_PROFILE_PACKET_HEAP_SAMPLE_SELF_ALLOCATED, id},
                            {PB_PROFILE_PACKET_HEAP_SAMPLE_ALLOC_COUNT, 1}};
    put_interned(interned, PB_INTERNED_DATA_FUNCTION_NAMES, id, name);
    put_ids(interned, PB_INTERNED_DATA_FRAMES, frame, 4);
    put_ids(interned, PB_INTERNED_DATA_CALLSTACKS, stack, 2);
    put_ids(dump, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_SAMPLES, sample, 3);
}

/* Make a trace whose frames have the obfuscated names of the mapping's methods. */
static void make_trace(const uint8_t *data, size_t size, struct proto_buffer *trace,
                       struct trace_names *names)
{
    struct proto_buffer interned = {0}, dump = {0}, packet = {0}, profile = {0};
    struct proguard_entry entry;
    struct error error;
    char class_name[128] = "", name[256];
    uint64_t id = 0;
    struct proguard_map *map = proguard_map_open_bytes("map", data, size, &error);
    if (map == NULL)
        abort();
    proto_put_uint(&dump, PB_PROFILE_PACKET_PROCESS_HEAP_SAMPLES_PID, 1);
    while (proguard_map_next(map, &entry, &error) > 0 && id < NAMES_MAX) {
        int length = (int)(entry.obfuscated.length < 100 ? entry.obfuscated.length : 100);
        if (entry.kind == PROGUARD_CLASS)
            snprintf(class_name, sizeof(class_name), "%.*s", length, entry.obfuscated.at);
        snprintf(name, sizeof(name), "%s.%.*s", class_name,
                 entry.kind == PROGUARD_CLASS ? 4 : length,
                 entry.kind == PROGUARD_CLASS ? "kept" : entry.obfuscated.at);
        put_frame(&interned, &dump, ++id, name);
    }
    proguard_map_close(map);
    proto_put_bytes(&profile, PB_PROFILE_PACKET_PROCESS_DUMPS, dump.bytes, dump.length);
    proto_put_uint(&packet, PB_TRACE_PACKET_TRUSTED_PACKET_SEQUENCE_ID, 1);
    proto_put_bytes(&packet, PB_TRACE_PACKET_INTERNED_DATA, interned.bytes, interned.length);
    proto_put_bytes(&packet, PB_TRACE_PACKET_PROFILE_PACKET, profile.bytes, profile.length);
    proto_put_bytes(trace, PB_TRACE_PACKET, packet.bytes, packet.length);
    if (trace_names_add(names, (struct proto_span){packet.bytes, packet.bytes + packet.length}) < 0)
        abort();
    proto_buffer_free(&interned);
    proto_buffer_free(&dump);
    proto_buffer_free(&packet);
    proto_buffer_free(&profile);
}

/* The written trace is valid, and so are the profile's names. */
static void read_back(struct proto_buffer *trace, int fd)
{
    struct error error;
    size_t sum = 0;
    off_t length = lseek(fd, 0, SEEK_END);
    uint8_t *room = proto_buffer_reserve(trace, (size_t)length + 1);
    if (room == NULL || pread(fd, room, (size_t)length, 0) != length)
        abort();
    trace->length += (size_t)length;
    struct profile *profile = profile_read_bytes(trace->bytes, trace->length, NULL, &error);
    if (profile == NULL || *profile->warning != '\0')
        abort();
    for (size_t i = 0; i < profile->frame_count; i++)
        sum += strlen(profile->frames[i].name) + strlen(profile->frames[i].obfuscated_name);
    for (size_t i = 0; i < profile->callsite_count; i++) {
        if (profile->callsites[i].frame >= profile->frame_count)
            abort();
    }
    if (sum == SIZE_MAX)
        abort();
    profile_free(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char map[FUZZ_PATH_BYTES], out[FUZZ_PATH_BYTES], argument[72];
    struct proto_buffer trace = {0};
    struct deobfuscate_report report = {0};
    struct deobfuscate_maps maps = {0};
    struct trace_names names = {0};
    struct error error;
    int map_fd = fuzz_file(map, data, size), out_fd = fuzz_file(out, NULL, 0);
    make_trace(data, size, &trace, &names);
    snprintf(argument, sizeof(argument), "=%s", map);
    check(deobfuscate_maps_add(&maps, argument, &error) >= 0);
    bool whole = size > 0 && data[size - 1] % 2 == 0;
    if (deobfuscate_write(&maps, whole ? NULL : &names, out_fd, &report, &error) == 0)
        read_back(&trace, out_fd);
    deobfuscate_report_clear(&report);
    deobfuscate_maps_clear(&maps);
    trace_names_clear(&names);
    proto_buffer_free(&trace);
    close(map_fd);
    close(out_fd);
    return 0;
}
