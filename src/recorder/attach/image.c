/* SPDX-License-Identifier: Apache-2.0 */
/* Lay out and relocate the client's blob. The blob belongs to this build; the checks only detect
 * damage. */
#include "recorder/attach/image.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "attached_blob.h" /* static const unsigned char attached_blob[] */
#include "recorder/attach/arch/processor.h"
#include "recorder/attach/entries.h"

#define PAGE_BYTES PROCESSOR_PAGE_BYTES
#define PARAMS_NAME "heapprofd_attach_params"

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

static const Elf64_Ehdr *blob_header(void)
{
    return (const Elf64_Ehdr *)attached_blob;
}

static const Elf64_Phdr *blob_segments(void)
{
    return (const Elf64_Phdr *)(attached_blob + blob_header()->e_phoff);
}

static size_t loaded_bytes(void)
{
    size_t end = 0;
    for (unsigned i = 0; i < blob_header()->e_phnum; i++) {
        const Elf64_Phdr *segment = &blob_segments()[i];
        if (segment->p_type == PT_LOAD && segment->p_vaddr + segment->p_memsz > end)
            end = segment->p_vaddr + segment->p_memsz;
    }
    return whole_pages(end);
}

size_t image_total(void)
{
    return loaded_bytes() + whole_pages(ATTACHED_SITES_MAX * TRAMPOLINE_BYTES) + PAGE_BYTES;
}

size_t image_annex_bytes(void)
{
    return whole_pages(ENTRIES_ANNEX_BYTES);
}

/* Copy the segments: code first, then data, on separate pages. */
static bool lay_out(struct image *image)
{
    for (unsigned i = 0; i < blob_header()->e_phnum; i++) {
        const Elf64_Phdr *segment = &blob_segments()[i];
        if (segment->p_type != PT_LOAD)
            continue;
        if (segment->p_offset + segment->p_filesz > sizeof(attached_blob))
            return false;
        memcpy(image->bytes + segment->p_vaddr, attached_blob + segment->p_offset,
               segment->p_filesz);
        if ((segment->p_flags & PF_X) != 0) {
            image->code_bytes = whole_pages(segment->p_vaddr + segment->p_memsz);
        } else {
            image->data_start = segment->p_vaddr & ~(size_t)(PAGE_BYTES - 1);
            image->data_bytes =
                whole_pages(segment->p_vaddr + segment->p_memsz) - image->data_start;
        }
    }
    return image->code_bytes > 0 && image->data_start >= image->code_bytes &&
           image->data_start + image->data_bytes <= image->trampolines_start;
}

struct dynamic {
    const Elf64_Rela *relocations;
    size_t relocation_count;
    const Elf64_Sym *symbols;
    const char *strings;
    size_t symbol_count;
};

static bool read_dynamic(const struct image *image, struct dynamic *dynamic)
{
    *dynamic = (struct dynamic){0};
    const uint32_t *hash = NULL;
    for (unsigned i = 0; i < blob_header()->e_phnum; i++) {
        const Elf64_Phdr *segment = &blob_segments()[i];
        if (segment->p_type != PT_DYNAMIC)
            continue;
        const Elf64_Dyn *at = (const Elf64_Dyn *)(image->bytes + segment->p_vaddr);
        for (; at->d_tag != DT_NULL; at++) {
            if (at->d_tag == DT_RELA)
                dynamic->relocations = (const Elf64_Rela *)(image->bytes + at->d_un.d_ptr);
            else if (at->d_tag == DT_RELASZ)
                dynamic->relocation_count = at->d_un.d_val / sizeof(Elf64_Rela);
            else if (at->d_tag == DT_SYMTAB)
                dynamic->symbols = (const Elf64_Sym *)(image->bytes + at->d_un.d_ptr);
            else if (at->d_tag == DT_STRTAB)
                dynamic->strings = (const char *)image->bytes + at->d_un.d_ptr;
            else if (at->d_tag == DT_GNU_HASH)
                hash = (const uint32_t *)(image->bytes + at->d_un.d_ptr);
        }
    }
    /* The only exported symbol is the first one after those that are not hashed. */
    if (hash != NULL)
        dynamic->symbol_count = hash[1] + 1;
    return dynamic->symbols != NULL && dynamic->strings != NULL && hash != NULL;
}

static bool relocate(const struct image *image, const struct dynamic *dynamic, uint64_t base)
{
    for (size_t i = 0; i < dynamic->relocation_count; i++) {
        const Elf64_Rela *relocation = &dynamic->relocations[i];
        if (ELF64_R_TYPE(relocation->r_info) != PROCESSOR_RELATIVE ||
            relocation->r_offset + 8 > image->total)
            return false;
        uint64_t value = base + (uint64_t)relocation->r_addend;
        memcpy(image->bytes + relocation->r_offset, &value, sizeof(value));
    }
    return true;
}

static bool find_params(struct image *image, const struct dynamic *dynamic)
{
    for (size_t i = 1; i < dynamic->symbol_count; i++) {
        const Elf64_Sym *symbol = &dynamic->symbols[i];
        if (strcmp(dynamic->strings + symbol->st_name, PARAMS_NAME) != 0)
            continue;
        image->params_offset = symbol->st_value;
        return symbol->st_value + sizeof(struct attached_params) <= image->total &&
               image_params(image)->magic == ATTACHED_MAGIC &&
               image_params(image)->bytes == sizeof(struct attached_params);
    }
    return false;
}

int image_make(struct image *image, uint64_t base, struct error *error)
{
    struct dynamic dynamic;
    *image = (struct image){.total = image_total(),
                            .annex_bytes = image_annex_bytes(),
                            .trampolines_start = loaded_bytes(),
                            .marker_start = image_total() - PAGE_BYTES};
    image->bytes = calloc(1, image->total + image->annex_bytes);
    if (image->bytes == NULL)
        return error_set(error, -ENOMEM, "no memory for the client");
    if (!lay_out(image) || !read_dynamic(image, &dynamic) || !relocate(image, &dynamic, base) ||
        !find_params(image, &dynamic)) {
        image_free(image);
        return error_set(error, -ENOEXEC, "the client in this heapprofd is damaged: reinstall it");
    }
    return 0;
}

void image_free(struct image *image)
{
    free(image->bytes);
    image->bytes = NULL;
}

struct attached_params *image_params(const struct image *image)
{
    return (struct attached_params *)(image->bytes + image->params_offset);
}
