/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call _dl_find_object (glibc 2.35 and later), which is lock-free and async-signal-safe, or look
 * into the loader's list, and read an object's headers. The function is looked up by hand: a
 * reference to it, even a weak one, would keep this library from loading with an older glibc.
 */
#include "client/modules/module_object.h"

#include <elf.h>
#include <link.h>

#include "client/elf_lookup.h"
#ifdef HEAPPROFD_ATTACHED
#include "client/attached.h"
#include "wire/barrier.h"
#else
#include "client/libc/first_objects.h"
#endif
#include "client/system.h"

#define PAGE_BYTES 4096u
#define PROGRAM_HEADERS_MAX 64u
#define NOTES_BYTES_MAX 4096u
#define OBJECTS_MAX 8192u

/* struct dl_find_object, which headers of older systems lack. */
struct loader_object {
    unsigned long long flags;
    void *map_start, *map_end;
    void *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};

static int (*loader_find)(void *address, struct loader_object *object);

void module_object_init(void)
{
    loader_find = elf_lookup_next("_dl_find_object", 1).address;
}

bool module_object_copy(bool in_use, void *to, uintptr_t from, size_t bytes)
{
    return in_use ? system_read_in_use(to, from, bytes)
                  : system_read_memory(to, from, bytes) == (long)bytes;
}

static bool find_by_glibc(uintptr_t pc, struct module_object *object)
{
    struct loader_object found;
    if (loader_find((void *)pc, &found) != 0)
        return false;
    object->start = (uintptr_t)found.map_start;
    object->end = (uintptr_t)found.map_end;
    object->link_map = found.link_map;
    return true;
}

#ifdef HEAPPROFD_ATTACHED

/* An attached client does not know the loader's list. */
static bool loader_lists_later(void)
{
    return false;
}

static bool find_in_list(uintptr_t pc, struct module_object *object)
{
    (void)pc;
    (void)object;
    return false;
}

static bool is_first(const void *link_map)
{
    (void)link_map;
    return false;
}

/* The object that has the patched allocator, which stays loaded: a static program, or musl. Its
 * end is set first. 0: not found yet. */
static uintptr_t patched_start, patched_end;

static bool is_patched(uintptr_t pc)
{
    uintptr_t start = load_acquire(&patched_start);
    return start != 0 && pc >= start && pc < load_relaxed(&patched_end);
}

static bool find_by_maps(uintptr_t pc, struct module_object *object)
{
    uintptr_t site =
        heapprofd_attach_params.site_count > 0 ? heapprofd_attach_params.sites[0].address : 0;
    if (is_patched(pc)) {
        *object = (struct module_object){.start = load_relaxed(&patched_start),
                                         .end = load_relaxed(&patched_end),
                                         .has_file = true};
        return true;
    }
    if (!module_maps_find(pc, object))
        return false;
    if (site >= object->start && site < object->end) {
        store_relaxed(&patched_end, object->end);
        store_release(&patched_start, object->start);
    }
    return true;
}

/* Return whether the object of the address is known without a search. */
static bool is_known(uintptr_t pc)
{
    return is_patched(pc);
}

#else

static bool is_known(uintptr_t pc)
{
    struct listed_object found;
    return first_objects_find(pc, &found);
}

static bool find_by_maps(uintptr_t pc, struct module_object *object)
{
    return module_maps_find(pc, object);
}

static bool loader_lists_later(void)
{
    return later_objects_are_known();
}

static bool find_in_list(uintptr_t pc, struct module_object *object)
{
    struct listed_object found;
    if (!first_objects_find(pc, &found) &&
        !(later_objects_are_known() && later_objects_find(pc, &found)))
        return false;
    object->start = found.start;
    object->end = found.end;
    object->link_map = found.link_map;
    return true;
}

static bool is_first(const void *link_map)
{
    return first_objects_has(link_map);
}

#endif

