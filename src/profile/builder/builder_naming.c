/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decide on the original name of an obfuscated method. If its entries have lines, the frame's line
 * selects among them. Entries with the same lines are inlined calls, innermost first. If the choice
 * stays open, the name consists of all possible names, with " | " between them.
 */
#include <stdlib.h>
#include <string.h>

#include "profile/builder/builder_deobfuscation.h"

#define CANDIDATES_MAX 16u
#define NAME_BYTES_MAX 65536u
/* A few bytes of a file may produce long names: limit of their total. Further frames keep their
 * names. */
#define NAME_BYTES_TOTAL_MAX ((size_t)256 << 20)
#define STEP_BYTES 16u /* bytes of a name that count like one package */
#define NONE DEOBFUSCATION_NONE

/* Return the source line. The source range has as many lines as the obfuscated one, or all lines
 * map to its first. */
static uint32_t source_line(const struct original *original, uint32_t line)
{
    uint64_t at = (uint64_t)original->source_first + line - original->first_line;
    if (!original->has_source)
        return line;
    if (original->source_first == 0 || original->source_last <= original->source_first)
        return original->source_first;
    return at < original->source_last ? (uint32_t)at : original->source_last;
}

/* Intern a name. Return 0 at the limit of bytes. */
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

/* Return "com.example.Main.run", or 0 at the limit of bytes. */
static uint32_t qualify(struct builder *builder, uint32_t class_name, uint32_t name)
{
    char text[NAME_BYTES_MAX];
    const char *owner = builder->strings[class_name], *member = builder->strings[name];
    size_t owner_length = strlen(owner), length = strlen(member);
    if (class_name == 0 || memchr(member, '.', length) != NULL)
        return name;
    if (owner_length + 1 + length > sizeof(text) ||
        builder->deobfuscation->name_bytes + length > NAME_BYTES_TOTAL_MAX)
        return 0;
    memcpy(text, owner, owner_length);
    text[owner_length] = '.';
    memcpy(text + owner_length + 1, member, length);
    return keep_name(builder, text, owner_length + 1 + length);
}

static uint32_t qualify_original(struct builder *builder, uint32_t index)
{
    struct original *original = &builder->deobfuscation->originals[index];
    if (original->qualified == NONE)
        original->qualified = qualify(builder, original->class_name, original->name);
    return original->qualified;
}

/* Add a name in sorted order, once. */
static void add_candidate(struct builder *builder, uint32_t *names, uint32_t *count, uint32_t name)
{
    uint32_t at = 0;
    if (name == 0 || *count == CANDIDATES_MAX)
        return;
    for (uint32_t i = 0; i < *count; i++)
        if (names[i] == name)
            return;
    while (at < *count && strcmp(builder->strings[names[at]], builder->strings[name]) < 0)
        at++;
    builder->deobfuscation->steps += at * strlen(builder->strings[name]) / STEP_BYTES;
    memmove(names + at + 1, names + at, (*count - at) * sizeof(*names));
    names[at] = name;
    ++*count;
}

static uint32_t builder_naming_join(struct builder *builder, const uint32_t *names, uint32_t count)
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

/* Return whether the next entry has other lines, so that this one is the outermost call of its
 * lines. */
static bool is_outermost(const struct builder_deobfuscation *all, const struct original *original)
{
    if (original->next == NONE)
        return true;
    const struct original *next = &all->originals[original->next];
    return next->first_line != original->first_line || next->last_line != original->last_line;
}

/* Name the calls that were inlined into each other at this line. Return false if no entry contains
 * the line, or if entries of different lines do: those are not inlined into each other. */
static bool name_by_line(struct builder *builder, const struct method *method, uint32_t line,
                         struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    const struct line_range *found[2];
    if (builder_ranges_at(all, method, line, found, 2) != 1)
        return false;
    const uint32_t *entries = &all->range_entries[found[0]->first_entry];
    for (uint32_t i = 0; i < found[0]->entry_count && naming->count < NAMING_CALLS_MAX; i++) {
        uint32_t name = qualify_original(builder, entries[i]);
        if (name != 0)
            naming->calls[naming->count++] = (struct builder_line){
                .name = name, .line = source_line(&all->originals[entries[i]], line)};
    }
    return naming->count > 0;
}

/* --- candidates --- */

static int compare_indexes(const void *left_pointer, const void *right_pointer)
{
    uint32_t left = *(const uint32_t *)left_pointer, right = *(const uint32_t *)right_pointer;
    return left < right ? -1 : left > right;
}

/* List the entries that contain a line, in the order of the map, and at most the first `each` of a
 * range. Return how many, or 0 if there are more than NAMING_ENTRIES_MAX. */
static size_t entries_at(struct builder_deobfuscation *all, const struct method *method,
                         uint32_t line, uint32_t each, uint32_t entries[NAMING_ENTRIES_MAX])
{
    const struct line_range *found[NAMING_ENTRIES_MAX + 1];
    size_t count = 0, ranges = builder_ranges_at(all, method, line, found, NAMING_ENTRIES_MAX + 1);
    for (size_t i = 0; i < ranges; i++) {
        uint32_t own = found[i]->entry_count < each ? found[i]->entry_count : each;
        if (own > NAMING_ENTRIES_MAX - count)
            return 0;
        memcpy(entries + count, &all->range_entries[found[i]->first_entry], own * sizeof(*entries));
        count += own;
    }
    if (count > 1)
        qsort(entries, count, sizeof(*entries), compare_indexes);
    return count;
}

