/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restore names of obfuscated Java code. A mapping applies only to frames of its package; a mapping
 * without a package applies to all. builder_naming.c decides on a method's name.
 */
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder/builder_deobfuscation.h"
#include "profile/java_frame.h"
#include "util/array.h"

#define RECENT_PACKAGES 16u /* compared with a new package: packets are sorted by package */
#define USERS_UIDS 100000u  /* a uid is the device user's number times this, plus the app's id */

#define NONE DEOBFUSCATION_NONE
#define WITHOUT_MAP (NONE - 1) /* a package without a mapping */

void builder_deobfuscation_free(struct builder_deobfuscation *all)
{
    if (all == NULL)
        return;
    intern_free(&all->method_ids);
    intern_free(&all->class_ids);
    free(all->methods);
    free(all->class_names);
    free(all->originals);
    free(all->ranges);
    free(all->range_entries);
    free(all->packages);
    free(all);
}

/* --- reading --- */

static int add_original(struct builder *builder, const uint32_t key[3],
                        const struct original *original)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    bool added;
    if (all->original_count >= NONE - 1 ||
        ARRAY_RESERVE(&all->originals, &all->original_capacity, all->original_count, 1) < 0 ||
        ARRAY_RESERVE(&all->methods, &all->method_capacity, all->method_count, 1) < 0)
        return builder_fail(builder);
    uint64_t id = intern_bytes(&all->method_ids, key, 3 * sizeof(*key), &added);
    if (id == 0)
        return builder_fail(builder);
    struct method *method = &all->methods[id - 1];
    uint32_t index = (uint32_t)all->original_count++;
    all->originals[index] = *original;
    all->originals[index].next = NONE;
    all->method_count += added;
    if (added || method->packet != all->mappings)
        *method = (struct method){.first = index, .packet = all->mappings};
    else
        all->originals[method->last].next = index;
    method->last = index;
    return builder_keep(builder, 1);
}

static int take_method(struct builder *builder, struct proto_span entry, uint32_t package,
                       uint32_t obfuscated_class, uint32_t class_name)
{
    struct original original = {
        .class_name = class_name, .last_line = UINT32_MAX, .qualified = NONE};
    uint32_t key[3] = {package, obfuscated_class, 0};
    struct proto_field field;
    int status;
    while ((status = proto_next(&entry, &field)) > 0) {
        switch (field.number) {
        case PB_OBFUSCATED_MEMBER_OBFUSCATED_NAME:
            key[2] = builder_string_of_span(builder, field.span);
            break;
        case PB_OBFUSCATED_MEMBER_DEOBFUSCATED_NAME:
            original.name = builder_string_of_span(builder, field.span);
            break;
        case PB_OBFUSCATED_MEMBER_OBFUSCATED_LINE_START:
            original.has_lines = true;
            original.first_line = (uint32_t)field.value;
            break;
        case PB_OBFUSCATED_MEMBER_OBFUSCATED_LINE_END:
            original.has_lines = true;
            original.last_line = (uint32_t)field.value;
            break;
        case PB_OBFUSCATED_MEMBER_SOURCE_LINE_START:
            original.has_source = true;
            original.source_first = (uint32_t)field.value;
            break;
        case PB_OBFUSCATED_MEMBER_SOURCE_LINE_END:
            original.source_last = (uint32_t)field.value;
            break;
        }
    }
    if (status < 0)
        return -EBADMSG;
    if (original.name == 0 || key[2] == 0)
        return builder->error;
    return add_original(builder, key, &original);
}

static int set_class(struct builder *builder, uint32_t package, uint32_t obfuscated, uint32_t name)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    uint32_t key[2] = {package, obfuscated};
    bool added;
    if (ARRAY_RESERVE(&all->class_names, &all->class_capacity, all->class_count, 1) < 0)
        return builder_fail(builder);
    uint64_t id = intern_bytes(&all->class_ids, key, sizeof(key), &added);
    if (id == 0)
        return builder_fail(builder);
    all->class_names[id - 1] = name;
    all->class_count += added;
    return 0;
}

static int take_class(struct builder *builder, struct proto_span entry, uint32_t package)
{
    struct proto_span again = entry;
    struct proto_field field;
    uint32_t obfuscated = 0, name = 0;
    int status, code;
    while ((status = proto_next(&entry, &field)) > 0) {
        if (field.number == PB_OBFUSCATED_CLASS_OBFUSCATED_NAME)
            obfuscated = builder_string_of_span(builder, field.span);
        else if (field.number == PB_OBFUSCATED_CLASS_DEOBFUSCATED_NAME)
            name = builder_string_of_span(builder, field.span);
    }
    if (status < 0)
        return -EBADMSG;
    if (obfuscated == 0)
        return builder->error;
    code = set_class(builder, package, obfuscated, name);
    while (code == 0 && proto_next(&again, &field) > 0) {
        if (field.number == PB_OBFUSCATED_CLASS_OBFUSCATED_METHODS)
            code = take_method(builder, field.span, package, obfuscated, name);
    }
    return code;
}

