/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreters' tables of lines, which come from the profiled process. The first bytes choose
 * the kind, the function's first line and the place; the rest is the table. */
#include <stdlib.h>
#include <string.h>

#include "profile/interp/code_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8)
        return 0;
    uint32_t first_line, place = data[1] | (uint32_t)data[2] << 8 | (uint32_t)data[3] << 16;
    memcpy(&first_line, data + 4, sizeof(first_line));
    /* Exactly as long as the table: reads beyond it are seen. */
    uint8_t *bytes = malloc(size - 8 + 1);
    if (bytes == NULL)
        return 0;
    memcpy(bytes, data + 8, size - 8);
    bytes = realloc(bytes, size - 8 > 0 ? size - 8 : 1);
    const struct code_lines table = {.kind = (enum record_line_table)(data[0] & 7),
                                     .bytes = bytes,
                                     .length = size - 8,
                                     .first_line = first_line,
                                     .is_cut = data[0] & 8};
    uint32_t line = code_lines_find(&table, place);
    if (line > INT32_MAX)
        abort();
    free(bytes);
    return 0;
}
