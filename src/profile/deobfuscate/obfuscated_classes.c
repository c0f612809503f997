/* SPDX-License-Identifier: Apache-2.0 */
/* Collect classes and members, and write their packets. */
#include "profile/deobfuscate/obfuscated_classes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "trace/proto_buffer.h"
#include "util/array.h"
#include "util/write_all.h"

/* A packet is written when it has this size, far below the 500 kB that readers expect. The entries
 * of one method stay together, so that each packet can be read by itself. */
#define PACKET_BYTES 200000u
/* Limit of joined names. */
#define JOINED_BYTES_MAX 65535u
#define CHOICES_MAX 16u
#define NONE UINT32_MAX

/* --- collecting --- */

static int keep_text(struct obfuscated_classes *classes, struct proguard_text text, size_t *at)
{
    if (ARRAY_RESERVE(&classes->text, &classes->text_capacity, classes->text_length,
                      text.length + 1) < 0)
        return -ENOMEM;
    *at = classes->text_length;
    memcpy(classes->text + *at, text.at, text.length);
    classes->text[*at + text.length] = '\0';
    classes->text_length += text.length + 1;
    return 0;
}

static int add_class(struct obfuscated_classes *classes, const struct proguard_entry *entry)
{
    struct obfuscated_class item = {
        .obfuscated_length = entry->obfuscated.length,
        .original_length = entry->original.length,
    };
    bool added;
    uint64_t id =
        intern_bytes(&classes->class_ids, entry->obfuscated.at, entry->obfuscated.length, &added);
    if (id == 0 || id >= NONE ||
        ARRAY_RESERVE(&classes->classes, &classes->class_capacity, classes->class_count, 1) < 0 ||
        keep_text(classes, entry->obfuscated, &item.obfuscated) < 0 ||
        keep_text(classes, entry->original, &item.original) < 0)
        return -ENOMEM;
    item.id = (uint32_t)id;
    classes->classes[classes->class_count++] = item;
    return 0;
}

/* Return the id of a class's method or field. Return 0: no memory or, if `added` is NULL, unknown.
 */
static uint64_t member_id(struct obfuscated_classes *classes, uint32_t class_id,
                          enum proguard_kind kind, struct proguard_text name, bool *added)
{
    char key[2 * sizeof(uint32_t) + PROGUARD_NAME_BYTES_MAX];
    uint32_t head[2] = {class_id, kind};
    if (name.length > PROGUARD_NAME_BYTES_MAX)
        return 0;
    memcpy(key, head, sizeof(head));
    memcpy(key + sizeof(head), name.at, name.length);
    size_t length = sizeof(head) + name.length;
    return added == NULL ? intern_find(&classes->member_ids, key, length)
                         : intern_bytes(&classes->member_ids, key, length, added);
}

static int add_member(struct obfuscated_classes *classes, uint32_t owner,
                      const struct proguard_entry *entry)
{
    struct obfuscated_member item = {
        .class_id = classes->classes[owner].id,
        .owner = owner,
        .order = (uint32_t)classes->member_count,
        .kind = entry->kind,
        .obfuscated_length = (uint32_t)entry->obfuscated.length,
        .original_length = (uint32_t)entry->original.length,
        .has_lines = entry->has_lines,
        .source = entry->source,
        .first_line = entry->first_line,
        .last_line = entry->last_line,
        .source_first = entry->source_first,
        .source_last = entry->source_last,
    };
    bool added;
    uint64_t id = member_id(classes, item.class_id, entry->kind, entry->obfuscated, &added);
    if (id == 0 || id >= NONE || classes->member_count >= NONE ||
        ARRAY_RESERVE(&classes->members, &classes->member_capacity, classes->member_count, 1) < 0 ||
        keep_text(classes, entry->obfuscated, &item.obfuscated) < 0 ||
        keep_text(classes, entry->original, &item.original) < 0)
        return -ENOMEM;
    item.id = (uint32_t)id;
    classes->members[classes->member_count++] = item;
    return 0;
}

int obfuscated_classes_add(struct obfuscated_classes *classes, const struct proguard_entry *entry)
{
    return entry->kind == PROGUARD_CLASS
               ? add_class(classes, entry)
               : add_member(classes, (uint32_t)classes->class_count - 1, entry);
}