static int add_package(struct builder *builder, uint32_t package)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    for (size_t i = all->package_count; i-- > 0;) {
        if (all->packages[i] == package)
            return 0;
        if (all->package_count - i == RECENT_PACKAGES)
            break;
    }
    if (ARRAY_ADD(&all->packages, &all->package_count, &all->package_capacity, package) < 0)
        return builder_fail(builder);
    return 0;
}

int builder_deobfuscation_mapping(struct builder *builder, struct proto_span mapping)
{
    struct proto_span again = mapping;
    struct proto_field field;
    uint32_t package = 0;
    int status, code;
    while ((status = proto_next(&mapping, &field)) > 0) {
        if (field.number == PB_DEOBFUSCATION_MAPPING_PACKAGE_NAME)
            package = builder_string_of_span(builder, field.span);
    }
    if (status < 0)
        return -EBADMSG;
    if (builder->deobfuscation == NULL)
        builder->deobfuscation = calloc(1, sizeof(*builder->deobfuscation));
    if (builder->deobfuscation == NULL)
        return builder_fail(builder);
    builder->deobfuscation->mappings++;
    code = add_package(builder, package);
    while (code == 0 && proto_next(&again, &field) > 0) {
        if (field.number == PB_DEOBFUSCATION_MAPPING_OBFUSCATED_CLASSES)
            code = take_class(builder, field.span, package);
    }
    return code;
}

static int take_package(struct builder *builder, struct proto_span entry)
{
    struct proto_field field;
    uint32_t name = 0;
    uint64_t uid = 0;
    int status;
    while ((status = proto_next(&entry, &field)) > 0) {
        if (field.number == PB_PACKAGES_LIST_PACKAGE_INFO_NAME)
            name = builder_string_of_span(builder, field.span);
        else if (field.number == PB_PACKAGES_LIST_PACKAGE_INFO_UID)
            uid = field.value;
    }
    if (status < 0)
        return -EBADMSG;
    /* Packages may share a user id: use the first. */
    if (name != 0 && id_map_find(&builder->packages, uid) == ID_MAP_NONE &&
        id_map_set(&builder->packages, uid, name) < 0)
        return builder_fail(builder);
    return builder->error;
}

int builder_packages_list(struct builder *builder, struct proto_span list)
{
    struct proto_field field;
    int status, code = 0;
    while (code == 0 && (status = proto_next(&list, &field)) != 0) {
        if (status < 0)
            return -EBADMSG;
        if (field.number == PB_PACKAGES_LIST_PACKAGES)
            code = take_package(builder, field.span);
    }
    return code;
}

/* --- the package of a frame --- */

static uint32_t find_string(const struct builder *builder, struct java_text text)
{
    uint64_t id = intern_find(&builder->string_ids, text.at, text.length);
    return id == 0 ? NONE : (uint32_t)(id - 1);
}

static uint32_t package_of_process(const struct builder *builder, uint32_t index)
{
    if (index >= builder->profile->process_count)
        return NONE;
    const struct profile_process *process = &builder->profile->processes[index];
    uint32_t package = id_map_find(&builder->packages, (uint32_t)process->uid % USERS_UIDS);
    if (process->uid > 0 && package != ID_MAP_NONE)
        return package;
    if (builder->as_in_trace)
        return NONE; /* the trace processor makes no further guess */
    return find_string(builder, java_package_of_command(process->name, strlen(process->name)));
}

/* Set the package of the frames on these stacks if their mappings do not determine it. The first
 * process with a frame decides. */
static void guess_packages(const struct builder *builder, const struct profile_dump *dump,
                           uint32_t package, uint32_t *packages, bool *seen)
{
    const struct profile *profile = builder->profile;
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t callsite = dump->samples[i]->callsite;
        while (callsite != PROFILE_NONE && !seen[callsite]) {
            seen[callsite] = true;
            uint32_t frame = profile->callsites[callsite].frame;
            if (packages[frame] == NONE)
                packages[frame] = package;
            callsite = profile->callsites[callsite].parent;
        }
    }
}

static uint32_t package_of_mapping(const struct builder *builder,
                                   const struct profile_mapping *mapping)
{
    struct java_text package;
    if (!java_package_of_path(mapping->path, &package))
        return NONE;
    uint32_t string = find_string(builder, package);
    return string == NONE ? WITHOUT_MAP : string;
}

/* Return the packages by frame: the string of the package, WITHOUT_MAP, or NONE: unknown. NULL: no
 * memory. */
