/*
 * Any bytes as a file of another profiler: what comes out must hold together, be summed up and
 * written as pprof, and what was written must be read again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/pprof.h"
#include "import/import.h"
#include "profile/rollup.h"

static void check(bool good)
{
    if (!good)
        abort();
}

static void check_profile(const struct profile *profile)
{
    for (size_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        check(callsite->frame < profile->frame_count);
        check(callsite->parent == PROFILE_NONE || callsite->parent < i);
    }
    for (size_t i = 0; i < profile->frame_count; i++) {
        check(profile->frames[i].mapping == PROFILE_NONE ||
              profile->frames[i].mapping < profile->mapping_count);
        check(profile->frames[i].name != NULL && profile->frames[i].source_file != NULL);
    }
}

static void check_dump(const struct profile *profile, const struct profile_heap *heap,
                       const struct profile_dump *dump)
{
    for (size_t i = 0; i < dump->sample_count; i++) {
        check(dump->samples[i]->callsite < profile->callsite_count);
        for (uint32_t j = 0; j < dump->samples[i]->part_count; j++)
            check(dump->samples[i]->parts[j].type != NULL);
    }
    for (enum rollup_key key = ROLLUP_FUNCTION; key <= ROLLUP_THREAD; key++)
        rollup_free(rollup_new(profile, dump, key));
    rollup_tree_free(rollup_tree_new(profile, dump, false));
    rollup_tree_free(rollup_tree_new(profile, dump, true));
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    /* Traces are another fuzzer's. */
    if (length < 2)
        return 0;
    if (bytes[0] != 0x1f && bytes[0] != 0x28 && import_kind_of(bytes, length, true) == IMPORT_TRACE)
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
    profile_free(profile);
    return 0;
}
