/*
 * What libc and the loader give the client elsewhere: memory functions that the compiler may call,
 * and the few functions of the process that the attacher has looked up.
 */
#include <stdint.h>

#include "client/attached/attached.h"
#include "client/client.h"
#include "client/elf_lookup.h"
#include "wire/barrier.h"

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
HIDDEN void *memmove(void *to, const void *from, size_t bytes);
HIDDEN void *memset(void *to, int value, size_t bytes);
HIDDEN int memcmp(const void *a, const void *b, size_t bytes);

#if defined(__x86_64__)
/* The string instructions keep the compiler from finding a call of memcpy in memcpy. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
    return to;
}
#endif

void *memmove(void *to, const void *from, size_t bytes)
{
    volatile uint8_t *target = to;
    const uint8_t *source = from;
    if ((uintptr_t)to <= (uintptr_t)from || (uintptr_t)to >= (uintptr_t)from + bytes)
        return memcpy(to, from, bytes);
    while (bytes-- > 0)
        target[bytes] = source[bytes];
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const volatile uint8_t *left = a, *right = b;
    for (size_t i = 0; i < bytes; i++) {
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    }
    return 0;
}

/* The one function that the client asks for by name. */
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
    add_relaxed(&heapprofd_attach_params.unnoted, 1);
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