int obfuscated_classes_add_kept(struct obfuscated_classes *classes, const char *class_name,
                                size_t length, const char *method)
{
    uint64_t id = intern_find(&classes->class_ids, class_name, length);
    struct proguard_text name = {method, strlen(method)};
    struct proguard_entry entry = {.kind = PROGUARD_METHOD, .original = name, .obfuscated = name};
    if (id == 0)
        return -ENOENT;
    if (member_id(classes, (uint32_t)id, PROGUARD_METHOD, name, NULL) != 0)
        return 0;
    for (size_t i = 0; i < classes->class_count && name.length <= PROGUARD_NAME_BYTES_MAX; i++) {
        if (classes->classes[i].id == id && add_member(classes, (uint32_t)i, &entry) < 0)
            return -ENOMEM;
    }
    return 1;
}

void obfuscated_classes_clear(struct obfuscated_classes *classes)
{
    intern_free(&classes->class_ids);
    intern_free(&classes->member_ids);
    free(classes->classes);
    free(classes->members);
    free(classes->text);
    *classes = (struct obfuscated_classes){0};
}

/* --- writing --- */

struct writer {
    struct obfuscated_classes *classes;
    const char *package;
    int fd;
    struct proto_buffer packet, class, member, group, scratch, joined;
};

/* Write Trace.packet { deobfuscation_mapping { package_name obfuscated_classes... } }, if there are
 * any classes. */
static int obfuscated_classes_flush(struct writer *writer)
{
    struct proto_buffer *whole = &writer->scratch, *head = &writer->group;
    if (writer->packet.length == 0)
        return 0;
    head->length = whole->length = 0;
    proto_put_string(head, PB_DEOBFUSCATION_MAPPING_PACKAGE_NAME, writer->package);
    proto_put_raw(head, writer->packet.bytes, writer->packet.length);
    proto_put_bytes(whole, PB_TRACE_PACKET_DEOBFUSCATION_MAPPING, head->bytes, head->length);
    head->length = 0;
    proto_put_bytes(head, PB_TRACE_PACKET, whole->bytes, whole->length);
    writer->packet.length = 0;
    if (head->failed || whole->failed || writer->packet.failed || writer->class.failed ||
        writer->member.failed || writer->joined.failed)
        return -ENOMEM;
    return write_all(writer->fd, head->bytes, head->length);
}

static const char *text_at(const struct writer *writer, size_t at)
{
    return writer->classes->text + at;
}

static const char *original_class(const struct writer *writer, uint32_t owner)
{
    return text_at(writer, writer->classes->classes[owner].original);
}

/* Append the original name. `qualified`: precede it by its class, if it has none yet. */
static void put_name(struct writer *writer, struct proto_buffer *out,
                     const struct obfuscated_member *member, bool qualified)
{
    const char *name = text_at(writer, member->original);
    if (qualified && memchr(name, '.', member->original_length) == NULL) {
        const char *owner = original_class(writer, member->owner);
        proto_put_raw(out, owner, strlen(owner));
        proto_put_raw(out, ".", 1);
    }
    proto_put_raw(out, name, member->original_length);
}

/* Write the lines. Lines that the map does not change are written, too: readers would take missing
 * ones for unknown. */
static void put_lines(struct proto_buffer *out, const struct obfuscated_member *member)
{
    bool kept = member->has_lines && member->source == PROGUARD_SOURCE_NONE;
    if (member->has_lines) {
        proto_put_uint(out, PB_OBFUSCATED_MEMBER_OBFUSCATED_LINE_START, member->first_line);
        proto_put_uint(out, PB_OBFUSCATED_MEMBER_OBFUSCATED_LINE_END, member->last_line);
    }
    if (member->source == PROGUARD_SOURCE_NONE && !kept)
        return;
    proto_put_uint(out, PB_OBFUSCATED_MEMBER_SOURCE_LINE_START,
                   kept ? member->first_line : member->source_first);
    proto_put_uint(out, PB_OBFUSCATED_MEMBER_SOURCE_LINE_END,
                   kept ? member->last_line : member->source_last);
}

