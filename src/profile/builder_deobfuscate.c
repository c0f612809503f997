/*
 * See builder.h: names of Java code that was obfuscated. A mapping counts for the frames of its
 * package alone; one without a package for all. Where a method's entries are bound to lines, the
 * frame's line chooses among them, and entries of the same lines are calls that were inlined, the
 * innermost first. What stays undecided has all names that it could have, with " | " between them.
 */
#include <stdlib.h>
#include <string.h>

#include "pb_field_numbers.h"
#include "profile/builder.h"
#include "profile/java_frame.h"
#include "util/array.h"

/* Of one frame: calls inlined into each other, or names to choose from. The rest is left out. */
#define CALLS_MAX 64u
#define CANDIDATES_MAX 16u
#define NAME_BYTES_MAX 65536u
/* A few bytes of a file may stand for much: names in all, and entries looked at. Frames beyond keep
 * their names. */
#define NAME_BYTES_TOTAL_MAX ((size_t)256 << 20)
#define STEPS_MAX ((uint64_t)1 << 30)
#define USERS_UIDS 100000u /* an app's id, and one of these for each of the device's users */

#define NONE UINT32_MAX
#define WITHOUT_MAP (NONE - 1) /* a package that no mapping names */

struct original {
    uint32_t class_name, name;  /* strings */
    uint32_t next;              /* of the same method; NONE: the last */
    bool has_lines, has_source; /* without the latter, lines are what they were */
    uint32_t first_line, last_line;
    uint32_t source_first, source_last; /* 0: none */
};

struct builder_deobfuscation {
    struct intern_table method_ids, class_ids; /* of package, class and method, as strings */
    struct method {
        uint32_t first, last; /* originals */
        uint64_t said_in;     /* packet: what is said last counts */
    } * methods;
    uint32_t *class_names;
    struct original *originals;
    uint32_t *packages; /* in the order in which they were met */
    size_t method_count, method_capacity, class_count, class_capacity;
    size_t original_count, original_capacity, package_count, package_capacity;
    uint64_t mappings, steps;
    size_t name_bytes;
};

void builder_deobfuscation_free(struct builder_deobfuscation *all)
{
    if (all == NULL)
        return;
    intern_free(&all->method_ids);
    intern_free(&all->class_ids);
    free(all->methods);
    free(all->class_names);
    free(all->originals);
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
        array_reserve(&all->originals, &all->original_capacity, all->original_count, 1,
                      sizeof(*original)) < 0 ||
        array_reserve(&all->methods, &all->method_capacity, all->method_count, 1,
                      sizeof(*all->methods)) < 0)
        return builder_fail(builder);
    uint64_t id = intern_bytes(&all->method_ids, key, 3 * sizeof(*key), &added);
    if (id == 0)
        return builder_fail(builder);
    struct method *method = &all->methods[id - 1];
    uint32_t index = (uint32_t)all->original_count++;
    all->originals[index] = *original;
    all->originals[index].next = NONE;
    all->method_count += added;
    if (added || method->said_in != all->mappings)
        *method = (struct method){.first = index, .said_in = all->mappings};
    else
        all->originals[method->last].next = index;
    method->last = index;
    return 0;
}

static int take_method(struct builder *builder, struct proto_span entry, uint32_t package,
                       uint32_t obfuscated_class, uint32_t class_name)
{
    struct original original = {.class_name = class_name, .last_line = UINT32_MAX};
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
    if (array_reserve(&all->class_names, &all->class_capacity, all->class_count, 1,
                      sizeof(*all->class_names)) < 0)
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
        if (all->package_count - i == CANDIDATES_MAX)
            break;
    }
    if (array_reserve(&all->packages, &all->package_capacity, all->package_count, 1,
                      sizeof(*all->packages)) < 0)
        return builder_fail(builder);
    all->packages[all->package_count++] = package;
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
    /* Packages may share a user id: the first has it. */
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

/* --- which package a frame belongs to --- */

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
    return find_string(builder, java_package_of_command(process->name, strlen(process->name)));
}

/* Those of all frames on these stacks whose mappings do not say; the first process that has a frame
 * counts. */
