/* SPDX-License-Identifier: Apache-2.0 */
/* Raises the thresholds at which glibc maps and returns memory. */
#include "cli/main/malloc_tuning.h"

#include <malloc.h>

void malloc_tuning_keep_freed(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
}
