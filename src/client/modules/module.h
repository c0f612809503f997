/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loaded objects of the process, learnt one by one from the frames that
 * fall into them, without the dynamic loader's lock (_dl_find_object; glibc
 * 2.35 and later, /proc/self/maps elsewhere).
 */
#ifndef HEAPPROFD_CLIENT_MODULES_MODULE_H
#define HEAPPROFD_CLIENT_MODULES_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODULE_BUILD_ID_MAX 64
#define MODULES_MAX 4096

/*
 * One executable segment of a loaded object (nearly every object has one):
 * what /proc/self/maps shows as one mapping with x. An address of it stands at
 * address - start + file_offset + load_bias in the ELF file's own numbering.
 */
struct module {
    uintptr_t start, end;        /* addresses of the segment, [start, end) */
    uintptr_t load_address;      /* of address 0 of the ELF file (l_addr) */
    uint64_t file_offset;        /* of start in the file */
    uint64_t load_bias;          /* p_vaddr - p_offset of the segment */
    const void *link_map;        /* identity of the object for the loader; NULL: not known */
    const uint8_t *eh_frame_hdr; /* NULL: none */
    const uint8_t *build_id;     /* in the object's own memory; NULL: none */
    size_t build_id_length;

    uintptr_t object_start, object_end; /* what the loader takes for the object */
    uintptr_t header;                   /* of the ELF header */
    uintptr_t cfi_low, cfi_high;        /* the readable segment that holds eh_frame_hdr */
    uint64_t fingerprint;               /* of headers and build id: tells objects apart */
    uint32_t alive;                     /* 0: unloaded */
};

/*
 * The object that holds pc, or NULL (JIT code, garbage). A return address that
 * was reached by trusted unwinding cannot see its object unloaded meanwhile;
 * others are looked at through process_vm_readv.
 */
const struct module *module_find(uintptr_t pc);

/* Below MODULES_MAX; the same as long as the process lives. */
uint32_t module_number(const struct module *module);

/*
 * Grows each time that an object may have been unloaded: hashes of stacks,
 * unwinding rules and modules sent before it are void. Cheap (one load).
 */
uint32_t module_generation(void);

/* Begins another one. */
void module_begin_generation(void);

/* To be called after dlclose returned, and now and then (it compares the known
 * modules with the loader's, about 30 ns each): begins a new generation if one
 * of them is gone or has changed. Lock-free. */
void module_check_unloaded(void);

/* To be called once, before the first module_find. */
void module_init(void);

/* Before system calls are restricted: notes what they would be needed for later. */
void module_look_ahead(void);

/* The path of the object's file into buffer (terminated); its length, or a
 * negative errno. Not on the warm path: may readlink("/proc/self/exe"). */
int module_path(const struct module *module, char *buffer, size_t size);

#endif