static void put_member(struct writer *writer, const struct obfuscated_member *member,
                       const struct proto_buffer *name)
{
    struct proto_buffer *out = &writer->member;
    bool field = member->kind == PROGUARD_FIELD;
    out->length = 0;
    proto_put_bytes(out, PB_OBFUSCATED_MEMBER_OBFUSCATED_NAME, text_at(writer, member->obfuscated),
                    member->obfuscated_length);
    proto_put_bytes(out, PB_OBFUSCATED_MEMBER_DEOBFUSCATED_NAME, name->bytes, name->length);
    if (!field)
        put_lines(out, member);
    proto_put_bytes(&writer->class,
                    field ? PB_OBFUSCATED_CLASS_OBFUSCATED_MEMBERS
                          : PB_OBFUSCATED_CLASS_OBFUSCATED_METHODS,
                    out->bytes, out->length);
    writer->classes->written_fields += field;
    writer->classes->written_methods += !field;
}

static bool same_lines(const struct obfuscated_member *one, const struct obfuscated_member *other)
{
    return one->has_lines && other->has_lines && one->first_line == other->first_line &&
           one->last_line == other->last_line;
}

/* Return whether an entry is the caller of the previous entry with the same lines: the source of a
 * caller is a single line. Otherwise it is another method with these lines (an overload). */
static bool is_caller(const struct obfuscated_member *member)
{
    return member->source != PROGUARD_SOURCE_RANGE ||
           (member->source_first == member->source_last && member->last_line > member->first_line);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Join texts in sorted order, each once, with " | " between them. */
static void join_texts(struct writer *writer, char **texts, size_t count)
{
    struct proto_buffer *joined = &writer->joined;
    joined->length = 0;
    if (count > 0)
        qsort(texts, count, sizeof(*texts), compare_texts);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(texts[i]);
        if ((i > 0 && strcmp(texts[i], texts[i - 1]) == 0) ||
            joined->length + length + 3 > JOINED_BYTES_MAX)
            continue;
        if (joined->length > 0)
            proto_put_raw(joined, " | ", 3);
        proto_put_raw(joined, texts[i], length);
    }
}

/* Write one entry for several methods that have the same lines, because readers take such entries
 * for inlined calls. It names the function that ran in each of them, the outermost. */
static void put_choice(struct writer *writer, const struct obfuscated_member *members, size_t count)
{
    struct obfuscated_member choice = members[0];
    char *texts[CHOICES_MAX];
    size_t found = 0;
    for (size_t i = 0; i < count && found < CHOICES_MAX; i++) {
        if (i + 1 < count && is_caller(&members[i + 1]))
            continue;
        writer->scratch.length = 0;
        put_name(writer, &writer->scratch, &members[i], true);
        proto_put_raw(&writer->scratch, "", 1);
        texts[found] = writer->scratch.failed ? NULL : strdup((char *)writer->scratch.bytes);
        if (texts[found] == NULL) {
            writer->joined.failed = true;
            break;
        }
        found++;
    }
    choice.source = PROGUARD_SOURCE_LINE; /* none of their lines */
    choice.source_first = choice.source_last = 0;
    join_texts(writer, texts, found);
    put_member(writer, &choice, &writer->joined);
    while (found > 0)
        free(texts[--found]);
}

/* Write the entries of one member. */
static void put_group(struct writer *writer, const struct obfuscated_member *members, size_t count,
                      bool qualified)
{
    for (size_t i = 0, run; i < count; i += run) {
        size_t others = 0;
        for (run = 1; i + run < count && same_lines(&members[i], &members[i + run]); run++)
            others += !is_caller(&members[i + run]);
        if (others > 0) {
            put_choice(writer, members + i, run);
            continue;
        }
        for (size_t j = i; j < i + run; j++) {
            const struct obfuscated_member *before = j > 0 ? &members[j - 1] : NULL;
            /* Overloads only differ in their arguments, which are not written. */
            if (before != NULL && !members[j].has_lines && !before->has_lines &&
                before->owner == members[j].owner &&
                before->source_first == members[j].source_first &&
                strcmp(text_at(writer, before->original), text_at(writer, members[j].original)) ==
                    0)
                continue;
            writer->joined.length = 0;
            put_name(writer, &writer->joined, &members[j], qualified);
            put_member(writer, &members[j], &writer->joined);
        }
    }
}

