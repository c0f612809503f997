/* SPDX-License-Identifier: Apache-2.0 */
/* Makes calls that fail because their arguments are wrong, as often as the argument says. They
 * leave no memory, so they are no allocations. */
#include <errno.h>
#include <string.h>

#include "truth.h"

static CALLSITE void fail_to_align(void)
{
    void *memory = NULL;
    require(posix_memalign(&memory, 3, 100) == EINVAL);
    require(posix_memalign(&memory, 2, 100) == EINVAL);
    require(posix_memalign(&memory, 0, 100) == EINVAL);
    require(posix_memalign(&memory, (size_t)1 << 63, 100) != 0);
    require(memory == NULL);
    free(kept(memory));
}

static CALLSITE void align(void)
{
    void *memory = NULL;
    require(posix_memalign(&memory, 64, 100) == 0);
    free(kept(memory));
    memory = kept(aligned_alloc(64, 128));
    require(memory);
    free(memory);
}

int main(int argc, char **argv)
{
    require(argc == 2);
    long calls = atol(argv[1]);
    for (long i = 0; i < calls; i++)
        fail_to_align();
    for (int i = 0; i < 1000; i++)
        align();
    truth("align", 1000 * (100 + 128), 2000);
    return 0;
}
