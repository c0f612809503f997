/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read names and call sites from DWARF entries. libdw searches each attribute from the first one
 * on. So all attributes of an entry are read in one pass, and the name of its origin is cached.
 */
#include "profile/symbols/function_entry.h"

#include <dwarf.h>
#include <string.h>

/* Steps from an inlined function to its abstract instance and on to its declaration. More steps
 * mean a cycle. */
#define ORIGINS_MAX 16

/* Read the offset of a reference to a supplementary file (DWARF 5), which libdw mistakes for a
 * reference within the file. Only the program's own entries have such references. */
static bool supplementary_offset(const struct entry_reader *reader,
                                 const Dwarf_Attribute *attribute, uint64_t *offset)
{
    size_t bytes = attribute->form == DW_FORM_ref_sup8 ? 8 : 4;
    if (attribute->form == DW_FORM_strp_sup)
        bytes = reader->offset_bytes;
    if (reader->supplementary == NULL || attribute->valp < reader->entries.at ||
        attribute->valp >= reader->entries.end ||
        (size_t)(reader->entries.end - attribute->valp) < bytes)
        return false;
    *offset = 0;
    memcpy(offset, attribute->valp, bytes);
    return true;
}

static const char *string_of(const struct entry_reader *reader, Dwarf_Attribute *attribute)
{
    uint64_t offset;
    const struct dwarf_bytes *strings = &reader->supplementary_strings;
    if (attribute->form != DW_FORM_strp_sup)
        return dwarf_formstring(attribute);
    if (!supplementary_offset(reader, attribute, &offset) ||
        offset >= (uint64_t)(strings->end - strings->at) ||
        memchr(strings->at + offset, 0, (size_t)(strings->end - strings->at) - offset) == NULL)
        return NULL;
    return (const char *)strings->at + offset;
}

/* Find the entry that an attribute refers to. */
static bool function_entry_follow(const struct entry_reader *reader, Dwarf_Attribute *attribute,
                                  Dwarf_Die *entry)
{
    uint64_t offset;
    if (attribute->form != DW_FORM_ref_sup4 && attribute->form != DW_FORM_ref_sup8)
        return dwarf_formref_die(attribute, entry) != NULL;
    return supplementary_offset(reader, attribute, &offset) &&
           dwarf_offdie(reader->supplementary, offset, entry) != NULL;
}

/* Replace *die by the entry that it refers to: its abstract instance, or else its declaration.
 * Return false if it refers to no other. */
static bool to_origin(const struct entry_reader *reader, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    if ((dwarf_attr(die, DW_AT_abstract_origin, &attribute) == NULL &&
         dwarf_attr(die, DW_AT_specification, &attribute) == NULL) ||
        !function_entry_follow(reader, &attribute, &origin))
        return false;
    *die = origin;
    return true;
}

const char *entry_string(const struct entry_reader *reader, const Dwarf_Die *die, unsigned name)
{
    Dwarf_Attribute attribute;
    Dwarf_Die at = *die;
    for (int steps = 0; steps < ORIGINS_MAX; steps++) {
        if (dwarf_attr(&at, name, &attribute) != NULL)
            return string_of(reader, &attribute);
        if (!to_origin(reader, &at))
            break;
    }
    return NULL;
}

static const char *function_name(const struct entry_reader *reader, const Dwarf_Die *die)
{
    const char *name = entry_string(reader, die, DW_AT_linkage_name);
    if (name == NULL)
        name = entry_string(reader, die, DW_AT_MIPS_linkage_name);
    return name != NULL ? name : entry_string(reader, die, DW_AT_name);
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

static uint32_t function_entry_number_of(Dwarf_Attribute *attribute)
{
    Dwarf_Word value;
    if (attribute->valp == NULL || dwarf_formudata(attribute, &value) != 0 || value > UINT32_MAX)
        return 0;
    return (uint32_t)value;
}

/* Return the name at an entry's origin, from the cache if possible: a function is inlined in many
 * places, and all their entries share one origin. */
static const char *name_at_origin(struct entry_reader *reader, const Dwarf_Die *origin)
{
    uint64_t hash = (uint64_t)(uintptr_t)origin->addr * UINT64_C(0x9e3779b97f4a7c15);
    struct known_function *known = &reader->functions[hash >> (64 - FUNCTIONS_KNOWN_BITS)];
    if (known->entry != origin->addr)
        *known = (struct known_function){origin->addr, function_name(reader, origin)};
    return known->name;
}

void function_entry_read(struct entry_reader *reader, Dwarf_Die *entry,
                         struct function_entry *function)
{
    struct entry_attributes taken = {0};
    Dwarf_Die origin;
    dwarf_getattrs(entry, take_attribute, &taken, 0);
    Dwarf_Attribute *reference = taken.origin.valp != NULL ? &taken.origin : &taken.specification;
    bool elsewhere = !taken.named && reference->valp != NULL &&
                     function_entry_follow(reader, reference, &origin);
    *function = (struct function_entry){
        .known = true,
        .function = elsewhere ? name_at_origin(reader, &origin) : function_name(reader, entry),
        .call_line = function_entry_number_of(&taken.call_line),
        .call_file = function_entry_number_of(&taken.call_file),
    };
}