static uint32_t *find_packages(const struct builder *builder)
{
    const struct profile *profile = builder->profile;
    uint32_t *packages = malloc((profile->frame_count + 1) * sizeof(*packages));
    uint32_t *of_mapping = malloc((profile->mapping_count + 1) * sizeof(*of_mapping));
    bool *seen = calloc(profile->callsite_count + 1, sizeof(*seen));
    if (packages == NULL || of_mapping == NULL || seen == NULL) {
        free(packages);
        packages = NULL;
        goto out;
    }
    for (size_t i = 0; i < profile->mapping_count; i++)
        of_mapping[i] = package_of_mapping(builder, &profile->mappings[i]);
    for (size_t i = 0; i < profile->frame_count; i++) {
        uint32_t mapping = profile->frames[i].mapping;
        packages[i] = mapping == PROFILE_NONE ? NONE : of_mapping[mapping];
    }
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        uint32_t package = package_of_process(builder, heap->process);
        for (size_t j = 0; j < heap->dump_count && package != NONE; j++)
            guess_packages(builder, &heap->dumps[j], package, packages, seen);
    }
out:
    free(of_mapping);
    free(seen);
    return packages;
}

/* --- applying --- */

/* Return Java's name of a class's file if the trace has a file or line; Kotlin's, if the trace has
 * a Kotlin file. */
static uint32_t source_file(struct builder *builder, uint32_t name, const char *known)
{
    char file[1024];
    const char *text = builder->strings[name];
    const char *method = strrchr(text, '.');
    if (method == NULL || strchr(text, ' ') != NULL)
        return 0;
    const char *dot = memrchr(text, '.', (size_t)(method - text));
    const char *simple = dot == NULL ? text : dot + 1;
    size_t length = (size_t)(method - simple), known_length = strlen(known);
    const char *inner = memchr(simple, '$', length);
    if (inner != NULL && inner != simple)
        length = (size_t)(inner - simple);
    bool kotlin = known_length > 3 && strcmp(known + known_length - 3, ".kt") == 0;
    if (length == 0 || length + sizeof(".java") > sizeof(file))
        return 0;
    memcpy(file, simple, length);
    strcpy(file + length, kotlin ? ".kt" : ".java");
    return builder_string(builder, file, strlen(file));
}

static void set_name(struct builder *builder, size_t index, const struct builder_line *call)
{
    struct profile_frame *frame = &builder->profile->frames[index];
    bool has_place = *frame->source_file != '\0' || call->line != 0;
    uint32_t file = has_place ? source_file(builder, call->name, frame->source_file) : 0;
    builder->frame_names[index] = call->name;
    frame->name = frame->linkage_name = builder->strings[call->name];
    frame->obfuscated_name = "";
    frame->source_file = builder->strings[file];
    frame->line = call->line;
}

/* Find the name of a frame in its package's map; for an unknown package, in the map without a
 * package. Code in the JIT's memory may belong to any package: the last map wins. */
static bool name_frame(struct builder *builder, size_t index, uint32_t package,
                       struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    const struct profile_frame *frame = &builder->profile->frames[index];
    const char *name = builder->strings[builder->frame_names[index]];
    struct java_text class_name, method;
    if (all->steps > NAMING_STEPS_MAX ||
        !java_frame_split(name, strlen(name), &class_name, &method))
        return false;
    uint32_t key[3] = {package, find_string(builder, class_name), find_string(builder, method)};
    if (key[1] == NONE)
        return false;
    if (key[2] == NONE)
        key[2] = builder_string(builder, method.at, method.length);
    if (package < WITHOUT_MAP && builder_find_naming(builder, key, frame->line, naming))
        return true;
    if (frame->mapping != PROFILE_NONE &&
        java_path_is_jit(builder->profile->mappings[frame->mapping].path)) {
        for (size_t i = all->package_count; i-- > 0 && all->steps <= NAMING_STEPS_MAX;
             all->steps++) {
            key[0] = all->packages[i];
            if (builder_find_naming(builder, key, frame->line, naming))
                return true;
        }
    }
    key[0] = 0;
    return builder_find_naming(builder, key, frame->line, naming);
}

/* Find the name of a frame by the trace processor's rules: search the maps of the frame's package,
 * or of all packages for code in the JIT's memory. Then, unlike the trace processor, search the map
 * without a package. */
