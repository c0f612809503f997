/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See builder.h: what a method of obfuscated code was called. Where its entries are bound to lines,
 * the frame's line chooses among them, and entries of the same lines are calls that were inlined,
 * the innermost first. What stays undecided has all names that it could have, with " | " between
 * them.
 */
#include <string.h>

#include "profile/builder/builder_deobfuscation.h"

#define CANDIDATES_MAX 16u
#define NAME_BYTES_MAX 65536u
/* A few bytes of a file may stand for much: names in all. Frames beyond keep theirs. */
#define NAME_BYTES_TOTAL_MAX ((size_t)256 << 20)
#define STEP_BYTES 16u /* of a name, that cost as much as an entry does */
#define NONE DEOBFUSCATION_NONE

/* Lines are as many as in the obfuscated code, or all of them stand for the first. */
static uint32_t source_line(const struct original *original, uint32_t line)
{
    uint64_t at = (uint64_t)original->source_first + line - original->first_line;
    if (!original->has_source)
        return line;
    if (original->source_first == 0 || original->source_last <= original->source_first)
        return original->source_first;
    return at < original->source_last ? (uint32_t)at : original->source_last;
}

/* 0: too much of it. */
static uint32_t keep_name(struct builder *builder, const char *text, size_t length)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    size_t known = builder->string_count;
    all->steps += length / STEP_BYTES;
    if (all->name_bytes + length > NAME_BYTES_TOTAL_MAX)
        return 0;
    uint32_t name = builder_string(builder, text, length);
    all->name_bytes += builder->string_count > known ? length : 0;
    return name;
}

/* "com.example.Main.run"; 0: too much of it. */
static uint32_t qualify(struct builder *builder, uint32_t class_name, uint32_t name)
{
    char text[NAME_BYTES_MAX];
    const char *owner = builder->strings[class_name], *member = builder->strings[name];
    size_t owner_length = strlen(owner), length = strlen(member);
    if (class_name == 0 || memchr(member, '.', length) != NULL)
        return name;
    if (owner_length + 1 + length > sizeof(text))
        return 0;
    memcpy(text, owner, owner_length);
    text[owner_length] = '.';
    memcpy(text + owner_length + 1, member, length);
    return keep_name(builder, text, owner_length + 1 + length);
}

static uint32_t qualify_original(struct builder *builder, uint32_t index)
{
    const struct original *original = &builder->deobfuscation->originals[index];
    return qualify(builder, original->class_name, original->name);
}

/* In order, each once. */
static void add_candidate(struct builder *builder, uint32_t *names, uint32_t *count, uint32_t name)
{
    uint32_t at = 0;
    while (at < *count && strcmp(builder->strings[names[at]], builder->strings[name]) < 0)
        at++;
    if (name == 0 || (at < *count && names[at] == name) || *count == CANDIDATES_MAX)
        return;
    memmove(names + at + 1, names + at, (*count - at) * sizeof(*names));
    names[at] = name;
    ++*count;
}

static uint32_t join(struct builder *builder, const uint32_t *names, uint32_t count)
{
    char text[NAME_BYTES_MAX];
    size_t length = 0;
    if (count <= 1)
        return count == 0 ? 0 : names[0];
    for (uint32_t i = 0; i < count; i++) {
        const char *name = builder->strings[names[i]];
        size_t name_length = strlen(name);
        if (name_length + 3 > sizeof(text) - length)
            break;
        if (i > 0) {
            memcpy(text + length, " | ", 3);
            length += 3;
        }
        memcpy(text + length, name, name_length);
        length += name_length;
    }
    return keep_name(builder, text, length);
}

/* Whether the next entry is inlined into, or another part of, the same lines. */
static bool is_outermost(const struct builder_deobfuscation *all, const struct original *original)
{
    if (original->next == NONE)
        return true;
    const struct original *next = &all->originals[original->next];
    return next->first_line != original->first_line || next->last_line != original->last_line;
}

static bool covers(const struct original *original, uint32_t line)
{
    return original->has_lines && line >= original->first_line && line <= original->last_line;
}

/* The calls that were inlined into each other at this line. False: no entry, or entries of
 * different lines: those are no calls of each other. */
static bool name_by_line(struct builder *builder, const struct method *method, uint32_t line,
                         struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    const struct original *found = NULL;
    for (uint32_t i = method->first; i != NONE; i = all->originals[i].next) {
        const struct original *original = &all->originals[i];
        all->steps++;
        if (!covers(original, line))
            continue;
        if (found != NULL &&
            (found->first_line != original->first_line || found->last_line != original->last_line))
            return false;
        found = original;
        uint32_t name = qualify(builder, original->class_name, original->name);
        if (name == 0 || naming->count == NAMING_CALLS_MAX)
            continue;
        naming->calls[naming->count++] =
            (struct builder_line){.name = name, .line = source_line(original, line)};
    }
    return naming->count > 0;
}

