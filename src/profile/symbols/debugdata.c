/* SPDX-License-Identifier: Apache-2.0 */
/* Find and unpack .gnu_debugdata, within bounds: files are untrusted. */
#include "profile/symbols/debugdata.h"

#include <gelf.h>
#include <lzma.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEBUGDATA_MEMORY_MAX ((uint64_t)256 << 20)

/* Unpack xz into a malloc'd buffer. Return NULL: damaged, too big, or no memory. */
static void *unpack_xz(const void *packed, size_t packed_size, size_t bytes_max, size_t *size)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, DEBUGDATA_MEMORY_MAX, 0) != LZMA_OK)
        return NULL;
    size_t capacity = packed_size < bytes_max / 8 ? 8 * packed_size : bytes_max;
    unsigned char *buffer = malloc(capacity);
    lzma_ret result = LZMA_OK;
    stream.next_in = packed;
    stream.avail_in = packed_size;
    while (buffer != NULL && result == LZMA_OK) {
        if (stream.total_out == capacity) {
            if (capacity == bytes_max)
                break;
            capacity = capacity < bytes_max / 2 ? 2 * capacity : bytes_max;
            unsigned char *bigger = realloc(buffer, capacity);
            if (bigger == NULL)
                break;
            buffer = bigger;
        }
        stream.next_out = buffer + stream.total_out;
        stream.avail_out = capacity - stream.total_out;
        result = lzma_code(&stream, LZMA_FINISH);
    }
    *size = stream.total_out;
    lzma_end(&stream);
    if (result != LZMA_STREAM_END) {
        free(buffer);
        return NULL;
    }
    return buffer;
}

void *debugdata_unpack(Elf *elf, size_t bytes_max, size_t *size)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0)
        return NULL;
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(elf, section)) != NULL) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_PROGBITS)
            continue;
        const char *name = elf_strptr(elf, names, header.sh_name);
        if (name == NULL || strcmp(name, ".gnu_debugdata") != 0)
            continue;
        Elf_Data *data = elf_rawdata(section, NULL);
        if (data == NULL || data->d_buf == NULL || data->d_size == 0)
            return NULL;
        return unpack_xz(data->d_buf, data->d_size, bytes_max, size);
    }
    return NULL;
}
