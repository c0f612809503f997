/* SPDX-License-Identifier: Apache-2.0 */
/* Mark the callsites that stay, and rebuild the tree from them. */
#include "profile/interpreter_frames.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/merge_samples.h"
#include "profile/profile_owner.h"
#include "trace/frame_kind.h"
#include "util/base_name.h"
#include "util/id_map.h"

/* Functions of an interpreter that only pass calls on to its loop, in the loop's module. A pattern
 * that ends in '*' is a prefix; suffixes that compilers add (".constprop.0") do not count. */
static const char *const python_glue[] = {
    "_PyEval_Vector",
    "_PyEval_EvalFrame",
    "_PyEval_EvalCode*",
    "PyEval_EvalCode*",
    "PyEval_EvalFrame*",
    "_PyFunction_Vectorcall*",
    "PyObject_Call*",
    "_PyObject_Call*",
    "PyObject_Vectorcall*",
    "_PyObject_Vectorcall*",
    "_PyObject_FastCall*",
    "_PyObject_MakeTpCall",
    "PyVectorcall_*",
    "_PyVectorcall_*",
    "method_vectorcall*",
    "cfunction_vectorcall*",
    "cfunction_call*",
    "vectorcall_*",
    "object_vacall",
    "function_code_fastcall",
    "call_function",
    "do_call_core",
    "slot_tp_call",
    "slot_tp_init",
    "type_call",
    "gen_send_ex*",
    "gen_iternext",
    "gen_send",
    "run_mod*",
    "run_eval_code_obj",
    "pyrun_*",
    "PyRun_*",
    "_PyRun_*",
    "pymain_*",
    "Py_RunMain",
    "Py_BytesMain",
    "Py_Main",
    "_TAIL_CALL_*",
    NULL,
};

/* rb_vm_exec calls the loop's core, which has no name in stripped libraries. */
static const char *const ruby_glue[] = {
    "rb_vm_exec",    "vm_exec",         "vm_exec_core",   "vm_sendish",     "vm_call_*",
    "vm_yield*",     "vm_invoke_*",     "invoke_*block*", "rb_vm_call*",    "rb_vm_invoke_*",
    "rb_yield*",     "rb_call0",        "rb_call",        "rb_funcall*",    "rb_vm_call0",
    "rb_iseq_eval*", "rb_ec_exec_node", "ruby_run_node",  "ruby_exec_node", NULL,
};

/* What a callback's call passes through, between two loops. */
static const char *const php_glue[] = {
    "execute_ex",
    "dtrace_execute_ex",
    "dtrace_execute_internal",
    "execute_internal",
    "zend_execute",
    "zend_execute_scripts",
    "zend_execute_script",
    "php_execute_script*",
    "php_execute_simple_script",
    "zend_call_function",
    "zend_call_known_*",
    "zend_call_method*",
    "_call_user_function_impl",
    "zend_generator_resume",
    "zend_eval_string*",
    NULL,
};

static const struct language {
    const char *mapping;
    const char *const *glue;
} languages[] = {
    {TRACE_PYTHON_PATH, python_glue},
    {TRACE_RUBY_PATH, ruby_glue},
    {TRACE_PHP_PATH, php_glue},
};

enum {
    FUNCTION = 1, /* of an interpreted language */
    OUTSIDE = 2,  /* one is further out */
    INSIDE = 4,   /* one is further in */
    NEEDED = 8,   /* a sample has it on its stack */
};

struct hiding {
    struct profile *profile;
    uint8_t *callsites;
    uint8_t *frames;   /* FUNCTION */
    uint8_t *mappings; /* number of the language whose loop is there, from 1 */
    uint32_t *outer;   /* by callsite: its caller without the loop */
    uint32_t *now;
};

static const struct language *language_in(const char *path)
{
    const char *name = base_name(path);
    for (size_t i = 0; i < sizeof(languages) / sizeof(*languages); i++) {
        if (strcmp(name, languages[i].mapping) == 0)
            return &languages[i];
    }
    return NULL;
}

