/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded objects of the process. Each is found when a frame first falls into
 * it, without the dynamic loader's lock: by _dl_find_object (glibc 2.35 and later),
 * or else by /proc/self/maps.
 */
#ifndef HEAPPROFD_CLIENT_MODULES_MODULE_H
#define HEAPPROFD_CLIENT_MODULES_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODULE_BUILD_ID_MAX 64
/* Loaded at a time. */
#define MODULES_MAX 4096

/*
 * An executable segment of a loaded object, shown by /proc/self/maps as one mapping
 * with x. Nearly every object has one. An address in it is
 * address - start + file_offset + load_bias in the ELF file's own numbering.
 */
struct module {
    uintptr_t start, end;        /* addresses of the segment, [start, end) */
    uintptr_t load_address;      /* of address 0 of the ELF file (l_addr) */
    uint64_t file_offset;        /* of start in the file */
    uint64_t load_bias;          /* p_vaddr - p_offset of the segment */
    const void *link_map;        /* the loader's identity of the object; NULL: unknown */
    const uint8_t *eh_frame_hdr; /* NULL: none */
    const uint8_t *build_id;     /* in the object's own memory; NULL: none */
    size_t build_id_length;

    uintptr_t object_start, object_end; /* the loader's range of the object */
    uintptr_t header;                   /* of the ELF header */
    uintptr_t cfi_low, cfi_high;        /* the readable segment that holds eh_frame_hdr */
    uint64_t fingerprint;               /* hash of headers and build id: distinguishes objects */
    uint32_t number;
    uint32_t state;   /* of the place in the table (module.c) */
    uint32_t is_kept; /* 1: no other module takes the place */
    uint32_t seen;    /* the last check that saw the object in /proc/self/maps (module.c) */
    bool is_permanent;
};

/*
 * Return the module that contains pc, or NULL (JIT code, garbage). in_use: the object cannot be
 * unloaded meanwhile, because a frame of this thread's stack, reached by CFI, returns into it.
 * Others are only read if the kernel may be asked to copy, or if they stay loaded forever.
 */
const struct module *module_find(uintptr_t pc, bool in_use);

/* Return false if a search of module_find() found a while ago that there is no object at pc or near
 * it: the search reads /proc/self/maps where the loader does not tell. Use it for words that need
 * not be code. */
bool module_may_exist(uintptr_t pc);

/* Return whether the module is never unloaded, as far as that is known: the program's start loaded
 * it. */
bool module_is_permanent(const struct module *module);

/* Return whether there is an object at pc which module_find() did not read, because it might
 * vanish. */
bool module_is_unread(uintptr_t pc);

/* Return the module's number, which no other module of the process has or had. */
uint32_t module_number(const struct module *module);

/* Copy the module, which module_find() found for pc. Return false if another one has its place now.
 */
bool module_copy(const struct module *module, uintptr_t pc, struct module *copy);

/* Keep the module's address for it, also after it is unloaded. The caller's stack returns into it.
 */
void module_keep(const struct module *module);

/* Return whether there is an object at pc for which the table of modules has no place. */
bool module_is_left_out(uintptr_t pc);

/*
 * Return the generation, which grows each time that an object may have been
 * unloaded. Hashes of stacks, unwinding rules and sent modules of older
 * generations are invalid. Costs one load.
 */
uint32_t module_generation(void);

/* Begin another generation. */
void module_begin_generation(void);

/* Compare the known modules that may be unloaded with the loader's and with their memory, 1 to 3 us
 * each. If one is gone or has changed, begin a new generation. Return how many were compared. Call
 * it after dlclose, and now and then. Lock-free. after_dlclose: an object that may not be read
 * counts as gone, because another one could be in its place now. */
unsigned module_check_unloaded(bool after_dlclose);

/* Call it once, before the first module_find(). */
void module_init(void);

/* Keep the executable's path for the time after system calls are restricted. */
void module_keep_executable_path(void);

/* Write the terminated path of the object's file to buffer. Return its length, or a
 * negative errno. in_use: as for module_find(). Not for the warm path: it makes system calls. */
int module_path(const struct module *module, bool in_use, char *buffer, size_t size);

/* Copy the module's build id to buffer. Return its length; 0: it has none, or might vanish. */
size_t module_build_id(const struct module *module, bool in_use,
                       uint8_t buffer[MODULE_BUILD_ID_MAX]);

#endif
