/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the dimensions, as options, tables and JSON have them. */
#include "profile/dimension.h"

#include <stddef.h>

const char *const dimension_names[] = {
    [DIMENSION_CALLSITE] = "callsite",
    [DIMENSION_FUNCTION] = "function",
    [DIMENSION_MODULE] = "module",
    [DIMENSION_THREAD] = "thread",
    [DIMENSION_TYPE] = "type",
    [DIMENSION_CONTEXT] = "context",
    [DIMENSIONS] = NULL,
};

const struct dimension_info dimension_info[] = {
    [DIMENSION_CALLSITE] = {.head = "function < its callers"},
    [DIMENSION_FUNCTION] = {.head = "function and all it calls", .on_stacks = true},
    [DIMENSION_MODULE] = {"module and all it calls", "unknown code", true},
    [DIMENSION_THREAD] = {"thread", "[no name]", false},
    [DIMENSION_TYPE] = {"type", "[no type]", false},
    [DIMENSION_CONTEXT] = {"context", "[no context]", false},
};
