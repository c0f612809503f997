/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the position of a return address in its module's file. Readers of MemoryInfra agree that it
 * is the distance from the region's start plus `fo`. But Chrome writes no `fo`: then a file's first
 * region is taken as the file's beginning. And some writers set `fo` to the offset in the file, not
 * to the address in it. If the file is available, its program headers decide: the right choice is
 * the one by which the region begins at a segment of code. Programs at fixed addresses need none of
 * this.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/memory_infra/symbolize_private.h"
#include "util/array.h"
#include "util/sorted_search.h"

/* Number of other region lists that are searched for an address: a hostile file has any number of
 * them. */
#define LISTS_AROUND_MAX 256u

#define PAGE_BYTES UINT64_C(4096)

static uint64_t page_of(uint64_t address)
{
    return address - address % PAGE_BYTES;
}

/* --- modules --- */

/* Find the module's file. Where only its name leads to it, its build id leads to its debug files.
 */
static int find_file(struct symbol_finder *finder, struct trace_module *module,
                     struct source_module *source)
{
    struct symbol_found found = {0};
    struct elf_image image;
    source->unchecked = module->build_id_length == 0;
    int result = source->unchecked ? symbol_finder_find_named(finder, module->path, &found)
                                   : symbol_finder_find(finder, module->path, module->build_id,
                                                        module->build_id_length, &found);
    if (result == 0 && found.path != NULL && elf_image_read(found.path, &image) == 0) {
        source->image = malloc(sizeof(image));
        if (source->image != NULL)
            *source->image = image;
        if (source->unchecked) {
            source->by_name = found.path;
            found.path = NULL;
            module->file = image.build_id_length == 0 ? source->by_name : NULL;
            module->build_id_length = image.build_id_length;
            memcpy(module->build_id, image.build_id, image.build_id_length);
        }
    }
    source->is_missing = source->unchecked && source->by_name == NULL;
    symbol_found_clear(&found);
    return result;
}

static int find_module(struct memory_infra_symbols *symbols, struct symbol_finder *finder,
                       const struct vm_region *region, uint32_t *index)
{
    const uint32_t key[] = {region->file, region->build_id};
    struct trace_addresses *addresses = &symbols->addresses;
    bool added;
    uint64_t id = intern_bytes(&symbols->module_ids, key, sizeof(key), &added);
    if (id == 0 || id >= NONE)
        return -ENOMEM;
    *index = (uint32_t)id - 1;
    if (!added)
        return 0;
    if (ARRAY_RESERVE(&addresses->modules, &addresses->capacity, addresses->count, 1) < 0 ||
        ARRAY_RESERVE(&symbols->modules, &symbols->module_capacity, addresses->count, 1) < 0)
        return -ENOMEM;
    struct trace_module *module = &addresses->modules[addresses->count];
    struct source_module *source = &symbols->modules[addresses->count];
    *source = (struct source_module){0};
    *module = (struct trace_module){.path = strdup(symbols->texts.items[region->file])};
    if (module->path == NULL)
        return -ENOMEM;
    addresses->count++;
    trace_module_set_build_id(module, symbols->texts.items[region->build_id]);
    return find_file(finder, module, source);
}

/* --- addresses --- */

/* Rate a load bias: 2, the region begins at a segment with this code; 1, the code is in a segment;
 * 0, it is in none. */
static int fit_of(const struct elf_image *image, uint64_t region_start, uint64_t address,
                  uint64_t bias)
{
    for (size_t i = 0; i < image->code_count; i++) {
        const struct elf_segment *segment = &image->code[i];
        if (address - bias < segment->start || address - bias >= segment->end)
            continue;
        return page_of(segment->start) == region_start - bias ? 2 : 1;
    }
    return 0;
}

struct bias_choice {
    const struct elf_image *image;
    const struct vm_region *region;
    uint64_t address, bias;
    int fit;
};

static void try_bias(struct bias_choice *choice, uint64_t bias)
{
    int fit = fit_of(choice->image, choice->region->start, choice->address, bias);
    if (fit <= choice->fit)
        return;
    choice->fit = fit;
    choice->bias = bias;
}

static bool has_offset(const struct region_list *list, const struct vm_region *region)
{
    return region->has_offset && (region->offset != 0 || &list->items[region->first] == region);
}

static uint64_t place_by_image(const struct elf_image *image, const struct region_list *list,
                               const struct vm_region *region, uint64_t address)
{
    if (image->is_fixed)
        return address;
    uint64_t beginning = list->items[region->first].start - image->base;
    struct bias_choice choice = {image, region, address, beginning, 0};
    if (has_offset(list, region))
        try_bias(&choice, region->start - region->offset);
    try_bias(&choice, beginning);
    for (size_t i = 0; i < image->code_count; i++) {
        const struct elf_segment *segment = &image->code[i];
        uint64_t pages = page_of(segment->end + PAGE_BYTES - 1) - page_of(segment->start);
        bool same_size = region->end - region->start == pages;
        bool same_offset = region->has_offset && region->offset == page_of(segment->offset);
        if (same_size || same_offset)
            try_bias(&choice, region->start - page_of(segment->start));
    }
    return address - choice.bias;
}