static bool name_frame_in_trace(struct builder *builder, size_t index, uint32_t package,
                                struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    const struct profile *profile = builder->profile;
    const struct profile_frame *frame = &profile->frames[index];
    const char *name = builder->strings[builder->frame_names[index]];
    struct java_text class_name, method;
    bool has_line = false, found = false;
    uint32_t line = 0;
    if (all->steps > NAMING_STEPS_MAX ||
        !java_frame_split(name, strlen(name), &class_name, &method))
        return false;
    for (uint32_t i = 0; i < frame->symbol_count && !has_line; i++) {
        has_line = profile->symbol_lines[frame->symbol_first + i].has_line;
        line = profile->symbol_lines[frame->symbol_first + i].line;
    }
    uint32_t key[3] = {package, find_string(builder, class_name), find_string(builder, method)};
    if (key[1] == NONE || key[2] == NONE)
        return false;
    bool is_jit =
        frame->mapping != PROFILE_NONE && java_path_is_jit(profile->mappings[frame->mapping].path);
    for (size_t i = all->package_count;
         is_jit && !found && i-- > 0 && all->steps <= NAMING_STEPS_MAX; all->steps++) {
        key[0] = all->packages[i];
        found = builder_find_naming_in_trace(builder, key, has_line, line, naming);
    }
    if (!is_jit && package < WITHOUT_MAP)
        found = builder_find_naming_in_trace(builder, key, has_line, line, naming);
    key[0] = 0;
    return found || builder_find_naming_in_trace(builder, key, has_line, line, naming);
}

/* Append the chosen lines after the trace's symbols, as the symbols of the frame. */
static void put_lines_in_trace(struct builder *builder, struct profile_frame *frame,
                               const struct naming *naming)
{
    struct profile *profile = builder->profile;
    size_t set = profile->symbol_line_count;
    if (set + naming->count >= PROFILE_NONE)
        return;
    if (ARRAY_RESERVE(&profile->symbol_lines, &builder->symbols.kept_line_capacity, set,
                      naming->count) < 0) {
        builder_fail(builder);
        return;
    }
    for (uint32_t i = 0; i < naming->count; i++)
        profile->symbol_lines[profile->symbol_line_count++] = (struct profile_symbol_line){
            .name = builder->strings[naming->calls[i].name],
            .source_file = "",
            .line = naming->calls[i].line,
            .has_line = naming->calls[i].has_line,
            .set = (uint32_t)set,
            .has_inlined = true,
            .inlined = i + 1 < naming->count,
        };
    frame->symbol_first = (uint32_t)set;
    frame->symbol_count = naming->count;
}

/* Turn the frame into the innermost call. The other calls are copies of it, around it. */
static void apply_naming(struct builder *builder, size_t index, const struct naming *naming,
                         struct builder_around *around)
{
    const char *obfuscated = builder->profile->frames[index].linkage_name;
    if (builder->as_in_trace) {
        struct profile_frame *frame = &builder->profile->frames[index];
        frame->name = builder->strings[naming->calls[naming->count - 1].name];
        frame->obfuscated_name = obfuscated;
        if (naming->by_line)
            put_lines_in_trace(builder, frame, naming);
        return;
    }
    size_t first = builder_copy_frame(builder, index, naming->count - 1);
    if (first == 0) {
        /* No inlined calls, or no room for them: use the function that ran. */
        set_name(builder, index, &naming->calls[naming->count - 1]);
        builder->profile->frames[index].obfuscated_name = obfuscated;
        return;
    }
    *around = (struct builder_around){(uint32_t)first, naming->count - 1};
    for (uint32_t i = 1; i < naming->count; i++)
        set_name(builder, first + i - 1, &naming->calls[i]);
    set_name(builder, index, &naming->calls[0]);
    builder->profile->frames[first + naming->count - 2].obfuscated_name = obfuscated;
}

void builder_apply_deobfuscation(struct builder *builder)
{
    size_t frames = builder->profile->frame_count;
    bool expanded = false;
    if (builder->deobfuscation == NULL || builder->error < 0)
        return;
    uint32_t *packages = find_packages(builder);
    struct builder_around *around = calloc(frames + 1, sizeof(*around));
    struct naming *naming = malloc(sizeof(*naming));
    if (packages == NULL || around == NULL || naming == NULL ||
        builder_index_lines(builder->deobfuscation) < 0) {
        builder_fail(builder);
        goto out;
    }
    for (size_t i = 0; i < frames && builder->error == 0; i++) {
        builder->losses.frames_over_limit += builder->deobfuscation->steps > NAMING_STEPS_MAX;
        if (!(builder->as_in_trace ? name_frame_in_trace(builder, i, packages[i], naming)
                                   : name_frame(builder, i, packages[i], naming)))
            continue;
        if (builder_keep(builder, 1) < 0)
            break;
        apply_naming(builder, i, naming, &around[i]);
        expanded |= around[i].count > 0;
    }
    if (expanded && builder->error == 0) {
        /* The added frames have no frames around them. */
        size_t now = builder->profile->frame_count;
        struct builder_around *grown = reallocarray(around, now + 1, sizeof(*around));
        if (grown == NULL) {
            builder_fail(builder);
            goto out;
        }
        around = grown;
        memset(around + frames, 0, (now - frames) * sizeof(*around));
        builder_expand_callsites(builder, around);
    }
out:
    free(packages);
    free(around);
    free(naming);
}
