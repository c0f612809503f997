/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read names and call sites from DWARF entries. libdw searches an attribute from the first one on,
 * each time. Therefore all attributes of an entry are read in one pass, and the name of its origin
 * is cached.
 */
#include "symbols/function_entry.h"

#include <dwarf.h>
#include <string.h>

/* From an inlined function to its abstract one, and to its declaration. More steps mean a cycle. */
#define ORIGINS_MAX 16

/* Read the offset of a reference to a supplementary file (DWARF 5), which libdw mistakes for a
 * reference within the file. Only the program's own entries have such references. */
static bool supplementary_offset(const struct entry_texts *texts, const Dwarf_Attribute *attribute,
                                 uint64_t *offset)
{
    size_t bytes = attribute->form == DW_FORM_ref_sup8 ? 8 : 4;
    if (attribute->form == DW_FORM_strp_sup)
        bytes = texts->offset_bytes;
    if (texts->supplementary == NULL || attribute->valp < texts->entries.at ||
        attribute->valp >= texts->entries.end ||
        (size_t)(texts->entries.end - attribute->valp) < bytes)
        return false;
    *offset = 0;
    memcpy(offset, attribute->valp, bytes);
    return true;
}

static const char *text_of(const struct entry_texts *texts, Dwarf_Attribute *attribute)
{
    uint64_t offset;
    const struct dwarf_bytes *strings = &texts->supplementary_strings;
    if (attribute->form != DW_FORM_strp_sup)
        return dwarf_formstring(attribute);
    if (!supplementary_offset(texts, attribute, &offset) ||
        offset >= (uint64_t)(strings->end - strings->at) ||
        memchr(strings->at + offset, 0, (size_t)(strings->end - strings->at) - offset) == NULL)
        return NULL;
    return (const char *)strings->at + offset;
}

/* Find the entry that an attribute refers to. */
static bool follow(const struct entry_texts *texts, Dwarf_Attribute *attribute, Dwarf_Die *entry)
{
    uint64_t offset;
    if (attribute->form != DW_FORM_ref_sup4 && attribute->form != DW_FORM_ref_sup8)
        return dwarf_formref_die(attribute, entry) != NULL;
    return supplementary_offset(texts, attribute, &offset) &&
           dwarf_offdie(texts->supplementary, offset, entry) != NULL;
}

/* Replace *die by the entry that describes the same function without its location. Return false if
 * there is none. */
static bool to_origin(const struct entry_texts *texts, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    if ((dwarf_attr(die, DW_AT_abstract_origin, &attribute) == NULL &&
         dwarf_attr(die, DW_AT_specification, &attribute) == NULL) ||
        !follow(texts, &attribute, &origin))
        return false;
    *die = origin;
    return true;
}

const char *entry_string(const struct entry_texts *texts, const Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Die at = *die;
    for (int steps = 0; steps < ORIGINS_MAX; steps++) {
        if (dwarf_attr(&at, name, &attribute) != NULL)
            return text_of(texts, &attribute);
        if (!to_origin(texts, &at))
            break;
    }
    return NULL;
}

static const char *function_name(const struct entry_texts *texts, const Dwarf_Die *die)
{
    const char *name = entry_string(texts, die, DW_AT_linkage_name);
    if (name == NULL)
        name = entry_string(texts, die, DW_AT_MIPS_linkage_name);
    return name != NULL ? name : entry_string(texts, die, DW_AT_name);
}

/* Attributes that one pass over an entry collects. */
struct entry_attributes {
    bool named;
    Dwarf_Attribute origin, specification; /* .valp is NULL if the entry does not have it */
    Dwarf_Attribute call_line, call_file;
};

static int take_attribute(Dwarf_Attribute *attribute, void *context)
{
    struct entry_attributes *taken = context;
    Dwarf_Attribute *place = NULL;
    switch (dwarf_whatattr(attribute)) {
    case DW_AT_name:
    case DW_AT_linkage_name:
    case DW_AT_MIPS_linkage_name:
        taken->named = true;
        break;
    case DW_AT_abstract_origin:
        place = &taken->origin;
        break;
    case DW_AT_specification:
        place = &taken->specification;
        break;
    case DW_AT_call_line:
        place = &taken->call_line;
        break;
    case DW_AT_call_file:
        place = &taken->call_file;
        break;
    }
    if (place != NULL && place->valp == NULL)
        *place = *attribute;
    return DWARF_CB_OK;
}

static uint32_t number_of(Dwarf_Attribute *attribute)
{
    Dwarf_Word value;
    if (attribute->valp == NULL || dwarf_formudata(attribute, &value) != 0 || value > UINT32_MAX)
        return 0;
    return (uint32_t)value;
}

/* Return a cached name. A function is inlined in many places, and their entries have no names of
 * their own. */
static const char *name_at_origin(struct entry_texts *texts, const Dwarf_Die *origin)
{
    uint64_t hash = (uint64_t)(uintptr_t)origin->addr * UINT64_C(0x9e3779b97f4a7c15);
    struct known_function *known = &texts->functions[hash >> (64 - FUNCTIONS_KNOWN_BITS)];
    if (known->entry != origin->addr)
        *known = (struct known_function){origin->addr, function_name(texts, origin)};
    return known->name;
}

void function_entry_read(struct entry_texts *texts, Dwarf_Die *entry,
                         struct function_entry *function)
{
    struct entry_attributes taken = {0};
    Dwarf_Die origin;
    dwarf_getattrs(entry, take_attribute, &taken, 0);
    Dwarf_Attribute *reference = taken.origin.valp != NULL ? &taken.origin : &taken.specification;
    bool elsewhere = !taken.named && reference->valp != NULL && follow(texts, reference, &origin);
    *function = (struct function_entry){
        .known = true,
        .function = elsewhere ? name_at_origin(texts, &origin) : function_name(texts, entry),
        .call_line = number_of(&taken.call_line),
        .call_file = number_of(&taken.call_file),
    };
}
