/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile dumps, read with a search for names and written again. Input: MemoryInfra JSON. What is
 * written must be readable without a warning, and have the same live memory.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzzing.h"
#include "profile/import/import.h"
#include "profile/memory_infra/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Numbers below are whole in a double. */
#define EXACT_MAX 0x1p53

static struct profile *read_named(const void *bytes, size_t length)
{
    const struct symbol_finder_options nowhere = {.offline = true};
    struct error error = {0}, warning;
    struct import_naming naming = {.finder = symbol_finder_open(&nowhere, &warning, &error),
                                   .symbolizing.no_cache = true};
    const struct profile_read_options options = {.naming = &naming};
    check(naming.finder != NULL);
    struct profile *profile = import_profile_bytes(bytes, length, &options, &error);
    check(profile != NULL || error.message[0] != '\0');
    import_naming_clear(&naming);
    symbol_finder_close(naming.finder);
    return profile;
}

static struct export_dump *list_dumps(const struct profile *profile, size_t *count)
{
    size_t most = 0;
    *count = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        most += profile->heaps[i].dump_count;
    struct export_dump *dumps = malloc((most + 1) * sizeof(*dumps));
    check(dumps != NULL);
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            dumps[(*count)++] =
                (struct export_dump){&profile->heaps[i], &profile->heaps[i].dumps[j]};
    return dumps;
}

static double live_bytes(const struct profile *profile, size_t *dump_count)
{
    struct export_dump *dumps = list_dumps(profile, dump_count);
    double bytes = 0;
    for (size_t i = 0; i < *dump_count; i++)
        bytes += dumps[i].dump->total.allocated_bytes - dumps[i].dump->total.freed_bytes;
    free(dumps);
    return bytes;
}

/* Return false if the stacks are too many and too deep to be written. */
static bool write_dumps(const struct profile *profile, char **text, size_t *length)
{
    static const struct memory_infra_write_options usual = {.stack_mode = HEAP_STACK_NATIVE,
                                                            .reported = true};
    size_t count;
    struct export_dump *dumps = list_dumps(profile, &count);
    FILE *out = open_memstream(text, length);
    check(out != NULL);
    int64_t sites = memory_infra_write(profile, dumps, count, &usual, out);
    check(fclose(out) == 0 && (sites >= 0 || sites == -E2BIG));
    free(dumps);
    return sites >= 0;
}

static void check_again(const struct profile *profile, const char *text, size_t length)
{
    size_t dumps, dumps_again;
    struct profile *again = read_named(text, length);
    check(again != NULL && again->warning[0] == '\0');
    double bytes = live_bytes(profile, &dumps), bytes_again = live_bytes(again, &dumps_again);
    check(dumps == dumps_again);
    if (bytes < EXACT_MAX && fabs(bytes - bytes_again) > 1e-6 * bytes + (double)dumps) {
        fprintf(stderr, "%.17g bytes became %.17g\n", bytes, bytes_again);
        abort();
    }
    profile_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    if (import_kind_of(data, size, true) != IMPORT_MEMORY_INFRA)
        return 0;
    struct profile *profile = read_named(data, size);
    if (profile == NULL)
        return 0;
    if (write_dumps(profile, &text, &length))
        check_again(profile, text, length);
    free(text);
    profile_free(profile);
    return 0;
}
