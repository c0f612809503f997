/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that grow a little at each step, as logs and texts do. Without an argument one grows by
 * 4 KiB a step, so that nearly all requests are large; with one, two grow by 4 bytes a step, in
 * turn. */
#include <stdlib.h>

static char *grow(char *buffer, size_t bytes)
{
    buffer = realloc(buffer, bytes);
    buffer[bytes - 1] = 1;
    return buffer;
}

int main(int argc, char **argv)
{
    char *first = NULL, *second = NULL;
    (void)argv;
    for (size_t step = 1; argc == 1 && step < 20000; step++)
        first = grow(first, 4096 * step);
    for (size_t step = 1; argc > 1 && step < 80000; step++) {
        first = grow(first, 4 * step + 1);
        second = grow(second, 4 * step + 1);
    }
    return first[0] + (second != NULL ? second[0] : 0) == 99;
}
