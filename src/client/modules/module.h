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
    uint32_t alive;                     /* 0: unloaded */
};

/*
 * Return the module that contains pc, or NULL (JIT code, garbage). The object of a
 * return address that was reached by CFI cannot be unloaded meanwhile; others are
 * read through process_vm_readv.
 */
const struct module *module_find(uintptr_t pc);

/* Return the module's number, below MODULES_MAX, which it keeps for the life of the process. */
uint32_t module_number(const struct module *module);

/*
 * Return the generation, which grows each time that an object may have been
 * unloaded. Hashes of stacks, unwinding rules and sent modules of older
 * generations are invalid. Costs one load.
 */
uint32_t module_generation(void);

/* Begin another generation. */
void module_begin_generation(void);

/* Compare the known modules with the loader's, about 30 ns each. If one is gone or
 * has changed, begin a new generation. Call it after dlclose, and now and then.
 * Lock-free. */
void module_check_unloaded(void);

/* Call it once, before the first module_find(). */
void module_init(void);

/* Find out what would need system calls later. Call it before they are restricted. */
void module_look_ahead(void);

/* Write the terminated path of the object's file to buffer. Return its length, or a
 * negative errno. Not for the warm path: it may call readlink("/proc/self/exe"). */
int module_path(const struct module *module, char *buffer, size_t size);

#endif
