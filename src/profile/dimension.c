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

const struct dimension_words dimension_words[] = {
    [DIMENSION_CALLSITE] = {"function < its callers", NULL},
    [DIMENSION_FUNCTION] = {"function and all it calls", NULL},
    [DIMENSION_MODULE] = {"module and all it calls", "unknown code"},
    [DIMENSION_THREAD] = {"thread", "[no name]"},
    [DIMENSION_TYPE] = {"type", "[no type]"},
    [DIMENSION_CONTEXT] = {"context", "[no context]"},
};
