/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of known modules: an array that only grows, and a hash table of its
 * indices by the start of the object. Lock-free. A module is complete before its
 * index is published; later only `alive` and `link_map` change.
 *
 * An unloaded object stays in the table as dead. If it is loaded again at the same
 * place, it is revived, so that plugins which come and go do not fill the table.
 */
#include "client/modules/module.h"

#include <errno.h>
#include <link.h>
#include <string.h>

#include "client/modules/module_object.h"
#include "client/own_files.h"
#include "client/system.h"
#include "wire/barrier.h"

#define BUCKETS (2u * MODULES_MAX) /* a power of two */
#define GAPS 16u                   /* a power of two */
#define GAP_SHIFT 16               /* the bounds are multiples of 64 KiB */
#define GAP_USES_MAX 4096u

static struct module modules[MODULES_MAX];
static uint32_t modules_used;
static uint16_t buckets[BUCKETS]; /* index + 1; 0: empty */
static uint32_t generation;
/* Ranges between objects: start << 32 | end, in units of 64 KiB; 0: none. Both bounds change in one
 * store. A range serves a limited number of times, for an object may be loaded there. */
static uint64_t gaps[GAPS];
static uint32_t gap_uses[GAPS], gaps_noted;

_Static_assert(MODULES_MAX < UINT16_MAX, "an index fits a bucket");

