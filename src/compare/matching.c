/* See matching.h. */
#include "compare/matching.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "trace/intern.h"

/* The tables that numbers come from. */
struct numbers {
    struct intern_table texts, functions, modules, frames, callsites, exact, builds;
    const struct matching_options *options;
    bool failed;
};

size_t matching_name_length(const char *name)
{
    static const char *const clones[] = {" [clone ", ".isra.",     ".constprop.", ".part.",
                                         ".cold",    ".lto_priv.", ".llvm."};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(clones) / sizeof(clones[0]); i++) {
        const char *found = strstr(name, clones[i]);
        if (found != NULL && found != name && (size_t)(found - name) < length)
            length = (size_t)(found - name);
    }
    return length;
}

size_t matching_module_length(const char *path, const char **base)
{
    const char *slash = strrchr(path, '/');
    *base = slash != NULL ? slash + 1 : path;
    const char *version = strstr(*base, ".so.");
    if (version != NULL && isdigit((unsigned char)version[4]))
        return (size_t)(version - *base) + 3;
    return strlen(*base);
}

static uint64_t number_of(struct numbers *numbers, struct intern_table *table, const void *key,
                          size_t length)
{
    bool added;
    uint64_t id = intern_bytes(table, key, length, &added);
    numbers->failed |= id == 0;
    return id;
}

static uint64_t text_number(struct numbers *numbers, const char *text, size_t length)
{
    return number_of(numbers, &numbers->texts, text, length);
}

static uint64_t module_number(struct numbers *numbers, const char *path, int side)
{
    const char *base, *program = numbers->options->programs[side];
    size_t length = matching_module_length(path, &base);
    /* No file has a name with a slash in it. */
    if (program != NULL && strcmp(base, program) == 0)
        return text_number(numbers, "/program", strlen("/program"));
    return text_number(numbers, base, length);
}

/* Builds of modules that one profile has. */
static void take_builds(struct numbers *numbers, const struct profile *profile)
{
    for (size_t i = 0; i < profile->mapping_count; i++) {
        const char *build_id = profile->mappings[i].build_id;
        if (*build_id != '\0')
            number_of(numbers, &numbers->builds, build_id, strlen(build_id));
    }
}

/* Frames of the side; what they are with addresses goes to exact. */
static void number_frames(struct numbers *numbers, const struct profile *profile, int side,
                          struct matching_side *matched, uint64_t *frames, uint64_t *exact)
{
    for (size_t i = 0; i < profile->frame_count && !numbers->failed; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        const struct profile_mapping *mapping =
            frame->mapping == PROFILE_NONE ? NULL : &profile->mappings[frame->mapping];
        uint64_t module = module_number(numbers, mapping != NULL ? mapping->path : "", side);
        uint64_t name = text_number(numbers, frame->name, matching_name_length(frame->name));
        uint64_t function[3] = {name, 0, 0}, key[4] = {0};
        matched->modules[i] = number_of(numbers, &numbers->modules, &module, sizeof(module));
        if (*frame->name == '\0') {
            bool known =
                mapping == NULL || *mapping->build_id == '\0' ||
                intern_find(&numbers->builds, mapping->build_id, strlen(mapping->build_id)) != 0;
            function[1] = module;
            function[2] = known ? frame->rel_pc + 1 : 0;
        }
        matched->functions[i] = number_of(numbers, &numbers->functions, function, sizeof(function));
        key[0] = matched->functions[i];
        key[1] = module;
        if (numbers->options->lines && *frame->source_file != '\0') {
            key[2] = text_number(numbers, frame->source_file, strlen(frame->source_file));
            key[3] = frame->line + UINT64_C(1);
        }
        frames[i] = number_of(numbers, &numbers->frames, key, sizeof(key));
        uint64_t place[] = {frames[i], frame->rel_pc, frame->line};
        exact[i] = number_of(numbers, &numbers->frames, place, sizeof(place));
    }
}

static void number_callsites(struct numbers *numbers, const struct profile *profile,
                             struct matching_side *matched, const uint64_t *frames,
                             const uint64_t *exact)
{
    /* A parent comes before its children. */
    for (size_t i = 0; i < profile->callsite_count && !numbers->failed; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t parent = callsite->parent;
        bool root = parent == PROFILE_NONE;
        uint64_t key[2] = {root ? 0 : matched->callsites[parent], frames[callsite->frame]};
        uint64_t place[2] = {root ? 0 : matched->exact[parent], exact[callsite->frame]};
        matched->callsites[i] = number_of(numbers, &numbers->callsites, key, sizeof(key));
        matched->exact[i] = number_of(numbers, &numbers->exact, place, sizeof(place));
    }
}

static void number_side(struct numbers *numbers, const struct profile *profile, int side,
                        struct matching_side *matched)
{
    uint64_t *frames = calloc(profile->frame_count + 1, sizeof(*frames));
    uint64_t *exact = calloc(profile->frame_count + 1, sizeof(*exact));
    matched->functions = calloc(profile->frame_count + 1, sizeof(*matched->functions));
    matched->modules = calloc(profile->frame_count + 1, sizeof(*matched->modules));
    matched->callsites = calloc(profile->callsite_count + 1, sizeof(*matched->callsites));
    matched->exact = calloc(profile->callsite_count + 1, sizeof(*matched->exact));
    numbers->failed |= frames == NULL || exact == NULL || matched->functions == NULL ||
                       matched->modules == NULL || matched->callsites == NULL ||
                       matched->exact == NULL;
    if (!numbers->failed) {
        number_frames(numbers, profile, side, matched, frames, exact);
        number_callsites(numbers, profile, matched, frames, exact);
    }
    free(frames);
    free(exact);
}

/* Keeps the builds that both have, by asking each whether it knows the other's. */
static void find_builds(struct numbers *numbers, const struct profile *before,
                        const struct profile *after)
{
    struct intern_table both = {0};
    take_builds(numbers, before);
    for (size_t i = 0; i < after->mapping_count; i++) {
        const char *build_id = after->mappings[i].build_id;
        if (intern_find(&numbers->builds, build_id, strlen(build_id)) != 0)
            number_of(numbers, &both, build_id, strlen(build_id));
    }
    intern_free(&numbers->builds);
    numbers->builds = both;
}

struct matching *matching_new(const struct profile *before, const struct profile *after,
                              const struct matching_options *options)
{
    struct numbers numbers = {.options = options};
    struct matching *matching = calloc(1, sizeof(*matching));
    if (matching == NULL)
        return NULL;
    find_builds(&numbers, before, after);
    number_side(&numbers, before, 0, &matching->sides[0]);
    if (before == after)
        matching->sides[1] = matching->sides[0];
    else if (!numbers.failed)
        number_side(&numbers, after, 1, &matching->sides[1]);
    matching->function_count = numbers.functions.count;
    matching->module_count = numbers.modules.count;
    matching->callsite_count = numbers.callsites.count;
    intern_free(&numbers.texts);
    intern_free(&numbers.functions);
    intern_free(&numbers.modules);
    intern_free(&numbers.frames);
    intern_free(&numbers.callsites);
    intern_free(&numbers.exact);
    intern_free(&numbers.builds);
    if (numbers.failed) {
        matching_free(matching);
        return NULL;
    }
    return matching;
}

static void free_side(struct matching_side *side)
{
    free(side->callsites);
    free(side->exact);
    free(side->functions);
    free(side->modules);
}

void matching_free(struct matching *matching)
{
    if (matching == NULL)
        return;
    if (matching->sides[1].callsites != matching->sides[0].callsites)
        free_side(&matching->sides[1]);
    free_side(&matching->sides[0]);
    free(matching);
}
