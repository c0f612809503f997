/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the loaded object of an address, by the loader without its lock or by /proc/self/maps, and
 * reads its ELF headers in memory. The kernel copies what is read, so that an object which is
 * unloaded meanwhile causes an error instead of a fault. If the kernel may not be asked to copy
 * (seccomp), only an object that cannot be unloaded meanwhile is read.
 */
#ifndef HEAPPROFD_CLIENT_MODULES_MODULE_OBJECT_H
#define HEAPPROFD_CLIENT_MODULES_MODULE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/modules/module.h"

struct module_object {
    uintptr_t start, end;
    const void *link_map; /* NULL: unknown */
    bool has_file;        /* false: memory of no file, which may be generated code */
    /* Set by the caller: module_object_is_permanent(), and whether it cannot be unloaded meanwhile.
     */
    bool is_permanent, in_use;
};

/* Find the loader's function. Call it once, at start-up. */
void module_object_init(void);

/* Find the object that contains pc. Return false if there is none. */
bool module_object_find(uintptr_t pc, struct module_object *object);

/* Return whether the object is never unloaded, as far as that is known: the loader lists those that
 * the program's start has loaded first, itself among them. This list before itself never changes.
 */
bool module_object_is_permanent(const void *link_map);

/* The same as module_object_find(), by /proc/self/maps. If no object contains pc, set start and end
 * to those of the range without objects around it; both are 0 if the file could not be read. */
bool module_maps_find(uintptr_t pc, struct module_object *object);

/* Return whether only /proc/self/maps tells which objects there are. */
bool module_object_is_from_maps(void);

/* Return whether module_object_find() would read /proc/self/maps for this address. */
bool module_object_reads_maps(uintptr_t pc);

/* Return whether the loader never unloads an object: musl. */
bool module_object_stays(void);

/* Call see() with the range of each object that module_maps_find() would find in one reading of
 * /proc/self/maps. */
void module_maps_each(void (*see)(uintptr_t start, uintptr_t end, uint32_t word), uint32_t word);

/* Write the path of the file that is mapped at an address, as /proc/self/maps has it. Return its
 * length; 0: no file is, or the path does not fit; or a negative errno. */
int module_maps_path(uintptr_t address, char *buffer, size_t size);

/* Fill *module with the object's executable segment that contains pc. Return false if
 * there is no such segment, or the object is not an ELF file. */
bool module_object_read(const struct module_object *object, uintptr_t pc, struct module *module);

/* Return the fingerprint of the object that is now at the module's place, or 0 if the kernel could
 * not copy it. */
uint64_t module_object_fingerprint(const struct module *module);

/* Copy memory of an object. Return false if it is gone, or might vanish and may not be copied. */
bool module_object_copy(bool in_use, void *to, uintptr_t from, size_t bytes);

#endif