bool interpreter_frames_are_in(const char *path)
{
    return language_in(path) != NULL;
}

static const struct language *language_of(const struct profile *profile,
                                          const struct profile_frame *frame)
{
    if (frame->kind != TRACE_FRAME_INTERPRETED || frame->mapping == PROFILE_NONE)
        return NULL;
    return language_in(profile->mappings[frame->mapping].path);
}

bool interpreter_frames_has(const struct profile *profile, const struct profile_frame *frame)
{
    return language_of(profile, frame) != NULL;
}

/* Return the end of a path that shows which file it is; perhaps in the buffer. */
static const char *telling_name(const char *path, char buffer[SOURCE_NAME_BYTES])
{
    const char *name = source_base_name(path, buffer);
    if (strcmp(name, "__init__.py") != 0 || name - path < 2)
        return name;
    for (name--; name > path && name[-1] != '/';)
        name--;
    return name;
}

const char *interpreter_frames_label(const struct profile *profile,
                                     const struct profile_frame *frame,
                                     char buffer[PROFILE_LABEL_BYTES])
{
    if (*frame->name == '\0' || *frame->source_file == '\0' ||
        !interpreter_frames_has(profile, frame))
        return profile_frame_label(profile, frame, buffer);
    char file[SOURCE_NAME_BYTES];
    int length = snprintf(buffer, PROFILE_LABEL_BYTES, "%s (%s)", frame->name,
                          telling_name(frame->source_file, file));
    return length < PROFILE_LABEL_BYTES ? buffer : frame->name;
}

static bool is_like(const char *name, const char *pattern)
{
    size_t length = strlen(pattern);
    if (pattern[length - 1] == '*')
        return strncmp(name, pattern, length - 1) == 0;
    return strncmp(name, pattern, length) == 0 && (name[length] == '\0' || name[length] == '.');
}

static bool is_glue(const struct hiding *at, uint32_t callsite)
{
    const struct profile_frame *frame =
        &at->profile->frames[at->profile->callsites[callsite].frame];
    uint8_t state = at->callsites[callsite];
    if ((state & FUNCTION) || !(state & (INSIDE | OUTSIDE)) || frame->mapping == PROFILE_NONE ||
        at->mappings[frame->mapping] == 0)
        return false;
    const char *const *glue = languages[at->mappings[frame->mapping] - 1].glue;
    while (*glue != NULL && !is_like(frame->name, *glue))
        glue++;
    return *glue != NULL;
}

/* Return the callsite outside the loop: its code may have become several frames (inlined
 * functions). Note the module of the loop. */
static uint32_t skip_loop(struct hiding *at, uint32_t loop, const struct language *language)
{
    const struct profile *profile = at->profile;
    const struct profile_frame *code = &profile->frames[profile->callsites[loop].frame];
    /* The stack is truncated there: this is no code. */
    if (code->mapping == PROFILE_NONE)
        return loop;
    at->mappings[code->mapping] = (uint8_t)(language - languages + 1);
    uint32_t outer = loop;
    do {
        outer = profile->callsites[outer].parent;
        if (outer == PROFILE_NONE || (at->callsites[outer] & FUNCTION))
            break;
        const struct profile_frame *frame = &profile->frames[profile->callsites[outer].frame];
        if (frame->mapping != code->mapping || frame->rel_pc != code->rel_pc)
            break;
    } while (true);
    return outer;
}

/* Return whether there are functions of interpreted languages. */
static bool mark(struct hiding *at)
{
    const struct profile *profile = at->profile;
    bool any = false;
    for (size_t i = 0; i < profile->frame_count; i++)
        at->frames[i] = interpreter_frames_has(profile, &profile->frames[i]) ? FUNCTION : 0;
    for (uint32_t i = 0; i < profile->callsite_count; i++) {
        const struct profile_callsite *callsite = &profile->callsites[i];
        uint32_t parent = callsite->parent;
        uint8_t outside =
            parent != PROFILE_NONE && (at->callsites[parent] & (FUNCTION | OUTSIDE)) ? OUTSIDE : 0;
        at->callsites[i] = at->frames[callsite->frame] | outside;
        at->outer[i] = parent;
        if (!(at->callsites[i] & FUNCTION))
            continue;
        any = true;
        if (parent != PROFILE_NONE && !(at->callsites[parent] & FUNCTION))
            at->outer[i] =
                skip_loop(at, parent, language_of(profile, &profile->frames[callsite->frame]));
        for (; parent != PROFILE_NONE && !(at->callsites[parent] & INSIDE);
             parent = profile->callsites[parent].parent)
            at->callsites[parent] |= INSIDE;
    }
    return any;
}