static uint32_t bucket_of(uintptr_t object_start)
{
    return (uint32_t)((object_start >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (BUCKETS - 1);
}

static bool module_is(const struct module *module, const struct module_object *object, uintptr_t pc)
{
    return module->object_start == object->start && module->object_end == object->end &&
           pc >= module->start && pc < module->end;
}

/* Return whether a known module is the same as the candidate: another thread has published it, or
 * it was unloaded and loaded again. */
static bool module_same(struct module *module, const struct module *candidate)
{
    return module->object_start == candidate->object_start &&
           module->object_end == candidate->object_end && module->start == candidate->start &&
           module->fingerprint == candidate->fingerprint;
}

static const struct module *module_learn(const struct module_object *object, uintptr_t pc)
{
    struct module candidate;
    if (!module_object_read(object, pc, &candidate))
        return NULL;
    candidate.alive = 1;
    struct module *slot = NULL;
    uint32_t bucket = bucket_of(object->start);
    for (uint32_t probes = 0; probes < BUCKETS; probes++) {
        uint16_t *place = &buckets[(bucket + probes) & (BUCKETS - 1)];
        uint16_t index = load_acquire(place);
        if (index == 0) {
            if (slot == NULL) {
                uint32_t number = add_relaxed(&modules_used, 1);
                if (number >= MODULES_MAX) {
                    store_relaxed(&modules_used, MODULES_MAX);
                    return NULL;
                }
                slot = &modules[number];
                *slot = candidate;
            }
            if (cas_acq_rel(place, &index, (uint16_t)(slot - modules + 1)))
                return slot;
        }
        struct module *known = &modules[index - 1];
        if (module_same(known, &candidate)) {
            store_relaxed(&known->link_map, candidate.link_map);
            store_release(&known->alive, 1);
            return known; /* the slot of a lost race stays unused */
        }
    }
    return NULL;
}

static void note_gap(uintptr_t start, uintptr_t end)
{
    uint64_t first = ((uint64_t)start + (1u << GAP_SHIFT) - 1) >> GAP_SHIFT;
    uint64_t last = (uint64_t)end >> GAP_SHIFT;
    if (last > UINT32_MAX)
        last = UINT32_MAX;
    if (first >= last)
        return;
    uint32_t index = add_relaxed(&gaps_noted, 1) & (GAPS - 1);
    store_relaxed(&gap_uses[index], 0);
    store_relaxed(&gaps[index], first << 32 | last);
}

bool module_may_exist(uintptr_t pc)
{
    uint64_t place = (uint64_t)pc >> GAP_SHIFT;
    if (load_relaxed(&gaps_noted) == 0)
        return true;
    for (uint32_t i = 0; i < GAPS; i++) {
        uint64_t gap = load_relaxed(&gaps[i]);
        if (place < gap >> 32 || place >= (gap & UINT32_MAX))
            continue;
        uint32_t uses = load_relaxed(&gap_uses[i]) + 1;
        store_relaxed(&gap_uses[i], uses);
        if (uses >= GAP_USES_MAX)
            store_relaxed(&gaps[i], 0);
        return false;
    }
    return true;
}

const struct module *module_find(uintptr_t pc, bool in_use)
{
    struct module_object object;
    if (!module_object_find(pc, &object)) {
        note_gap(object.start, object.end);
        return NULL;
    }
    uint32_t bucket = bucket_of(object.start);
    for (uint32_t probes = 0; probes < BUCKETS; probes++) {
        uint16_t index = load_acquire(&buckets[(bucket + probes) & (BUCKETS - 1)]);
        if (index == 0)
            break;
        const struct module *module = &modules[index - 1];
        if (load_acquire(&module->alive) && module_is(module, &object, pc) &&
            load_relaxed(&module->link_map) == object.link_map)
            return module;
    }
    object.in_use = in_use || module_object_is_permanent(object.link_map);
    return module_learn(&object, pc);
}

bool module_is_permanent(const struct module *module)
{
    return module_object_is_permanent(load_relaxed(&module->link_map));
}

bool module_is_unread(uintptr_t pc)
{
    return !system_copies_memory() && module_object_exists(pc);
}

uint32_t module_number(const struct module *module)
{
    return (uint32_t)(module - modules);
}

void module_init(void)
{
    module_object_init();
}

uint32_t module_generation(void)
{
    return load_relaxed(&generation);
}

void module_begin_generation(void)
{
    add_relaxed(&generation, 1);
}

/* Return whether the module that the loader has at the same place is still the same. */
static bool is_unchanged(const struct module *module, bool after_dlclose)
{
    if (system_copies_memory())
        return module_object_fingerprint(module) == module->fingerprint;
    return !after_dlclose || module_is_permanent(module);
}

void module_check_unloaded(bool after_dlclose)
{
    bool gone = false;
    uint32_t used = load_acquire(&modules_used);
    for (uint32_t i = 0; i < used && i < MODULES_MAX; i++) {
        struct module *module = &modules[i];
        struct module_object object;
        if (!load_acquire(&module->alive))
            continue;
        if (module_object_find(module->start, &object) && object.start == module->object_start &&
            object.end == module->object_end &&
            object.link_map == load_relaxed(&module->link_map) &&
            is_unchanged(module, after_dlclose))
            continue;
        store_release(&module->alive, 0);
        gone = true;
    }
    if (gone)
        module_begin_generation();
}

static int text_copy(char *buffer, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length + 1 > size)
        return -ENAMETOOLONG;
    memcpy(buffer, text, length + 1);
    return (int)length;
}

static char *hex_append(char *at, uintptr_t value)
{
    int digits = 1;
    while (digits < 16 && value >> (4 * digits) != 0)
        digits++;
    while (digits-- > 0)
        *at++ = "0123456789abcdef"[value >> (4 * digits) & 15];
    return at;
}

/* Let the kernel resolve the path, if the segment is one mapping. That is correct even
 * for relative names and after chdir. */
static int path_from_mapping(const struct module *module, char *buffer, size_t size)
{
    char link[OWN_FILE_PATH_BYTES];
    char *at = hex_append(own_file_path(link, "map_files/"), module->start);
    *at++ = '-';
    *hex_append(at, module->end) = 0;
    return own_link_read(link, buffer, size);
}

static char executable_path[512]; /* "": unknown, or longer */

static int executable_path_read(char *buffer, size_t size)
{
    char link[OWN_FILE_PATH_BYTES];
    own_file_path(link, "exe");
    int length = own_link_read(link, buffer, size);
    if (length < 0 && executable_path[0] != 0)
        return text_copy(buffer, size, executable_path);
    return length;
}

void module_keep_executable_path(void)
{
    char link[OWN_FILE_PATH_BYTES];
    own_file_path(link, "exe");
    if (own_link_read(link, executable_path, sizeof(executable_path)) < 0)
        executable_path[0] = 0;
}

/* Copy the loader's name of the object. */
static int name_read(const struct link_map *map, bool in_use, char *buffer, size_t size)
{
    const char *name;
    if (!module_object_copy(in_use, &name, (uintptr_t)&map->l_name, sizeof(name)))
        return -EFAULT;
    long got = system_read_memory(buffer, (uintptr_t)name, size);
    if (got < 0)
        return in_use && (got == -EPERM || got == -ENOSYS) ? text_copy(buffer, size, name)
                                                           : (int)got;
    for (long length = 0; length < got; length++) {
        if (buffer[length] == 0)
            return (int)length;
    }
    return -ENAMETOOLONG;
}

int module_path(const struct module *module, bool in_use, char *buffer, size_t size)
{
    static const char vdso[] = "linux-vdso";
    const struct link_map *map = load_relaxed(&module->link_map);
    if (map == NULL)
        return path_from_mapping(module, buffer, size);
    int length = name_read(map, in_use, buffer, size);
    if (length == 0)
        return executable_path_read(buffer, size);
    if (length > 0 && strncmp(buffer, vdso, strlen(vdso)) == 0)
        return text_copy(buffer, size, "[vdso]");
    int mapped = path_from_mapping(module, buffer, size);
    return mapped >= 0 ? mapped : name_read(map, in_use, buffer, size);
}

size_t module_build_id(const struct module *module, bool in_use,
                       uint8_t buffer[MODULE_BUILD_ID_MAX])
{
    size_t length = module->build_id_length;
    bool read =
        length > 0 && module_object_copy(in_use, buffer, (uintptr_t)module->build_id, length);
    return read ? length : 0;
}