/* Use the names of all entries that contain this line, without the inlined calls. */
static bool name_by_candidates(struct builder *builder, const struct method *method, uint32_t line,
                               struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    uint32_t entries[NAMING_ENTRIES_MAX], names[CANDIDATES_MAX], count = 0, first = 0;
    bool lines_differ = false;
    size_t entry_count = entries_at(all, method, line, UINT32_MAX, entries);
    for (size_t i = 0; i < entry_count; i++) {
        const struct original *original = &all->originals[entries[i]];
        if (!is_outermost(all, original))
            continue;
        uint32_t own = source_line(original, line);
        if (count == 0)
            first = own;
        lines_differ |= own != first;
        add_candidate(builder, names, &count, qualify_original(builder, entries[i]));
    }
    naming->count = count > 0;
    naming->calls[0] = (struct builder_line){
        .name = builder_naming_join(builder, names, count),
        .line = lines_differ ? 0 : first,
    };
    return count > 0;
}

/* Record the line of another entry that holds for any line. 0: the entry has none, so the line is
 * the obfuscated code's. */
static void note_line(struct method *method, uint32_t line, bool is_first)
{
    if (is_first) {
        method->line = line;
    } else if (line != 0 && method->line != 0) {
        method->lines_differ |= line != method->line;
    } else if (line != method->line) {
        uint32_t known = line != 0 ? line : method->line;
        method->lines_differ |= method->mixed != 0 && method->mixed != known;
        method->mixed = known;
        method->line = 0;
    }
}

/* Collect all possible names of the method: of entries that hold for any line, or else of the
 * outermost functions. */
static void collect_names(struct builder *builder, struct method *method)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    uint32_t any[CANDIDATES_MAX], outermost[CANDIDATES_MAX], any_count = 0, outermost_count = 0;
    for (uint32_t i = method->first; i != NONE; i = all->originals[i].next) {
        const struct original *original = &all->originals[i];
        if (!original->has_lines) {
            note_line(method, original->source_first, any_count == 0);
            add_candidate(builder, any, &any_count, qualify_original(builder, i));
        } else if (is_outermost(all, original)) {
            add_candidate(builder, outermost, &outermost_count, qualify_original(builder, i));
        }
    }
    method->is_collected = true;
    method->holds_for_any = any_count > 0;
    method->name = any_count > 0 ? builder_naming_join(builder, any, any_count)
                                 : builder_naming_join(builder, outermost, outermost_count);
}

/* Name the method without its line's help. `line` 0: unknown. */
static void name_without_line(struct builder *builder, struct method *method, uint32_t line,
                              struct naming *naming)
{
    if (!method->is_collected)
        collect_names(builder, method);
    bool differ = method->lines_differ || (method->mixed != 0 && method->mixed != line);
    uint32_t own = method->line != 0 ? method->line : line;
    naming->count = method->name != 0;
    naming->calls[0] = (struct builder_line){
        .name = method->name,
        .line = differ || !method->holds_for_any ? 0 : own,
    };
}

/* --- the trace processor's rules --- */

/* Name a method by its line. Entries without lines hold for any line. */
static void name_by_line_in_trace(struct builder *builder, const struct method *method,
                                  uint32_t line, struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    uint32_t entries[NAMING_ENTRIES_MAX];
    size_t count = entries_at(all, method, line, NAMING_CALLS_MAX, entries), at = 0;
    const uint32_t *any = all->range_entries + method->first_any, *end = any + method->any_count;
    while (naming->count < NAMING_CALLS_MAX && (at < count || any < end)) {
        uint32_t i = any == end || (at < count && entries[at] < *any) ? entries[at++] : *any++;
        const struct original *original = &all->originals[i];
        naming->calls[naming->count++] = (struct builder_line){
            .name = qualify_original(builder, i),
            .line = original->has_source ? source_line(original, line) : 0,
            .has_line = original->has_source,
        };
    }
}

/* Find a name by the trace processor's rules. Without a line, or if no entry contains it, a method
 * gets all its names, including those of inlined calls. */
bool builder_find_naming_in_trace(struct builder *builder, const uint32_t key[3], bool has_line,
                                  uint32_t line, struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    uint64_t id = intern_find(&all->method_ids, key, 3 * sizeof(*key));
    naming->count = 0;
    naming->by_line = false;
    if (id == 0)
        return false;
    struct method *method = &all->methods[id - 1];
    if (has_line)
        name_by_line_in_trace(builder, method, line, naming);
    naming->by_line = naming->count > 0;
    if (naming->by_line)
        return naming->calls[naming->count - 1].name != 0;
    if (!method->is_collected) {
        uint32_t names[CANDIDATES_MAX], count = 0;
        for (uint32_t i = method->first; i != NONE; i = all->originals[i].next)
            add_candidate(builder, names, &count, qualify_original(builder, i));
        method->name = builder_naming_join(builder, names, count);
        method->is_collected = true;
    }
    naming->count = 1;
    naming->calls[0] = (struct builder_line){.name = method->name};
    return method->name != 0;
}

bool builder_find_naming(struct builder *builder, const uint32_t key[3], uint32_t line,
                         struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    naming->count = 0;
    uint64_t id = intern_find(&all->method_ids, key, 3 * sizeof(*key));
    if (id != 0) {
        struct method *method = &all->methods[id - 1];
        if (line == 0 || (!name_by_line(builder, method, line, naming) &&
                          !name_by_candidates(builder, method, line, naming)))
            name_without_line(builder, method, line, naming);
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
