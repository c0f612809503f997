/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a file of another profiler: the resulting profile must be consistent, must be summed
 * up and written as pprof, and that file must be readable. A filtered profile must be consistent,
 * too, and its sum plus the omitted part must equal the whole.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profile/filter.h"
#include "profile/folding.h"
#include "profile/import/import.h"
#include "profile_checks.h"
#include "tools/export/pprof.h"

static void check_dump(const struct profile *profile, const struct profile_heap *heap,
                       const struct profile_dump *dump)
{
    check_samples(profile, dump);
    int fd = memfd_create("pprof", MFD_CLOEXEC);
    check(pprof_write(profile, heap, dump, &(struct pprof_options){.gzip = false}, fd, NULL) == 0);
    size_t length = (size_t)lseek(fd, 0, SEEK_END);
    void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    check(bytes != MAP_FAILED);
    struct profile *again = import_profile_bytes(bytes, length, NULL, NULL);
    check(again != NULL && again->heap_count == 1);
    profile_free(again);
    munmap(bytes, length);
}

static uint64_t count_samples(const struct profile *profile)
{
    uint64_t count = 0;
    for (size_t i = 0; i < profile->heap_count; i++) {
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++) {
            const struct profile_dump *dump = &profile->heaps[i].dumps[j];
            count += dump->left_out.sum.figures.samples;
            for (size_t k = 0; k < dump->sample_count; k++)
                count += dump->samples[k]->figures.samples;
        }
    }
    return count;
}

/* Filter by a letter in names, or by a library. */
static void check_filter(struct profile *profile, enum profile_filter_kind kind, uint8_t letter)
{
    const char text[] = {(char)('a' + letter % 26), '|', 's', 'o', '\0'};
    struct profile_filter filter = {0};
    struct folding folding;
    uint64_t samples = count_samples(profile);
    check(profile_filter_add(&filter, kind, text, NULL) == 0);
    check(profile_filter_apply(&filter, profile, NULL) == 0);
    check(count_samples(profile) == samples);
    check_profile(profile);
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            check_dump(profile, &profile->heaps[i], &profile->heaps[i].dumps[j]);
    check(folding_make(&folding, profile) == 0);
    for (uint32_t i = 0; i < profile->callsite_count; i++)
        check(folding_head(&folding, profile, i) < profile->callsite_count);
    folding_clear(&folding);
    profile_filter_clear(&filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    /* Another fuzzer covers traces. */
    if (length < 2)
        return 0;
    /* Packed: gzip, zstd, LZ4. */
    bool is_packed = bytes[0] == 0x1f || bytes[0] == 0x28 || bytes[0] == 0x04;
    enum import_kind kind = import_kind_of(bytes, length, true);
    if (!is_packed && (kind == IMPORT_TRACE || kind == IMPORT_UNKNOWN))
        return 0;
    struct error error = {0};
    struct profile *profile = import_profile_bytes(bytes, length, NULL, &error);
    check(profile != NULL || error.message[0] != '\0');
    if (profile == NULL)
        return 0;
    check_profile(profile);
    for (size_t i = 0; i < profile->heap_count; i++)
        for (size_t j = 0; j < profile->heaps[i].dump_count; j++)
            check_dump(profile, &profile->heaps[i], &profile->heaps[i].dumps[j]);
    check_filter(profile, bytes[length - 1] % PROFILE_FILTER_KINDS, bytes[length / 2]);
    profile_free(profile);
    return 0;
}
