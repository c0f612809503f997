/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of trace_addresses.h: their sets of addresses, and the names that the trace has. */
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "profile/symbolize/trace_addresses.h"
#include "util/array.h"
#include "util/hex.h"

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Sort the numbers and drop repetitions. */
static void sort_numbers(uint64_t *numbers, size_t *count)
{
    size_t kept = 0;
    if (*count == 0)
        return;
    qsort(numbers, *count, sizeof(*numbers), compare_numbers);
    for (size_t i = 1; i < *count; i++) {
        if (numbers[i] != numbers[kept])
            numbers[++kept] = numbers[i];
    }
    *count = kept + 1;
}

/* Add a number. When the array is full, repetitions are dropped, so it never has room for more than
 * about twice the distinct numbers. */
static int add_number(uint64_t **numbers, size_t *count, size_t *capacity, uint64_t number)
{
    if (*count == *capacity) {
        sort_numbers(*numbers, count);
        if (*count >= *capacity / 2 && ARRAY_RESERVE(numbers, capacity, *count, *count + 64) < 0)
            return -ENOMEM;
    }
    (*numbers)[(*count)++] = number;
    return 0;
}

int trace_module_add_address(struct trace_module *module, uint64_t address)
{
    return add_number(&module->addresses, &module->count, &module->capacity, address);
}

static uint64_t name_key(uint64_t address, uint64_t name_hash)
{
    return XXH3_64bits_withSeed(&address, sizeof(address), name_hash);
}

int trace_module_add_name(struct trace_module *module, uint64_t address, uint64_t name_hash)
{
    return add_number(&module->named, &module->named_count, &module->named_capacity,
                      name_key(address, name_hash));
}

bool trace_module_has_name(const struct trace_module *module, uint64_t address, const void *name,
                           size_t length)
{
    uint64_t key = name_key(address, XXH3_64bits(name, length));
    return module->named_count > 0 &&
           bsearch(&key, module->named, module->named_count, sizeof(key), compare_numbers) != NULL;
}

size_t trace_module_find_address(const struct trace_module *module, uint64_t address)
{
    const uint64_t *found = module->count == 0 ? NULL
                                               : bsearch(&address, module->addresses, module->count,
                                                         sizeof(address), compare_numbers);
    return found == NULL ? module->count : (size_t)(found - module->addresses);
}

void trace_module_set_build_id(struct trace_module *module, const char *hex)
{
    module->build_id_length = hex_read(hex, module->build_id, sizeof(module->build_id));
}

void trace_addresses_sort(struct trace_addresses *addresses)
{
    for (size_t i = 0; i < addresses->count; i++) {
        struct trace_module *module = &addresses->modules[i];
        sort_numbers(module->addresses, &module->count);
        sort_numbers(module->named, &module->named_count);
    }
}

void trace_addresses_clear(struct trace_addresses *addresses)
{
    for (size_t i = 0; i < addresses->count; i++) {
        free(addresses->modules[i].path);
        free(addresses->modules[i].addresses);
        free(addresses->modules[i].named);
    }
    free(addresses->modules);
    *addresses = (struct trace_addresses){0};
}