static uint64_t place_of(struct trace_module *module, const struct elf_image *image,
                         const struct region_list *list, const struct vm_region *region,
                         uint64_t address)
{
    const struct vm_region *first = &list->items[region->first];
    if (image != NULL) {
        module->load_bias = image->load_bias;
        return place_by_image(image, list, region, address);
    }
    if (first->has_offset)
        module->load_bias = first->offset;
    if (has_offset(list, region))
        return address - region->start + region->offset;
    return address - first->start + (first->has_offset ? first->offset : 0);
}

/* --- regions --- */

static const struct vm_region *find_region(const struct region_list *list, uint64_t address)
{
    size_t after = SORTED_SEARCH(list->count, i, list->items[i].start <= address);
    if (after == 0 || address >= list->items[after - 1].end)
        return NULL;
    return &list->items[after - 1];
}

/* Return whether the list has a file there. If it has other memory, set *stray. */
static bool look_in(const struct memory_infra_symbols *symbols, const struct region_list *list,
                    uint64_t address, const struct vm_region **region, uint32_t *stray)
{
    const struct vm_region *found = find_region(list, address);
    if (found == NULL)
        return false;
    const char *file = symbols->texts.items[found->file];
    if (*file == '\0' || (*file == '[' && strcmp(file, "[vdso]") != 0)) {
        *stray = MEMORY_INFRA_NO_FILE;
        return false;
    }
    *region = found;
    return true;
}

/* Return the number of the process's lists from dumps up to an event. */
static size_t lists_until(const struct dump_process *process, uint32_t event)
{
    return SORTED_SEARCH(process->list_count, i, process->lists[i].event <= event);
}

/* Search the dump's own regions, then those of the dumps around it, the nearest first. */
static const struct region_list *find_list(const struct memory_infra_symbols *symbols,
                                           const struct dump_event *event, uint32_t index,
                                           uint64_t address, const struct vm_region **region,
                                           uint32_t *stray)
{
    const struct dump_process *process = &symbols->processes[event->process];
    size_t before = lists_until(process, index), after = before;
    *stray = process->list_count == 0 ? MEMORY_INFRA_NO_MAPS : MEMORY_INFRA_NO_REGION;
    if (event->regions != NONE &&
        look_in(symbols, &process->lists[event->regions], address, region, stray))
        return &process->lists[event->regions];
    for (unsigned i = 0; i < LISTS_AROUND_MAX && (before > 0 || after < process->list_count); i++) {
        bool back = before > 0 &&
                    (after == process->list_count || index - process->lists[before - 1].event <=
                                                         process->lists[after].event - index);
        const struct region_list *list = &process->lists[back ? --before : after++];
        if (look_in(symbols, list, address, region, stray))
            return list;
    }
    return NULL;
}

static int place_use(struct memory_infra_symbols *symbols, struct symbol_finder *finder,
                     struct pc_use *use)
{
    const struct vm_region *region = NULL;
    /* A return address is after the call: look up the call's last byte. */
    uint64_t address = symbols->frames[use->frame].address;
    address -= address > 0;
    const struct region_list *list =
        find_list(symbols, &symbols->events[use->event], use->event, address, &region, &use->stray);
    if (list == NULL)
        return 0;
    int result = find_module(symbols, finder, region, &use->module);
    if (result < 0)
        return result;
    struct trace_module *module = &symbols->addresses.modules[use->module];
    use->address = place_of(module, symbols->modules[use->module].image, list, region, address);
    return trace_module_add_address(module, use->address);
}

int symbols_place(struct memory_infra_symbols *symbols, struct symbol_finder *finder)
{
    struct trace_addresses *addresses = &symbols->addresses;
    for (size_t i = 0; i < symbols->process_count && addresses->process_count < TRACE_PROCESSES_MAX;
         i++)
        if (symbols->processes[i].pid > 0 && symbols->processes[i].pid <= INT32_MAX)
            addresses->processes[addresses->process_count++] = (pid_t)symbols->processes[i].pid;
    symbol_finder_set_processes(finder, addresses->processes, addresses->process_count);
    int result = 0;
    for (size_t i = 0; i < symbols->use_count && result == 0; i++)
        result = place_use(symbols, finder, &symbols->uses[i]);
    trace_addresses_sort(addresses);
    return result;
}
