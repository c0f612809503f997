/* SPDX-License-Identifier: Apache-2.0 */
/* Matches every frame once against the table of known frames, finds wrappers of the allocator among
 * functions without a name, and chooses what rows show. */
#include "profile/folding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/demangle.h"
#include "trace/intern.h"
#include "util/base_name.h"
#include "util/id_map.h"

/* Return whether a mangled name is Rust's: names of the older scheme are C++ names that end in a
 * hash, as in "17h0123456789abcdefE"; a compiler may have appended something. */
static bool is_rust_name(const char *name)
{
    if (strncmp(name, "_R", 2) == 0)
        return true;
    if (strncmp(name, "_ZN", 3) != 0)
        return false;
    for (const char *hash = strstr(name, "17h"); hash != NULL; hash = strstr(hash + 1, "17h"))
        if (strspn(hash + 3, "0123456789abcdef") == 16 && hash[19] == 'E')
            return true;
    return false;
}

static const struct known_frames *folding_find(const char *module,
                                               const struct profile_frame *frame)
{
    const char *linkage_name = frame->linkage_name;
    bool is_plain = strpbrk(frame->name, "<(") == NULL;
    char *simple =
        is_plain && *frame->name != '_' ? NULL : demangle_name_as(linkage_name, DEMANGLE_SIMPLE);
    const struct known_frames *known =
        known_frames_find(module, simple != NULL ? simple : frame->name, is_rust_name(linkage_name),
                          frame->source_file);
    free(simple);
    return known;
}

/* Return a number for the deciding properties: the module, and the texts, each of which the profile
 * has once. */
static uint64_t key_of(const struct profile_frame *frame)
{
    uint64_t name = (uint64_t)(uintptr_t)frame->linkage_name;
    uint64_t source = (uint64_t)(uintptr_t)frame->source_file;
    return (name * UINT64_C(0x9e3779b97f4a7c15) ^ source) * UINT64_C(0xd6e8feb86659fd93) ^
           frame->mapping;
}

static bool is_alike(const struct profile_frame *one, const struct profile_frame *other)
{
    return one->linkage_name == other->linkage_name && one->source_file == other->source_file &&
           one->mapping == other->mapping;
}

/* --- wrappers without a name --- */

/* A function without a name that only calls the allocator, and is called by so many functions, says
 * no more than xmalloc would. Neither does one that is only called by functions that allocate: it
 * is a part of the allocator. */
#define WRAPPER_CALLERS 3u
/* Wrappers of wrappers, as x2realloc of xrealloc of realloc. */
#define WRAPPER_LEVELS 3

static const struct known_frames nameless_wrapper = {"functions that only allocate", true, false};

struct nameless_function {
    uint64_t callers[WRAPPER_CALLERS]; /* the first different ones; 0: none */
    bool calls_others;                 /* than the allocator */
    bool serves_others;                /* a caller does more than allocate */
};

struct nameless {
    struct intern_table ids;
    uint32_t *of_frames; /* by frame: the function's number; PROFILE_NONE: it has a name */
    struct nameless_function *functions;
};

static bool is_nameless_native(const struct profile_frame *frame)
{
    return *frame->name == '\0' && frame->mapping != PROFILE_NONE &&
           *profile_frame_kind(frame) == '\0';
}

static int number_nameless(struct nameless *nameless, const struct profile *profile)
{
    bool added;
    nameless->of_frames = malloc((profile->frame_count + 1) * sizeof(*nameless->of_frames));
    if (nameless->of_frames == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < profile->frame_count; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        const uint64_t key[] = {frame->mapping, frame->function_start};
        nameless->of_frames[i] = PROFILE_NONE;
        if (!is_nameless_native(frame))
            continue;
        uint64_t id = intern_bytes(&nameless->ids, key, sizeof(key), &added);
        if (id == 0)
            return -ENOMEM;
        nameless->of_frames[i] = (uint32_t)(id - 1);
    }
    nameless->functions = calloc(nameless->ids.count + 1, sizeof(*nameless->functions));
    return nameless->functions == NULL ? -ENOMEM : 0;
}

static void add_caller(struct nameless_function *function, uint64_t caller, bool allocates)
{
    function->serves_others |= !allocates;
    size_t i = 0;
    while (i < WRAPPER_CALLERS && function->callers[i] != 0 && function->callers[i] != caller)
        i++;
    if (i < WRAPPER_CALLERS)
        function->callers[i] = caller;
}

