/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in its module's file a return address is. What readers of MemoryInfra agree on is `fo`: the
 * address in the file is the distance from the region's beginning, and `fo`. Chrome writes none, so
 * that a file's first region is taken for its beginning; and others write the offset in the file.
 * Where the file is at hand, its program headers tell which of these is right: the one by which
 * the region begins where a segment of code does. Programs at fixed addresses need none of it.
 */
#include <stdlib.h>
#include <string.h>

#include "memory_infra/symbolize_private.h"
#include "symbols/live_files.h"
#include "util/array.h"

/* An address that is in none of a dump's regions is sought in so many other lists: a hostile file
 * has any number of them. */
#define LISTS_AROUND_MAX 256u

#define PAGE_BYTES UINT64_C(4096)

static uint64_t page_of(uint64_t address)
{
    return address - address % PAGE_BYTES;
}

/* --- modules --- */

static size_t read_build_id(const char *text, uint8_t *id)
{
    size_t length = 0;
    for (; length < TRACE_BUILD_ID_BYTES_MAX && text[2 * length] != '\0'; length++) {
        unsigned value = 0;
        for (int i = 0; i < 2; i++) {
            unsigned char c = (unsigned char)text[2 * length + (size_t)i];
            unsigned digit = c >= '0' && c <= '9'   ? c - (unsigned)'0'
                             : c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10
                                                    : 16;
            if (digit > 15)
                return length; /* an age in one digit, as Windows has it */
            value = value << 4 | digit;
        }
        id[length] = (uint8_t)value;
    }
    return length;
}

static bool is_deleted(const char *path)
{
    size_t length = strlen(path), suffix = strlen(LIVE_FILES_DELETED);
    return length > suffix && strcmp(path + length - suffix, LIVE_FILES_DELETED) == 0;
}

/* Without a build id in the dump, what is there under the name now is all that can be had. */
static void take_file_itself(struct source_module *module, const char *path)
{
    struct elf_image image;
    module->unchecked = true;
    module->is_missing = *path != '/' || is_deleted(path) || elf_image_read(path, &image) < 0;
    if (module->is_missing)
        return;
    module->by_path = image.build_id_length == 0;
    module->id_length = image.build_id_length;
    memcpy(module->id, image.build_id, image.build_id_length);
    module->image = malloc(sizeof(image));
    if (module->image != NULL)
        *module->image = image;
}

static int look_at(const struct memory_infra_symbols *symbols, struct symbol_finder *finder,
                   struct source_module *module)
{
    const char *path = symbols->texts.items[module->path];
    struct symbol_found found = {0};
    struct elf_image image;
    module->looked_at = true;
    module->id_length = read_build_id(symbols->texts.items[module->build_id], module->id);
    if (module->id_length == 0) {
        take_file_itself(module, path);
        return 0;
    }
    int result = symbol_finder_find(finder, path, module->id, module->id_length, &found);
    if (result == 0 && found.path != NULL && elf_image_read(found.path, &image) == 0) {
        module->image = malloc(sizeof(image));
        if (module->image == NULL)
            result = -ENOMEM;
        else
            *module->image = image;
    }
    symbol_found_clear(&found);
    return result;
}

static int find_module(struct memory_infra_symbols *symbols, const struct vm_region *region,
                       uint32_t *index)
{
    const uint32_t key[] = {region->file, region->build_id};
    bool added;
    uint64_t id = intern_bytes(&symbols->module_ids, key, sizeof(key), &added);
    if (id == 0 || id >= NONE)
        return -ENOMEM;
    *index = (uint32_t)id - 1;
    if (!added)
        return 0;
    if (array_reserve(&symbols->modules, &symbols->module_capacity, symbols->module_count, 1,
                      sizeof(*symbols->modules)) < 0)
        return -ENOMEM;
    symbols->modules[symbols->module_count++] =
        (struct source_module){.path = region->file, .build_id = region->build_id};
    return 0;
}

/* --- addresses --- */

/* How well a load bias fits: 2, the region begins where a segment with this code does; 1, the code
 * is in a segment; 0, it is in none. */
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

static uint64_t place_of(struct source_module *module, const struct region_list *list,
                         const struct vm_region *region, uint64_t address)
{
    const struct vm_region *first = &list->items[region->first];
    if (module->image != NULL) {
        module->load_bias = module->image->load_bias;
        return place_by_image(module->image, list, region, address);
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
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || address >= list->items[low - 1].end)
        return NULL;
    return &list->items[low - 1];
}

/* Whether the list has a file there; if not, *stray knows more than before. */
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

/* How many of the process's lists are of dumps up to an event. */
static size_t lists_until(const struct dump_process *process, uint32_t event)
{
    size_t low = 0, high = process->list_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (process->lists[middle].event <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The dump's own regions, then those of the dumps around it, the nearest first. */
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

static int add_address(struct source_module *module, uint64_t address)
{
    if (array_reserve(&module->addresses, &module->capacity, module->count, 1, sizeof(uint64_t)) <
        0)
        return -ENOMEM;
    module->addresses[module->count++] = address;
    return 0;
}

static int place_use(struct memory_infra_symbols *symbols, struct symbol_finder *finder,
                     struct pc_use *use)
{
    const struct vm_region *region = NULL;
    /* Behind the call: its last byte is what is looked for. */
    uint64_t address = symbols->frames[use->frame].address;
    address -= address > 0;
    const struct region_list *list =
        find_list(symbols, &symbols->events[use->event], use->event, address, &region, &use->stray);
    if (list == NULL)
        return 0;
    int result = find_module(symbols, region, &use->module);
    if (result < 0)
        return result;
    struct source_module *module = &symbols->modules[use->module];
    if (!module->looked_at)
        result = look_at(symbols, finder, module);
    if (result < 0)
        return result;
    use->address = place_of(module, list, region, address);
    return add_address(module, use->address);
}

static int compare_addresses(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void sort_addresses(struct source_module *module)
{
    size_t kept = 0;
    if (module->count > 1)
        qsort(module->addresses, module->count, sizeof(uint64_t), compare_addresses);
    for (size_t i = 0; i < module->count; i++)
        if (kept == 0 || module->addresses[kept - 1] != module->addresses[i])
            module->addresses[kept++] = module->addresses[i];
    module->count = kept;
}

int symbols_place(struct memory_infra_symbols *symbols, struct symbol_finder *finder)
{
    pid_t pids[TRACE_PROCESSES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < symbols->process_count && count < TRACE_PROCESSES_MAX; i++)
        if (symbols->processes[i].pid > 0 && symbols->processes[i].pid <= INT32_MAX)
            pids[count++] = (pid_t)symbols->processes[i].pid;
    symbol_finder_set_processes(finder, pids, count);
    int result = 0;
    for (size_t i = 0; i < symbols->use_count && result == 0; i++)
        result = place_use(symbols, finder, &symbols->uses[i]);
    for (size_t i = 0; i < symbols->module_count; i++)
        sort_addresses(&symbols->modules[i]);
    return result;
}
