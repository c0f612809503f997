/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the symbol cache that somebody else wrote. Input: the content after the header. Its
 * magic, key and checksum are corrected, so that the input is not rejected because of them. The
 * bytes of each answer must be readable.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "profile/symbolize/symbol_cache.h"

#define HEADER_BYTES 48u
#define CHECKED_FROM 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t key[SYMBOL_CACHE_KEY_BYTES] = {1, 2, 3};
    uint64_t checksum, count, bytes, sum = 0;
    if (size < HEADER_BYTES)
        return 0;
    uint8_t *file = malloc(size);
    if (file == NULL)
        abort();
    memcpy(file, data, size);
    memcpy(file, "hpdsym1", 8);
    memcpy(file + CHECKED_FROM, key, sizeof(key));
    checksum = XXH3_64bits(file + CHECKED_FROM, size - CHECKED_FROM);
    memcpy(file + 8, &checksum, sizeof(checksum));
    if (symbol_answers_are_sound(file, size, key)) {
        memcpy(&count, file + 32, sizeof(count));
        memcpy(&bytes, file + 40, sizeof(bytes));
        if (bytes != size - HEADER_BYTES - count * sizeof(struct symbol_answer))
            abort();
        for (uint64_t i = 0; i < count; i++) {
            struct symbol_answer answer;
            memcpy(&answer, file + HEADER_BYTES + i * sizeof(answer), sizeof(answer));
            for (uint32_t j = 0; j < answer.length; j++)
                sum += file[HEADER_BYTES + count * sizeof(answer) + answer.offset + j];
        }
    }
    free(file);
    return sum == UINT64_MAX;
}