/* Return a number of the function that a frame is in: equal names are the same pointer. */
static uint64_t function_of(const struct nameless *nameless, const struct profile *profile,
                            uint32_t frame)
{
    uint32_t number = nameless->of_frames[frame];
    return number == PROFILE_NONE ? (uint64_t)(uintptr_t)profile->frames[frame].name
                                  : 2 * (uint64_t)number + 1;
}

/* Note who calls which function, and fold the wrappers. Return whether there are any. */
static bool fold_wrappers(const struct folding *folding, const struct profile *profile,
                          const struct nameless *nameless)
{
    bool any = false;
    memset(nameless->functions, 0, nameless->ids.count * sizeof(*nameless->functions));
    for (size_t i = 0; i < profile->callsite_count; i++) {
        uint32_t callee = profile->callsites[i].frame, parent = profile->callsites[i].parent;
        if (parent == PROFILE_NONE)
            continue;
        uint32_t caller = profile->callsites[parent].frame;
        const struct known_frames *known = folding_of(folding, callee);
        const struct known_frames *user = folding_of(folding, caller);
        if (nameless->of_frames[callee] != PROFILE_NONE)
            add_caller(&nameless->functions[nameless->of_frames[callee]],
                       function_of(nameless, profile, caller), user != NULL && user->allocates);
        if (nameless->of_frames[caller] != PROFILE_NONE)
            nameless->functions[nameless->of_frames[caller]].calls_others |=
                known == NULL || !known->allocates;
    }
    for (size_t i = 0; i < profile->frame_count; i++) {
        if (nameless->of_frames[i] == PROFILE_NONE || folding->frames[i] != NULL)
            continue;
        const struct nameless_function *function = &nameless->functions[nameless->of_frames[i]];
        bool is_of_allocator = function->callers[0] != 0 && !function->serves_others;
        if (function->calls_others ||
            (function->callers[WRAPPER_CALLERS - 1] == 0 && !is_of_allocator))
            continue;
        folding->frames[i] = &nameless_wrapper;
        any = true;
    }
    return any;
}

static int pass_over_wrappers(const struct folding *folding, const struct profile *profile)
{
    struct nameless nameless = {0};
    int code = number_nameless(&nameless, profile);
    for (int level = 0; code == 0 && level < WRAPPER_LEVELS; level++)
        if (!fold_wrappers(folding, profile, &nameless))
            break;
    intern_free(&nameless.ids);
    free(nameless.of_frames);
    free(nameless.functions);
    return code;
}

int folding_make(struct folding *folding, const struct profile *profile)
{
    struct id_map known = {0}; /* a frame with the same key */
    int code = 0;
    folding->frames = calloc(profile->frame_count + 1, sizeof(*folding->frames));
    if (folding->frames == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < profile->frame_count && code == 0; i++) {
        const struct profile_frame *frame = &profile->frames[i];
        if (*profile_frame_kind(frame) != '\0')
            continue;
        const char *module =
            frame->mapping == PROFILE_NONE ? "" : profile->mappings[frame->mapping].path;
        uint64_t key = key_of(frame);
        uint32_t like = id_map_find(&known, key);
        if (like != ID_MAP_NONE && is_alike(&profile->frames[like], frame)) {
            folding->frames[i] = folding->frames[like];
            continue;
        }
        folding->frames[i] = folding_find(base_name(module), frame);
        code = id_map_set(&known, key, i);
    }
    id_map_free(&known);
    if (code == 0)
        code = pass_over_wrappers(folding, profile);
    if (code < 0)
        folding_clear(folding);
    return code;
}

void folding_clear(struct folding *folding)
{
    free(folding->frames);
    folding->frames = NULL;
}

static bool has_name(const struct profile *profile, uint32_t callsite)
{
    return *profile->frames[profile->callsites[callsite].frame].name != '\0';
}

/* Return whether a callsite has a name, and another one in its module has none. */
static bool names(const struct profile *profile, uint32_t callsite, uint32_t nameless)
{
    return has_name(profile, callsite) && !has_name(profile, nameless) &&
           profile->frames[profile->callsites[callsite].frame].mapping ==
               profile->frames[profile->callsites[nameless].frame].mapping;
}