bool module_object_is_from_maps(void)
{
    return loader_find == NULL && !loader_lists_later();
}

bool module_object_reads_maps(uintptr_t pc)
{
    return module_object_is_from_maps() && !is_known(pc);
}

bool module_object_stays(void)
{
    return loader_find == NULL && loader_lists_later();
}

bool module_object_find(uintptr_t pc, struct module_object *object)
{
    object->start = object->end = 0;
    object->link_map = NULL;
    object->has_file = true;
    if (loader_find != NULL)
        return find_by_glibc(pc, object);
    return find_in_list(pc, object) || (module_object_is_from_maps() && find_by_maps(pc, object));
}

bool module_object_is_permanent(const void *link_map)
{
    struct loader_object loader;
    if (link_map == NULL)
        return false;
    if (loader_find == NULL)
        return is_first(link_map);
    if (loader_find((void *)loader_find, &loader) != 0)
        return false;
    const struct link_map *map = loader.link_map;
    for (unsigned i = 0; i < OBJECTS_MAX && map != NULL; i++, map = map->l_prev) {
        if (map == link_map)
            return true;
    }
    return false;
}

static uint64_t fingerprint_mix(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t fingerprint(bool in_use, const Elf64_Ehdr *header, const uint8_t *build_id,
                            size_t length)
{
    uint64_t hash = fingerprint_mix(UINT64_C(0xcbf29ce484222325), header, sizeof(*header));
    uint8_t copy[MODULE_BUILD_ID_MAX];
    if (length > 0 && module_object_copy(in_use, copy, (uintptr_t)build_id, length))
        hash = fingerprint_mix(hash, copy, length);
    return hash | 1;
}

static bool header_read(bool in_use, uintptr_t start, Elf64_Ehdr *header)
{
    return module_object_copy(in_use, header, start, sizeof(*header)) &&
           header->e_ident[0] == ELFMAG0 && header->e_ident[1] == ELFMAG1 &&
           header->e_ident[2] == ELFMAG2 && header->e_ident[3] == ELFMAG3 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(Elf64_Phdr) &&
           header->e_phnum <= PROGRAM_HEADERS_MAX;
}

/* Find the ELF header. The loader's range may be only one segment of the object, if there are holes
 * between its segments. */
static uintptr_t header_find(const struct module_object *object, uintptr_t pc, Elf64_Ehdr *header)
{
    uintptr_t load_address;
    struct module_object mapped;
    if (header_read(object->in_use, object->start, header))
        return object->start;
    if (object->link_map != NULL &&
        module_object_copy(object->in_use, &load_address, (uintptr_t)object->link_map,
                           sizeof(load_address)) &&
        load_address != 0 && header_read(object->in_use, load_address, header))
        return load_address;
    if (module_maps_find(pc, &mapped) && header_read(object->in_use, mapped.start, header))
        return mapped.start;
    return 0;
}

/* Find the build id among the notes at [at, at + bytes). */
static void notes_read(bool in_use, struct module *module, uintptr_t at, size_t bytes)
{
    if (bytes > NOTES_BYTES_MAX)
        return;
    while (bytes >= sizeof(Elf64_Nhdr)) {
        struct {
            Elf64_Nhdr head;
            char name[4];
        } note = {0};
        size_t want = bytes < sizeof(note) ? bytes : sizeof(note);
        if (!module_object_copy(in_use, &note, at, want))
            return;
        uint64_t name_bytes = ((uint64_t)note.head.n_namesz + 3) & ~UINT64_C(3);
        uint64_t data_bytes = ((uint64_t)note.head.n_descsz + 3) & ~UINT64_C(3);
        uint64_t total = sizeof(note.head) + name_bytes + data_bytes;
        if (total > bytes)
            return;
        if (note.head.n_type == NT_GNU_BUILD_ID && note.head.n_namesz == 4 &&
            __builtin_memcmp(note.name, "GNU", 4) == 0 && note.head.n_descsz > 0 &&
            note.head.n_descsz <= MODULE_BUILD_ID_MAX) {
            module->build_id = (const uint8_t *)(at + sizeof(note.head) + name_bytes);
            module->build_id_length = note.head.n_descsz;
            return;
        }
        at += total;
        bytes -= total;
    }
}

static uintptr_t page_down(uintptr_t address)
{
    return address & ~(uintptr_t)(PAGE_BYTES - 1);
}

static uintptr_t page_up(uintptr_t address)
{
    return page_down(address + PAGE_BYTES - 1);
}

/* Read the code segment that contains pc, and find .eh_frame_hdr and build id. */
static bool segments_read(bool in_use, const Elf64_Ehdr *header, uintptr_t pc,
                          struct module *module)
{
    uintptr_t first = UINTPTR_MAX;
    Elf64_Phdr segment;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        uintptr_t at = module->header + header->e_phoff + i * sizeof(segment);
        if (!module_object_copy(in_use, &segment, at, sizeof(segment)))
            return false;
        if (segment.p_type == PT_LOAD && first == UINTPTR_MAX) {
            first = page_down(segment.p_vaddr);
            module->load_address = module->header - first;
        }
        /* Segments are in order, and those before the first PT_LOAD (PT_PHDR, PT_INTERP) are not
         * needed. */
        uintptr_t start = module->load_address + segment.p_vaddr;
        if (first == UINTPTR_MAX || start + segment.p_memsz < start)
            continue;
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && pc >= page_down(start) &&
            pc < page_up(start + segment.p_memsz)) {
            module->start = page_down(start);
            module->end = page_up(start + segment.p_memsz);
            module->file_offset = page_down(segment.p_offset);
            module->load_bias = segment.p_vaddr - segment.p_offset;
        } else if (segment.p_type == PT_GNU_EH_FRAME) {
            module->eh_frame_hdr = (const uint8_t *)start;
        } else if (segment.p_type == PT_NOTE && module->build_id == NULL) {
            notes_read(in_use, module, start, segment.p_filesz);
        }
    }
    return module->end != 0;
}

