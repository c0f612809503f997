/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is loaded and unloaded. Built twice, with the same layout and different names of
 * its function, PLUGIN_ALLOCATE. */
#include <stdlib.h>

#include "truth.h"

void *PLUGIN_ALLOCATE(size_t size);

CALLSITE void *PLUGIN_ALLOCATE(size_t size)
{
    return kept(malloc(size));
}
