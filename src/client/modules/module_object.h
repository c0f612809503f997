/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded objects as the process has them: which object holds an address (asked
 * of the loader without its lock, or of /proc/self/maps), and what its ELF
 * headers in memory say. All memory is looked at through the kernel, so that an
 * object that is unloaded meanwhile costs an answer and not a fault.
 */
#ifndef HEAPPROFD_CLIENT_MODULES_MODULE_OBJECT_H
#define HEAPPROFD_CLIENT_MODULES_MODULE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/modules/module.h"

struct module_object {
    uintptr_t start, end;
    const void *link_map; /* NULL: not known */
};

/* Learns how to ask the loader; once, at startup. */
void module_object_init(void);

/* The object that holds pc. */
bool module_object_find(uintptr_t pc, struct module_object *object);

/* The same from /proc/self/maps. */
bool module_maps_find(uintptr_t pc, struct module_object *object);

/* Fills module with the executable segment of the object that holds pc; false:
 * no such segment, or not an ELF file. */
bool module_object_read(const struct module_object *object, uintptr_t pc, struct module *module);

/* The fingerprint of what now stands where the module's object stood; 0: nothing. */
uint64_t module_object_fingerprint(const struct module *module);

#endif