/* Find the readable segment that contains .eh_frame_hdr. Without one there is no CFI. */
static void cfi_bounds_read(bool in_use, const Elf64_Ehdr *header, struct module *module)
{
    uintptr_t hdr = (uintptr_t)module->eh_frame_hdr;
    Elf64_Phdr segment;
    module->eh_frame_hdr = NULL;
    for (unsigned i = 0; hdr != 0 && i < header->e_phnum; i++) {
        uintptr_t at = module->header + header->e_phoff + i * sizeof(segment);
        if (!module_object_copy(in_use, &segment, at, sizeof(segment)))
            return;
        uintptr_t low = module->load_address + segment.p_vaddr;
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_R) || hdr < low ||
            hdr - low >= segment.p_filesz)
            continue;
        module->eh_frame_hdr = (const uint8_t *)hdr;
        module->cfi_low = low;
        module->cfi_high = low + segment.p_filesz;
    }
}

bool module_object_read(const struct module_object *object, uintptr_t pc, struct module *module)
{
    Elf64_Ehdr header;
    *module = (struct module){.object_start = object->start,
                              .object_end = object->end,
                              .link_map = object->link_map,
                              .is_permanent = object->is_permanent};
    module->header = header_find(object, pc, &header);
    if (module->header == 0 || !segments_read(object->in_use, &header, pc, module))
        return false;
    cfi_bounds_read(object->in_use, &header, module);
    module->fingerprint =
        fingerprint(object->in_use, &header, module->build_id, module->build_id_length);
    return true;
}

uint64_t module_object_fingerprint(const struct module *module)
{
    Elf64_Ehdr header;
    if (!header_read(false, module->header, &header))
        return 0;
    return fingerprint(false, &header, module->build_id, module->build_id_length);
}
