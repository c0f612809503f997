/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of known modules, and a lossy index of it by the start of the object. Lock-free.
 *
 * A place of the table is FREE, BUSY or ALIVE. A thread that learns a module changes a FREE place
 * to BUSY, gives it a number that no module had before, fills it, and makes it ALIVE. When the
 * object is gone, the place is BUSY until the generation has grown, and then FREE. It keeps its
 * words until another module takes it: if the same object is loaded again, it is revived.
 *
 * So a reader may have the address of a place that another thread fills again. That harms nobody:
 *
 * - An object that cannot be unloaded (a frame of the reader's stack returns into it) stays ALIVE.
 * - What is read of others, the kernel copies: wrong words cause no fault.
 * - A place is filled in a later generation than that in which it was found. A walk whose
 * generation has changed when it ends is made again.
 * - What is sent is copied first, and only if the place did not change meanwhile (module_copy()).
 *
 * A thread that dies or jumps away while a place is BUSY leaves it so for good.
 */
#include "client/modules/module.h"

#include <errno.h>
#include <link.h>
#include <string.h>

#ifdef HEAPPROFD_ATTACHED
#include "client/attached.h"
#else
#include "client/libc/libc.h"
#endif
#include "client/modules/module_object.h"
#include "client/own_files.h"
#include "client/system.h"
#include "wire/barrier.h"

#define INDEX_SETS 2048u /* a power of two */
#define INDEX_WAYS 4u
#define ABSENT 1024u /* a power of two: JIT code has many pages */
#define ABSENT_GENERATION_SHIFT 36
#define ABSENT_CHECKS 16u /* a library may be loaded where JIT code was */
#define GONE_MAX 16u
#define GAPS 16u     /* a power of two */
#define GAP_SHIFT 16 /* the bounds are multiples of 64 KiB */
#define GAP_USES_MAX 4096u

enum module_state { MODULE_FREE, MODULE_BUSY, MODULE_ALIVE };

static struct module modules[MODULES_MAX];
static uint32_t modules_used; /* places that are or were in use */
static uint32_t numbers;      /* given */
static bool is_full;
static uint32_t generation;
static uint32_t checks; /* made by /proc/self/maps */
/* Place + 1; 0: none. By the hash of an object's start; lossy. */
static uint16_t indexes[INDEX_SETS][INDEX_WAYS];
/* Pages of objects for which module_learn() failed in a generation: a failure takes several system
 * calls, or a look at the whole table. */
static uint64_t absent[ABSENT];
/* Ranges between objects: start << 32 | end, in units of 64 KiB; 0: none. Both bounds change in one
 * store. A range serves a limited number of times, for an object may be loaded there. */
static uint64_t gaps[GAPS];
static uint32_t gap_uses[GAPS], gaps_noted;

_Static_assert(MODULES_MAX < UINT16_MAX, "a place fits an index");

/* --- the index --- */

static uint16_t *index_set_of(uintptr_t object_start)
{
    uint64_t hash = (object_start >> 12) * UINT64_C(0x9e3779b97f4a7c15);
    return indexes[hash >> 40 & (INDEX_SETS - 1)];
}

static void index_note(const struct module *module)
{
    uint16_t *set = index_set_of(module->object_start);
    unsigned way = 0;
    while (way < INDEX_WAYS - 1 && load_relaxed(&set[way]) != 0)
        way++;
    if (load_relaxed(&set[way]) != 0)
        way = (unsigned)(module - modules) % INDEX_WAYS;
    store_relaxed(&set[way], (uint16_t)(module - modules + 1));
}

/* --- the table --- */

static bool module_is(const struct module *module, const struct module_object *object, uintptr_t pc)
{
    return load_acquire(&module->state) == MODULE_ALIVE && module->object_start == object->start &&
           module->object_end == object->end && pc >= module->start && pc < module->end &&
           load_relaxed(&module->link_map) == object->link_map;
}

/* Return whether the place's module is the same as the candidate: another thread has learned it, or
 * it was unloaded and loaded again. */
static bool module_same(const struct module *module, const struct module *candidate)
{
    return module->object_start == candidate->object_start &&
           module->object_end == candidate->object_end && module->start == candidate->start &&
           module->fingerprint == candidate->fingerprint;
}

static const struct module *find_by_index(const struct module_object *object, uintptr_t pc)
{
    const uint16_t *set = index_set_of(object->start);
    for (unsigned way = 0; way < INDEX_WAYS; way++) {
        uint16_t index = load_relaxed(&set[way]);
        if (index != 0 && module_is(&modules[index - 1], object, pc))
            return &modules[index - 1];
    }
    return NULL;
}

static const struct module *find_in_table(const struct module_object *object, uintptr_t pc)
{
    uint32_t used = load_acquire(&modules_used);
    for (uint32_t i = 0; i < used; i++) {
        if (module_is(&modules[i], object, pc)) {
            index_note(&modules[i]);
            return &modules[i];
        }
    }
    return NULL;
}

static bool is_alive_at(const struct module *module, uintptr_t pc)
{
    return load_acquire(&module->state) == MODULE_ALIVE && pc >= module->start && pc < module->end;
}

/* Return the module at pc if its memory still shows it. /proc/self/maps, which would take a hundred
 * times as long, is then not read. */
static const struct module *find_unchanged(uintptr_t pc)
{
    uint32_t used = system_copies_memory() ? load_acquire(&modules_used) : 0;
    for (uint32_t i = 0; i < used; i++) {
        const struct module *module = &modules[i];
        uint32_t number = module_number(module);
        if (is_alive_at(module, pc) && module_object_fingerprint(module) == module->fingerprint) {
            /* Meanwhile the place may have become another module's. */
            barrier_acquire();
            return is_alive_at(module, pc) && module_number(module) == number ? module : NULL;
        }
    }
    return NULL;
}

/* Return the place of the same module among the first `count`. It is alive again, or was. */
static struct module *revive(const struct module *candidate, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct module *module = &modules[i];
        uint32_t state = load_acquire(&module->state);
        if (state == MODULE_BUSY || !module_same(module, candidate))
            continue;
        if (state == MODULE_FREE) {
            if (!cas_acq_rel(&module->state, &state, MODULE_BUSY))
                continue;
            /* Meanwhile it may have been another module's. */
            if (!module_same(module, candidate)) {
                store_release(&module->state, MODULE_FREE);
                continue;
            }
            store_relaxed(&module->link_map, candidate->link_map);
            store_release(&module->state, MODULE_ALIVE);
        } else {
            store_relaxed(&module->link_map, candidate->link_map);
        }
        return module;
    }
    return NULL;
}

