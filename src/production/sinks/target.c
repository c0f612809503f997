/* SPDX-License-Identifier: Apache-2.0 */
#include "production/sinks/target.h"

#include <string.h>

void target_print(FILE *out, const char *text, const char *replaced)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (size_t i = 0; text[i] != '\0' && i < TARGET_VALUE_BYTES_MAX; i++) {
        if (replaced != NULL && strchr(replaced, text[i]) != NULL)
            putc('_', out);
        else if (strchr(plain, text[i]) != NULL)
            putc(text[i], out);
        else
            fprintf(out, "%%%02X", (unsigned char)text[i]);
    }
}
