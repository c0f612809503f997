/* SPDX-License-Identifier: Apache-2.0 */
/* The size classes of common allocators. */
#include "recorder/ledger/usable_size.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "util/base_name.h"

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t round_up(uint64_t size, uint64_t to)
{
    return (size + to - 1) / to * to;
}

static bool has_own_mapping_in_glibc(uint64_t size, uint64_t address, uint64_t *begins)
{
    *begins = address - 16;
    return size >= (128u << 10) && size < UINT64_MAX / 4 && address % page_bytes() == 16;
}

static bool has_no_own_mapping(uint64_t size, uint64_t address, uint64_t *begins)
{
    (void)size;
    *begins = address;
    return false;
}

/* The GNU C library: one word of header, multiples of 16, at least 32. A chunk with a mapping of
 * its own begins 16 bytes into a page and has whole pages; no chunk below 128 KiB has one. */
static uint64_t taken_of_glibc(uint64_t size, uint64_t address)
{
    if (size > UINT64_MAX / 2)
        return size;
    if (has_own_mapping_in_glibc(size, address, &address))
        return round_up(size + 16, page_bytes());
    uint64_t chunk = round_up(size + 8, 16);
    return chunk < 32 ? 32 : chunk;
}

/* jemalloc: 8, multiples of 16 up to 128, then four classes for each power of two; no header. */
static uint64_t taken_of_jemalloc(uint64_t size, uint64_t address)
{
    (void)address;
    if (size <= 8)
        return 8;
    if (size <= 128)
        return round_up(size, 16);
    if (size > UINT64_MAX / 2)
        return size;
    unsigned power = 63u - (unsigned)__builtin_clzll(size - 1);
    return round_up(size, UINT64_C(1) << (power - 2));
}

static const struct usable_size_rule glibc = {"glibc", taken_of_glibc, has_own_mapping_in_glibc};
static const struct usable_size_rule jemalloc = {"jemalloc", taken_of_jemalloc, has_no_own_mapping};

const struct usable_size_rule *usable_size_rule_of(const char *allocator)
{
    if (allocator == NULL)
        return NULL;
    const char *name = base_name(allocator);
    if (strcmp(name, "libc.so.6") == 0 || strncmp(name, "libc-2.", 7) == 0)
        return &glibc;
    if (strncmp(name, "libjemalloc.so", 14) == 0)
        return &jemalloc;
    return NULL;
}