/* Take a free place of the table. Return NULL if the table is full. */
static struct module *module_take_place(void)
{
    for (uint32_t i = 0; i < MODULES_MAX; i++) {
        uint32_t used = load_relaxed(&modules_used), state = MODULE_FREE;
        if (i == used)
            cas_acq_rel(&modules_used, &used, i + 1);
        if (!load_relaxed(&modules[i].is_kept) &&
            cas_acq_rel(&modules[i].state, &state, MODULE_BUSY))
            return &modules[i];
    }
    return NULL;
}

/* Sets the candidate's number and state, in place: a copy would need more of the program's stack.
 */
static const struct module *module_add(struct module *candidate)
{
    struct module *known = revive(candidate, load_acquire(&modules_used));
    if (known != NULL)
        return known;
    struct module *module = module_take_place();
    if (module == NULL) {
        store_relaxed(&is_full, true);
        return NULL;
    }
    candidate->number = add_relaxed(&numbers, 1);
    candidate->state = MODULE_BUSY;
    store_relaxed(&module->number, candidate->number);
    barrier_release(); /* who reads a word that follows sees the number, and the generation */
    *module = *candidate;
    store_release(&module->state, MODULE_ALIVE);
    /* Another thread may have added it at the same time. */
    known = revive(candidate, (uint32_t)(module - modules));
    if (known == NULL)
        return module;
    store_release(&module->state, MODULE_FREE);
    return known;
}