/* All names that the method could have: those at this line; else those that hold for any line, or
 * those of the functions into which others were inlined. */
static void name_by_candidates(struct builder *builder, const struct method *method, uint32_t line,
                               struct naming *naming)
{
    enum { AT_LINE, ANY_LINE, OUTERMOST, WAYS };
    struct builder_deobfuscation *all = builder->deobfuscation;
    uint32_t names[WAYS][CANDIDATES_MAX], counts[WAYS] = {0}, lines[WAYS] = {0};
    bool lines_differ[WAYS] = {0};
    for (uint32_t i = method->first; i != NONE; i = all->originals[i].next) {
        const struct original *original = &all->originals[i];
        bool at_line = line != 0 && covers(original, line);
        all->steps++;
        if (original->has_lines && !is_outermost(all, original))
            continue;
        int way = !original->has_lines ? ANY_LINE : at_line ? AT_LINE : OUTERMOST;
        uint32_t own = way == OUTERMOST ? 0 : original->source_first;
        if (way == AT_LINE)
            own = source_line(original, line);
        else if (way == ANY_LINE && own == 0)
            own = line;
        lines_differ[way] |= counts[way] > 0 && lines[way] != own;
        lines[way] = own;
        add_candidate(builder, names[way], &counts[way], qualify_original(builder, i));
    }
    int way = counts[AT_LINE] > 0 ? AT_LINE : counts[ANY_LINE] > 0 ? ANY_LINE : OUTERMOST;
    naming->count = counts[way] > 0;
    naming->calls[0] = (struct builder_line){
        .name = join(builder, names[way], counts[way]),
        .line = lines_differ[way] ? 0 : lines[way],
    };
}

static void name_without_line(struct builder *builder, struct method *method, struct naming *naming)
{
    if (!method->asked) {
        name_by_candidates(builder, method, 0, naming);
        method->asked = true;
        method->name = naming->count > 0 ? naming->calls[0].name : 0;
        method->line = naming->calls[0].line;
    }
    naming->count = method->name != 0;
    naming->calls[0] = (struct builder_line){.name = method->name, .line = method->line};
}

/* As the trace processor does it: entries without lines hold for any line; without a line, or where
 * none holds, all names that the method has, the inlined ones, too. */
bool builder_find_naming_in_trace(struct builder *builder, const uint32_t key[3], bool has_line,
                                  uint32_t line, struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    uint32_t names[CANDIDATES_MAX], count = 0;
    uint64_t id = intern_find(&all->method_ids, key, 3 * sizeof(*key));
    naming->count = 0;
    naming->by_line = false;
    if (id == 0)
        return false;
    uint32_t first = all->methods[id - 1].first;
    for (uint32_t i = first; i != NONE && has_line; i = all->originals[i].next) {
        const struct original *original = &all->originals[i];
        all->steps++;
        if ((original->has_lines && !covers(original, line)) || naming->count == NAMING_CALLS_MAX)
            continue;
        naming->calls[naming->count++] = (struct builder_line){
            .name = qualify_original(builder, i),
            .line = original->has_source ? source_line(original, line) : 0,
            .has_line = original->has_source,
        };
    }
    naming->by_line = naming->count > 0;
    if (naming->by_line)
        return naming->calls[naming->count - 1].name != 0;
    for (uint32_t i = first; i != NONE; i = all->originals[i].next) {
        all->steps++;
        add_candidate(builder, names, &count, qualify_original(builder, i));
    }
    naming->count = 1;
    naming->calls[0] = (struct builder_line){.name = join(builder, names, count)};
    return naming->calls[0].name != 0;
}

bool builder_find_naming(struct builder *builder, const uint32_t key[3], uint32_t line,
                         struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    naming->count = 0;
    uint64_t id = intern_find(&all->method_ids, key, 3 * sizeof(*key));
    if (id != 0) {
        struct method *method = &all->methods[id - 1];
        if (line == 0)
            name_without_line(builder, method, naming);
        else if (!name_by_line(builder, method, line, naming))
            name_by_candidates(builder, method, line, naming);
        return naming->count > 0 && naming->calls[0].name != 0;
    }
    id = intern_find(&all->class_ids, key, 2 * sizeof(*key));
    if (id == 0 || all->class_names[id - 1] == 0)
        return false;
    naming->count = 1;
    naming->calls[0] = (struct builder_line){
        .name = qualify(builder, all->class_names[id - 1], key[2]),
        .line = line,
    };
    return naming->calls[0].name != 0;
}
