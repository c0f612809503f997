/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wanted part of one map, and its packets. Classes and members are grouped by their obfuscated
 * names in the order of appearance, because the entries of one method may be scattered, and several
 * classes may have the same obfuscated name.
 */
#ifndef HEAPPROFD_PROFILE_DEOBFUSCATE_OBFUSCATED_CLASSES_H
#define HEAPPROFD_PROFILE_DEOBFUSCATE_OBFUSCATED_CLASSES_H

#include "profile/deobfuscate/proguard_map.h"
#include "trace/intern.h"

struct obfuscated_classes {
    struct intern_table class_ids, member_ids; /* by obfuscated name */
    struct obfuscated_class {
        uint32_t id;                 /* equal for equal obfuscated names */
        size_t obfuscated, original; /* positions in `text` */
        size_t obfuscated_length, original_length;
    } * classes;
    size_t class_count, class_capacity;
    struct obfuscated_member {
        uint32_t class_id, owner; /* index of the class that contains it */
        uint32_t id;              /* equal for equal names in one class */
        uint32_t order;
        enum proguard_kind kind;
        size_t obfuscated, original;
        uint32_t obfuscated_length, original_length;
        bool has_lines;
        enum proguard_source source;
        uint32_t first_line, last_line, source_first, source_last;
    } * members;
    size_t member_count, member_capacity;
    char *text;
    size_t text_length, text_capacity;
    size_t written_classes, written_methods, written_fields;
};

/* Add a class, or a member of the last class that was added. Return 0 or -ENOMEM. */
int obfuscated_classes_add(struct obfuscated_classes *classes, const struct proguard_entry *entry);
/* Add a method that kept its name, if its class was added without it. Return 1: added; 0: the
 * method is there; -ENOENT: the class is not; -ENOMEM. */
int obfuscated_classes_add_kept(struct obfuscated_classes *classes, const char *class_name,
                                size_t length, const char *method);
/* Write all classes as packets. This sorts the members. Return 0 or a negative errno. */
int obfuscated_classes_write(struct obfuscated_classes *classes, const char *package, int fd);
void obfuscated_classes_clear(struct obfuscated_classes *classes);

#endif