/* --- objects without a place --- */

static uint64_t absent_mark(uintptr_t pc)
{
    uint64_t age = module_generation() + load_relaxed(&checks) / ABSENT_CHECKS + 1;
    return (pc >> 12) ^ age << ABSENT_GENERATION_SHIFT;
}

static uint64_t *absent_place(uintptr_t pc)
{
    return &absent[(pc >> 12) & (ABSENT - 1)];
}

static bool is_absent(uintptr_t pc)
{
    return load_relaxed(absent_place(pc)) == absent_mark(pc);
}

static const struct module *module_learn(const struct module_object *object, uintptr_t pc)
{
    struct module candidate;
    const struct module *module =
        module_object_read(object, pc, &candidate) ? module_add(&candidate) : NULL;
    if (module != NULL)
        index_note(module);
    else if (object->in_use || system_copies_memory()) /* else another caller may read more */
        store_relaxed(absent_place(pc), absent_mark(pc));
    return module;
}

bool module_is_left_out(uintptr_t pc)
{
    struct module_object object;
    return load_relaxed(&is_full) && module_object_find(pc, &object) && object.has_file;
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
    const struct module *known;
    if (module_object_reads_maps(pc)) {
        known = find_unchanged(pc);
        if (known != NULL || is_absent(pc))
            return known;
    }
    if (!module_object_find(pc, &object)) {
        note_gap(object.start, object.end);
        return NULL;
    }
    known = find_by_index(&object, pc);
    if (likely(known != NULL))
        return known;
    if (is_absent(pc))
        return NULL;
    known = find_in_table(&object, pc);
    if (known != NULL)
        return known;
    object.is_permanent = module_object_is_permanent(object.link_map);
    object.in_use = in_use || object.is_permanent;
    return module_learn(&object, pc);
}

bool module_is_permanent(const struct module *module)
{
    return load_relaxed(&module->is_permanent);
}

bool module_is_unread(uintptr_t pc)
{
    struct module_object object;
    return !system_copies_memory() && module_object_find(pc, &object) && object.has_file;
}

uint32_t module_number(const struct module *module)
{
    return load_relaxed(&module->number);
}

bool module_copy(const struct module *module, uintptr_t pc, struct module *copy)
{
    uint32_t number = load_acquire(&module->number);
    if (load_acquire(&module->state) != MODULE_ALIVE)
        return false;
    *copy = *module;
    barrier_acquire();
    return load_relaxed(&module->number) == number && pc >= copy->start && pc < copy->end;
}

void module_keep(const struct module *module)
{
    store_relaxed(&modules[module - modules].is_kept, 1);
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
    return !after_dlclose;
}

/* Begin another generation, then let other modules take these places. */
static void free_places(struct module *const *gone, unsigned count)
{
    store_relaxed(&is_full, false);
    module_begin_generation();
    for (unsigned i = 0; i < count; i++)
        store_release(&gone[i]->state, MODULE_FREE);
}

static void see_object(uintptr_t start, uintptr_t end, uint32_t check)
{
    const uint16_t *set = index_set_of(start);
    for (unsigned way = 0; way < INDEX_WAYS; way++) {
        uint16_t index = load_relaxed(&set[way]);
        if (index != 0 && modules[index - 1].object_start == start &&
            modules[index - 1].object_end == end)
            store_relaxed(&modules[index - 1].seen, check);
    }
}

/* Begin a check: where only /proc/self/maps tells of objects, read it once for all of them. Return
 * the check's number; 0: each is looked for. */
static uint32_t see_objects(uint32_t used)
{
    if (!module_object_is_from_maps() || used <= 1)
        return 0;
    uint32_t check = add_relaxed(&checks, 1) + 1;
    module_maps_each(see_object, check);
    return check;
}

