/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin of many_modules.c. */
#include "truth.h"

CALLSITE void *allocate_in_plugin(size_t bytes);
CALLSITE void *allocate_in_last(size_t bytes);

void *allocate_in_plugin(size_t bytes)
{
    return kept(malloc(bytes));
}

void *allocate_in_last(size_t bytes)
{
    return kept(malloc(bytes));
}
