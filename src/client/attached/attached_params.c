/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use the parameters that the attacher wrote into the blob (wire/attached_params.h). They replace
 * the loader: addresses of the process's functions come from them. The client
 * lists its mappings there, so that the attacher can unmap them when it leaves.
 */
#include <stdint.h>
#include <string.h>

#include "client/attached.h"
#include "client/client.h"
#include "client/elf_lookup.h"
#include "wire/barrier.h"

/* Return the only function that the client looks up by name. */
struct elf_found elf_lookup_next(const char *name, int startup)
{
    static const char wanted[] = "_dl_find_object";
    (void)startup;
    if (memcmp(name, wanted, sizeof(wanted)) != 0)
        return (struct elf_found){NULL, "", NULL};
    return (struct elf_found){(void *)heapprofd_attach_params.dl_find_object, "", NULL};
}

void *elf_lookup_vdso(const char *name)
{
    (void)name;
    return (void *)heapprofd_attach_params.clock_gettime;
}

void attached_note_mapped(void *memory, size_t bytes)
{
    struct attached_mapping *mapped = heapprofd_attach_params.mapped;
    for (unsigned i = 0; i < ATTACHED_MAPPED_MAX; i++) {
        uint64_t expected = 0;
        if (!cas_relaxed(&mapped[i].address, &expected, (uintptr_t)memory))
            continue;
        store_relaxed(&mapped[i].bytes, bytes);
        return;
    }
    add_relaxed(&heapprofd_attach_params.unrecorded, 1);
}

void attached_note_unmapped(void *memory)
{
    struct attached_mapping *mapped = heapprofd_attach_params.mapped;
    for (unsigned i = 0; i < ATTACHED_MAPPED_MAX; i++) {
        if (load_relaxed(&mapped[i].address) != (uintptr_t)memory)
            continue;
        store_relaxed(&mapped[i].bytes, 0);
        store_release(&mapped[i].address, 0);
        return;
    }
}