static int end_class(struct writer *writer)
{
    proto_put_bytes(&writer->packet, PB_DEOBFUSCATION_MAPPING_OBFUSCATED_CLASSES,
                    writer->class.bytes, writer->class.length);
    return writer->packet.length >= PACKET_BYTES ? obfuscated_classes_flush(writer) : 0;
}

/* Begin a class. Its name consists of all original names of the obfuscated one, in the map's order.
 */
static void begin_class(struct writer *writer, const uint32_t *next, uint32_t first)
{
    const struct obfuscated_class *item = &writer->classes->classes[first];
    writer->class.length = writer->joined.length = 0;
    proto_put_bytes(&writer->class, PB_OBFUSCATED_CLASS_OBFUSCATED_NAME,
                    text_at(writer, item->obfuscated), item->obfuscated_length);
    for (uint32_t i = first; i != NONE; i = next[i]) {
        const char *name = original_class(writer, i);
        if (writer->joined.length + strlen(name) + 3 > JOINED_BYTES_MAX && i != first)
            break;
        if (i != first)
            proto_put_raw(&writer->joined, " | ", 3);
        proto_put_raw(&writer->joined, name, strlen(name));
    }
    proto_put_bytes(&writer->class, PB_OBFUSCATED_CLASS_DEOBFUSCATED_NAME, writer->joined.bytes,
                    writer->joined.length);
}

/* Write an obfuscated class with its members, in as many packets as necessary. */
static int put_class(struct writer *writer, const uint32_t *next, uint32_t first,
                     const struct obfuscated_member *members, size_t count)
{
    bool several = next[first] != NONE;
    int result = 0;
    begin_class(writer, next, first);
    for (size_t i = 0, group; i < count && result == 0; i += group) {
        for (group = 1; i + group < count && members[i + group].id == members[i].id;)
            group++;
        put_group(writer, members + i, group, several);
        if (writer->packet.length + writer->class.length < PACKET_BYTES || i + group == count)
            continue;
        result = end_class(writer);
        if (result == 0)
            result = obfuscated_classes_flush(writer);
        begin_class(writer, next, first);
    }
    writer->classes->written_classes++;
    return result == 0 ? end_class(writer) : result;
}

static int compare_members(const void *a, const void *b)
{
    const struct obfuscated_member *one = a, *other = b;
    if (one->class_id != other->class_id)
        return one->class_id < other->class_id ? -1 : 1;
    if (one->id != other->id)
        return one->id < other->id ? -1 : 1;
    return one->order < other->order ? -1 : one->order > other->order;
}

/* Link the classes. next: by class, the next one with the same obfuscated name. first: by id.
 * Return 0 or -ENOMEM. */
static int link_classes(const struct obfuscated_classes *classes, uint32_t **first, uint32_t **next)
{
    size_t ids = classes->class_ids.count + 1;
    *first = malloc(ids * sizeof(**first));
    *next = malloc((classes->class_count + 1) * sizeof(**next));
    if (*first == NULL || *next == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ids; i++)
        (*first)[i] = NONE;
    for (size_t i = classes->class_count; i-- > 0;) {
        (*next)[i] = (*first)[classes->classes[i].id];
        (*first)[classes->classes[i].id] = (uint32_t)i;
    }
    return 0;
}

int obfuscated_classes_write(struct obfuscated_classes *classes, const char *package, int fd)
{
    struct writer writer = {.classes = classes, .package = package, .fd = fd};
    uint32_t *first = NULL, *next = NULL;
    int result = link_classes(classes, &first, &next);
    if (classes->member_count > 0)
        qsort(classes->members, classes->member_count, sizeof(*classes->members), compare_members);
    for (size_t id = 1, at = 0, count; id <= classes->class_ids.count && result == 0; id++) {
        for (count = 0;
             at + count < classes->member_count && classes->members[at + count].class_id == id;)
            count++;
        result =
            put_class(&writer, next, first[id], count == 0 ? NULL : classes->members + at, count);
        at += count;
    }
    if (result == 0)
        result = obfuscated_classes_flush(&writer);
    proto_buffer_free(&writer.packet);
    proto_buffer_free(&writer.class);
    proto_buffer_free(&writer.member);
    proto_buffer_free(&writer.group);
    proto_buffer_free(&writer.scratch);
    proto_buffer_free(&writer.joined);
    free(first);
    free(next);
    return result;
}
