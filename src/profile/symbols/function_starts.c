/* SPDX-License-Identifier: Apache-2.0 */
/* Search the index for the start, and let libdw check that the entry covers the address: there may
 * be code without an entry behind a function. */
#include "profile/symbols/function_starts.h"

#include <dwarf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "util/sorted_search.h"

/* The encodings that all linkers use: the version, those of the pointer to .eh_frame, of the number
 * of rows, and of the rows. */
static const uint8_t usual[] = {1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
                                DW_EH_PE_datarel | DW_EH_PE_sdata4};
#define COUNT_OFFSET 8u
#define ROWS_OFFSET 12u
#define ROW_BYTES 8u

static bool find_index(Elf *elf, GElf_Phdr *index)
{
    size_t count;
    if (elf_getphdrnum(elf, &count) != 0)
        return false;
    for (size_t i = 0; i < count && gelf_getphdr(elf, (int)i, index) != NULL; i++)
        if (index->p_type == PT_GNU_EH_FRAME)
            return true;
    return false;
}

void function_starts_open(struct function_starts *starts, Elf *elf)
{
    GElf_Phdr index;
    uint32_t count;
    *starts = (struct function_starts){0};
    if (!find_index(elf, &index))
        return;
    const Elf_Data *data =
        elf_getdata_rawchunk(elf, (int64_t)index.p_offset, index.p_filesz, ELF_T_BYTE);
    if (data == NULL || data->d_size < ROWS_OFFSET ||
        memcmp(data->d_buf, usual, sizeof(usual)) != 0)
        return;
    memcpy(&count, (const uint8_t *)data->d_buf + COUNT_OFFSET, sizeof(count));
    if (count > (data->d_size - ROWS_OFFSET) / ROW_BYTES)
        return;
    starts->rows = (const uint8_t *)data->d_buf + ROWS_OFFSET;
    starts->count = count;
    starts->base = index.p_vaddr;
    starts->unwind_table = dwarf_getcfi_elf(elf);
}

void function_starts_close(struct function_starts *starts)
{
    dwarf_cfi_end(starts->unwind_table);
    *starts = (struct function_starts){0};
}

static uint64_t start_of(const struct function_starts *starts, size_t row)
{
    int32_t distance;
    memcpy(&distance, starts->rows + row * ROW_BYTES, sizeof(distance));
    return starts->base + (uint64_t)(int64_t)distance;
}

bool function_starts_find(const struct function_starts *starts, uint64_t address, uint64_t *start)
{
    Dwarf_Frame *frame = NULL;
    if (starts->unwind_table == NULL)
        return false;
    size_t after = SORTED_SEARCH(starts->count, at, start_of(starts, at) <= address);
    if (after == 0 || dwarf_cfi_addrframe(starts->unwind_table, address, &frame) != 0)
        return false;
    free(frame);
    *start = start_of(starts, after - 1);
    return true;
}