/* Return whether the object is where it was, as far as that is known. A check that began later may
 * have seen it, too. */
static bool is_mapped(const struct module *module, uint32_t check)
{
    struct module_object object;
    if (module_object_stays() ||
        (check != 0 && (int32_t)(load_relaxed(&module->seen) - check) >= 0))
        return true;
    if (!module_object_find(module->start, &object))
        return object.end == 0 && module_object_is_from_maps(); /* unknown: no file to read */
    return object.start == module->object_start && object.end == module->object_end &&
           object.link_map == load_relaxed(&module->link_map);
}

unsigned module_check_unloaded(bool after_dlclose)
{
    struct module *gone[GONE_MAX];
    unsigned count = 0, compared = 0;
    uint32_t used = load_acquire(&modules_used), check = see_objects(used);
    for (uint32_t i = 0; i < used; i++) {
        struct module *module = &modules[i];
        uint32_t alive = MODULE_ALIVE;
        if (load_acquire(&module->state) != MODULE_ALIVE || module_is_permanent(module))
            continue;
        compared++;
        if (is_mapped(module, check) && is_unchanged(module, after_dlclose))
            continue;
        if (cas_acq_rel(&module->state, &alive, MODULE_BUSY))
            gone[count++] = module;
        if (count == GONE_MAX) {
            free_places(gone, count);
            count = 0;
        }
    }
    if (count > 0)
        free_places(gone, count);
    return compared;
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

#ifdef HEAPPROFD_ATTACHED

/* The attacher knows it. */
static int program_path_read(char *buffer, size_t size)
{
    return heapprofd_attach_params.program[0] != 0
               ? text_copy(buffer, size, heapprofd_attach_params.program)
               : -ENOENT;
}

static int executed_path_read(char *buffer, size_t size)
{
    (void)buffer, (void)size;
    return -ENOENT;
}

#else

/* A loader that was run as a program has mapped the program, and has corrected AT_PHDR. */
static int program_path_read(char *buffer, size_t size)
{
    int length = getauxval(AT_BASE) == 0 ? module_maps_path(getauxval(AT_PHDR), buffer, size) : 0;
    return length > 0 ? length : -ENOENT;
}

/* The path that was executed, which may be relative, and a link. */
static int executed_path_read(char *buffer, size_t size)
{
    const char *path = (const char *)getauxval(AT_EXECFN);
    return path != NULL ? text_copy(buffer, size, path) : -ENOENT;
}

#endif

static int executable_path_read(char *buffer, size_t size)
{
    char link[OWN_FILE_PATH_BYTES];
    int length = program_path_read(buffer, size);
    if (length >= 0)
        return length;
    own_file_path(link, "exe");
    length = own_link_read(link, buffer, size);
    if (length < 0 && executable_path[0] != 0)
        return text_copy(buffer, size, executable_path);
    /* Where /proc is not mounted, as in many root directories of chroot(). */
    return length < 0 ? executed_path_read(buffer, size) : length;
}

void module_keep_executable_path(void)
{
    char path[sizeof(executable_path)];
    if (executable_path_read(path, sizeof(path)) >= 0)
        memcpy(executable_path, path, sizeof(path));
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
    bool is_relative = length > 0 && buffer[0] != '/';
    int mapped = path_from_mapping(module, buffer, size);
    if (mapped < 0 && is_relative)
        mapped = module_maps_path(module->start, buffer, size);
    return mapped > 0 ? mapped : name_read(map, in_use, buffer, size);
}

size_t module_build_id(const struct module *module, bool in_use,
                       uint8_t buffer[MODULE_BUILD_ID_MAX])
{
    size_t length = module->build_id_length;
    bool read =
        length > 0 && module_object_copy(in_use, buffer, (uintptr_t)module->build_id, length);
    return read ? length : 0;
}