static void guess_packages(const struct builder *builder, const struct profile_dump *dump,
                           uint32_t package, uint32_t *packages, bool *seen)
{
    const struct profile *profile = builder->profile;
    for (size_t i = 0; i < dump->sample_count; i++) {
        uint32_t callsite = dump->samples[i].callsite;
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

/* By frame: the string of its package, WITHOUT_MAP, or NONE: unknown. NULL: no memory. */
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

/* --- what a method was called --- */

struct naming {
    struct builder_line calls[CALLS_MAX]; /* innermost first; the files are not known */
    uint32_t count;
};

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

/* "com.example.Main.run"; 0: too much of it. */
static uint32_t qualify(struct builder *builder, uint32_t class_name, uint32_t name)
{
    char text[NAME_BYTES_MAX];
    struct builder_deobfuscation *all = builder->deobfuscation;
    const char *owner = builder->strings[class_name], *member = builder->strings[name];
    size_t owner_length = strlen(owner), length = strlen(member);
    if (class_name == 0 || memchr(member, '.', length) != NULL)
        return name;
    if (owner_length + 1 + length > sizeof(text) ||
        all->name_bytes + owner_length + length > NAME_BYTES_TOTAL_MAX)
        return 0;
    memcpy(text, owner, owner_length);
    text[owner_length] = '.';
    memcpy(text + owner_length + 1, member, length);
    all->name_bytes += owner_length + 1 + length;
    return builder_string(builder, text, owner_length + 1 + length);
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
    if (builder->deobfuscation->name_bytes + length > NAME_BYTES_TOTAL_MAX)
        return 0;
    builder->deobfuscation->name_bytes += length;
    return builder_string(builder, text, length);
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
        if (name == 0 || naming->count == CALLS_MAX)
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

/* Of a method, or where the map has its class alone, of that. */
static bool find_naming(struct builder *builder, const uint32_t key[3], uint32_t line,
                        struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    naming->count = 0;
    uint64_t id = intern_find(&all->method_ids, key, 3 * sizeof(*key));
    if (id != 0) {
        struct method method = all->methods[id - 1];
        if (line == 0 || !name_by_line(builder, &method, line, naming))
            name_by_candidates(builder, &method, line, naming);
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

/* --- applying --- */

/* The file that Java has a class in, where any was told; of Kotlin's, where that was one. */
static uint32_t source_file(struct builder *builder, uint32_t name, const char *told)
{
    char file[1024];
    const char *text = builder->strings[name];
    const char *method = strrchr(text, '.');
    if (method == NULL || strchr(text, ' ') != NULL)
        return 0;
    const char *dot = memrchr(text, '.', (size_t)(method - text));
    const char *simple = dot == NULL ? text : dot + 1;
    size_t length = (size_t)(method - simple), told_length = strlen(told);
    const char *inner = memchr(simple, '$', length);
    if (inner != NULL && inner != simple)
        length = (size_t)(inner - simple);
    bool kotlin = told_length > 3 && strcmp(told + told_length - 3, ".kt") == 0;
    if (length == 0 || length + sizeof(".java") > sizeof(file))
        return 0;
    memcpy(file, simple, length);
    strcpy(file + length, kotlin ? ".kt" : ".java");
    return builder_string(builder, file, strlen(file));
}

static void set_name(struct builder *builder, size_t index, const struct builder_line *call)
{
    struct profile_frame *frame = &builder->profile->frames[index];
    bool told = *frame->source_file != '\0' || call->line != 0;
    uint32_t file = told ? source_file(builder, call->name, frame->source_file) : 0;
    builder->frame_names[index] = call->name;
    frame->name = frame->linkage_name = builder->strings[call->name];
    frame->obfuscated_name = "";
    frame->source_file = builder->strings[file];
    frame->line = call->line;
}

/* Where its package's map has it; a frame of unknown package in that of no package. Code from the
 * JIT's memory may be any package's: the one said last has it. */
static bool name_frame(struct builder *builder, size_t index, uint32_t package,
                       struct naming *naming)
{
    struct builder_deobfuscation *all = builder->deobfuscation;
    const struct profile_frame *frame = &builder->profile->frames[index];
    const char *name = builder->strings[builder->frame_names[index]];
    struct java_text class_name, method;
    if (all->steps > STEPS_MAX || !java_frame_split(name, strlen(name), &class_name, &method))
        return false;
    uint32_t key[3] = {package, find_string(builder, class_name), find_string(builder, method)};
    if (key[1] == NONE)
        return false;
    if (key[2] == NONE)
        key[2] = builder_string(builder, method.at, method.length);
    if (package < WITHOUT_MAP && find_naming(builder, key, frame->line, naming))
        return true;
    if (frame->mapping != PROFILE_NONE &&
        java_path_is_jit(builder->profile->mappings[frame->mapping].path)) {
        for (size_t i = all->package_count; i-- > 0 && all->steps <= STEPS_MAX; all->steps++) {
            key[0] = all->packages[i];
            if (find_naming(builder, key, frame->line, naming))
                return true;
        }
    }
    key[0] = 0;
    return find_naming(builder, key, frame->line, naming);
}

/* The frame becomes the innermost call; the others are copies of it, around it. */
static void apply_naming(struct builder *builder, size_t index, const struct naming *naming,
                         struct builder_around *around)
{
    const char *obfuscated = builder->profile->frames[index].linkage_name;
    size_t first = builder_copy_frame(builder, index, naming->count - 1);
    if (first == 0) {
        /* No room for the calls, or there are none: the function that ran. */
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
    if (packages == NULL || around == NULL || naming == NULL) {
        builder_fail(builder);
        goto out;
    }
    for (size_t i = 0; i < frames && builder->error == 0; i++) {
        if (!name_frame(builder, i, packages[i], naming))
            continue;
        apply_naming(builder, i, naming, &around[i]);
        expanded |= around[i].count > 0;
    }
    if (expanded && builder->error == 0) {
        /* Frames that were added have nothing around them. */
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
