/* SPDX-License-Identifier: Apache-2.0 */
/* The names of meminfo's lines, and those of vmstat, which follow from the enum. */
#include "trace/system_counters.h"

#include <ctype.h>
#include <string.h>

#include "config.pb-c.h"

#define MEMINFO(counter, name) [PERFETTO__PROTOS__MEMINFO_COUNTERS__MEMINFO_##counter] = name

static const char *const meminfo_names[MEMINFO_COUNTERS] = {
    MEMINFO(MEM_TOTAL, "MemTotal"),
    MEMINFO(MEM_FREE, "MemFree"),
    MEMINFO(MEM_AVAILABLE, "MemAvailable"),
    MEMINFO(BUFFERS, "Buffers"),
    MEMINFO(CACHED, "Cached"),
    MEMINFO(SWAP_CACHED, "SwapCached"),
    MEMINFO(ACTIVE, "Active"),
    MEMINFO(INACTIVE, "Inactive"),
    MEMINFO(ACTIVE_ANON, "Active(anon)"),
    MEMINFO(INACTIVE_ANON, "Inactive(anon)"),
    MEMINFO(ACTIVE_FILE, "Active(file)"),
    MEMINFO(INACTIVE_FILE, "Inactive(file)"),
    MEMINFO(UNEVICTABLE, "Unevictable"),
    MEMINFO(MLOCKED, "Mlocked"),
    MEMINFO(SWAP_TOTAL, "SwapTotal"),
    MEMINFO(SWAP_FREE, "SwapFree"),
    MEMINFO(DIRTY, "Dirty"),
    MEMINFO(WRITEBACK, "Writeback"),
    MEMINFO(ANON_PAGES, "AnonPages"),
    MEMINFO(MAPPED, "Mapped"),
    MEMINFO(SHMEM, "Shmem"),
    MEMINFO(SLAB, "Slab"),
    MEMINFO(SLAB_RECLAIMABLE, "SReclaimable"),
    MEMINFO(SLAB_UNRECLAIMABLE, "SUnreclaim"),
    MEMINFO(KERNEL_STACK, "KernelStack"),
    MEMINFO(PAGE_TABLES, "PageTables"),
    MEMINFO(COMMIT_LIMIT, "CommitLimit"),
    MEMINFO(COMMITED_AS, "Committed_AS"),
    MEMINFO(VMALLOC_TOTAL, "VmallocTotal"),
    MEMINFO(VMALLOC_USED, "VmallocUsed"),
    MEMINFO(VMALLOC_CHUNK, "VmallocChunk"),
    MEMINFO(CMA_TOTAL, "CmaTotal"),
    MEMINFO(CMA_FREE, "CmaFree"),
    MEMINFO(GPU, "Gpu"),
    MEMINFO(ZRAM, "Zram"),
    MEMINFO(MISC, "Misc"),
    MEMINFO(ION_HEAP, "ION_heap"),
    MEMINFO(ION_HEAP_POOL, "ION_heap_pool"),
};

const char *meminfo_counter_name(uint32_t counter)
{
    return counter < MEMINFO_COUNTERS ? meminfo_names[counter] : NULL;
}

bool vmstat_counter_name(uint32_t counter, char name[SYSTEM_COUNTER_NAME_BYTES])
{
    static const char prefix[] = "VMSTAT_";
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
        &perfetto__protos__vmstat_counters__descriptor, (int)counter);
    if (counter == 0 || value == NULL)
        return false;
    const char *from = value->name + sizeof(prefix) - 1;
    size_t length = strlen(from);
    if (length >= SYSTEM_COUNTER_NAME_BYTES)
        return false;
    for (size_t i = 0; i <= length; i++)
        name[i] = (char)tolower((unsigned char)from[i]);
    return true;
}