uint32_t folding_charge(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite)
{
    uint32_t other = PROFILE_NONE, outermost = callsite;
    for (uint32_t at = callsite; at != PROFILE_NONE; at = profile->callsites[at].parent) {
        const struct known_frames *known = folding_of(folding, profile->callsites[at].frame);
        if (known == NULL)
            return at;
        if (!known->allocates && (other == PROFILE_NONE || names(profile, at, other)))
            other = at;
        outermost = at;
    }
    return other != PROFILE_NONE ? other : outermost;
}

uint32_t folding_head(const struct folding *folding, const struct profile *profile,
                      uint32_t callsite)
{
    uint32_t charged = folding_charge(folding, profile, callsite), head = charged;
    if (*profile->frames[profile->callsites[charged].frame].name != '\0')
        return charged;
    for (uint32_t at = callsite; at != charged; at = profile->callsites[at].parent) {
        const struct known_frames *known = folding_of(folding, profile->callsites[at].frame);
        bool named = *profile->frames[profile->callsites[at].frame].name != '\0';
        head = known != NULL && !known->allocates && named ? at : head;
    }
    return head;
}

uint32_t folding_caller(const struct folding *folding, const struct profile *profile,
                        uint32_t callsite)
{
    uint32_t at = profile->callsites[callsite].parent;
    while (at != PROFILE_NONE && folding_of(folding, profile->callsites[at].frame) != NULL)
        at = profile->callsites[at].parent;
    return at;
}

uint32_t folding_run_time(const struct folding *folding, const struct profile *profile,
                          uint32_t callsite)
{
    uint32_t charged = folding_charge(folding, profile, callsite);
    const struct profile_frame *own = &profile->frames[profile->callsites[charged].frame];
    if (*profile_frame_kind(own) == '\0')
        return PROFILE_NONE;
    for (uint32_t at = callsite; at != charged; at = profile->callsites[at].parent) {
        const struct known_frames *known = folding_of(folding, profile->callsites[at].frame);
        if (known != NULL && known->is_run_time && has_name(profile, at))
            return at;
    }
    return PROFILE_NONE;
}

/* Return whether a function of the program with a name is at the callsite, or further out. */
static bool has_name_outwards(const struct folding *folding, const struct profile *profile,
                              uint32_t callsite)
{
    while (callsite != PROFILE_NONE && !has_name(profile, callsite))
        callsite = folding_caller(folding, profile, callsite);
    return callsite != PROFILE_NONE;
}

/* Take the frames without a name from `at` on that are in one module. Return the next callsite. */
static uint32_t take_nameless(const struct folding *folding, const struct profile *profile,
                              uint32_t at, struct folding_step *step)
{
    uint32_t mapping = profile->frames[profile->callsites[at].frame].mapping;
    step->callsite = at;
    do {
        step->nameless++;
        at = folding_caller(folding, profile, at);
    } while (at != PROFILE_NONE && !has_name(profile, at) &&
             profile->frames[profile->callsites[at].frame].mapping == mapping);
    return at;
}

void folding_row_of(const struct folding *folding, const struct profile *profile, uint32_t callsite,
                    struct folding_row *row)
{
    uint32_t charged = folding_charge(folding, profile, callsite);
    uint32_t head = folding_head(folding, profile, callsite);
    uint32_t at = head != charged ? charged : folding_caller(folding, profile, charged);
    bool is_own = head == charged && has_name(profile, head) &&
                  folding_of(folding, profile->callsites[head].frame) == NULL;
    *row = (struct folding_row){
        .steps = {{.callsite = head}}, .count = 1, .own = is_own ? 0 : PROFILE_NONE};
    while (at != PROFILE_NONE && row->count < FOLDING_STEPS_MAX) {
        bool is_nameless = !has_name(profile, at);
        bool goes_on = has_name_outwards(folding, profile, at);
        if (row->count > FOLDING_CALLERS && (row->own != PROFILE_NONE || !goes_on))
            break;
        struct folding_step *step = &row->steps[row->count++];
        if (is_nameless && goes_on) {
            at = take_nameless(folding, profile, at, step);
            continue;
        }
        step->callsite = at;
        if (!is_nameless && row->own == PROFILE_NONE)
            row->own = row->count - 1;
        at = folding_caller(folding, profile, at);
    }
    row->next = at;
}
