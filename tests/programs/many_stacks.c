/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates on 2^DEPTH different stacks, once on each, and says "ok". Ends with its standard input.
 *
 *   many_stacks DEPTH
 */
#include <unistd.h>

#include "truth.h"

static CALLSITE void *left(unsigned depth, unsigned way);
static CALLSITE void *right(unsigned depth, unsigned way);

static CALLSITE void *descend(unsigned depth, unsigned way)
{
    if (depth == 0)
        return kept(malloc(1));
    return kept((way & 1) != 0 ? left(depth - 1, way >> 1) : right(depth - 1, way >> 1));
}

static CALLSITE void *left(unsigned depth, unsigned way)
{
    return kept(descend(depth, way));
}

static CALLSITE void *right(unsigned depth, unsigned way)
{
    return kept(descend(depth, way));
}

int main(int argc, char **argv)
{
    unsigned depth = argc > 1 ? (unsigned)atoi(argv[1]) : 10;
    char end;
    for (unsigned way = 0; way < 1u << depth; way++)
        free(descend(depth, way));
    require(write(1, "ok\n", 3) == 3);
    while (read(0, &end, 1) > 0)
        ;
    return 0;
}