static void mark_needed(struct hiding *at)
{
    const struct profile_owner *owner = (const struct profile_owner *)at->profile;
    for (const struct profile_sample_block *block = owner->samples; block != NULL;
         block = block->next) {
        for (size_t i = 0; i < block->count; i++) {
            uint32_t callsite = block->samples[i].callsite;
            while (callsite != PROFILE_NONE && !(at->callsites[callsite] & NEEDED)) {
                at->callsites[callsite] |= NEEDED;
                callsite = at->outer[callsite];
            }
        }
    }
}

static int make_callsites(struct hiding *at)
{
    struct profile *profile = at->profile;
    struct profile_callsite *made = malloc((profile->callsite_count + 1) * sizeof(*made));
    struct id_map ids = {0};
    uint32_t count = 0;
    int code = made == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; code == 0 && i < profile->callsite_count; i++) {
        uint32_t frame = profile->callsites[i].frame, outer = at->outer[i];
        uint32_t parent = outer == PROFILE_NONE ? PROFILE_NONE : at->now[outer];
        at->now[i] = parent;
        /* A stack keeps its outermost frame, even if that only passes calls on. */
        if (!(at->callsites[i] & NEEDED) || (parent != PROFILE_NONE && is_glue(at, i)))
            continue;
        uint64_t key = (uint64_t)parent << 32 | frame;
        at->now[i] = id_map_find(&ids, key);
        if (at->now[i] != ID_MAP_NONE)
            continue;
        uint32_t depth = parent == PROFILE_NONE ? 0 : made[parent].depth + 1;
        made[count] = (struct profile_callsite){parent, frame, depth};
        code = id_map_set(&ids, key, count);
        at->now[i] = count++;
    }
    id_map_free(&ids);
    if (code < 0) {
        free(made);
        return code;
    }
    free(profile->callsites);
    profile->callsites = made;
    profile->callsite_count = count;
    return 0;
}

static void remap_samples(struct hiding *at)
{
    const struct profile_owner *owner = (const struct profile_owner *)at->profile;
    for (const struct profile_sample_block *block = owner->samples; block != NULL;
         block = block->next) {
        for (size_t i = 0; i < block->count; i++) {
            if (block->samples[i].callsite != PROFILE_NONE)
                block->samples[i].callsite = at->now[block->samples[i].callsite];
        }
    }
    profile_remap_sites(at->profile, at->now);
}

int interpreter_frames_hide(struct profile *profile)
{
    struct hiding at = {
        .profile = profile,
        .callsites = calloc(profile->callsite_count + 1, 1),
        .frames = calloc(profile->frame_count + 1, 1),
        .mappings = calloc(profile->mapping_count + 1, 1),
        .outer = calloc(profile->callsite_count + 1, sizeof(uint32_t)),
        .now = calloc(profile->callsite_count + 1, sizeof(uint32_t)),
    };
    int code = -ENOMEM;
    if (at.callsites != NULL && at.frames != NULL && at.mappings != NULL && at.outer != NULL &&
        at.now != NULL)
        code = 0;
    if (code == 0 && mark(&at)) {
        mark_needed(&at);
        code = make_callsites(&at);
        if (code == 0) {
            remap_samples(&at);
            code = profile_merge_samples(profile, true);
        }
    }
    free(at.callsites);
    free(at.frames);
    free(at.mappings);
    free(at.outer);
    free(at.now);
    return code;
}
