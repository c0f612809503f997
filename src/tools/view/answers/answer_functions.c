/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers what the numbers of functions mean, so that an address which has some can be opened with
 * another server, or after the profiles have changed. A numbering is "COUNT-HASH", of the names of
 * the first COUNT functions: these have their numbers still, if the hash is the same.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profile/interpreter_frames.h"
#include "tools/view/answers/answers.h"
#include "util/json_writer.h"
#include "util/xmalloc.h"

#define NUMBERING_BYTES 48

/* FNV-1a of 64 bits. */
#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)
#define HASH_PRIME UINT64_C(0x100000001b3)

static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (unsigned char)*text) * HASH_PRIME;
    while (*text++ != '\0');
    return hash;
}

static void write_numbering(struct functions *functions, size_t count, char text[NUMBERING_BYTES])
{
    char label[PROFILE_LABEL_BYTES];
    uint64_t hash = HASH_BEGIN;
    for (size_t i = 0; i < count; i++) {
        const struct function *function = &functions->items[i];
        const struct profile_frame *frame = &function->profile->frames[function->frame];
        hash = hash_text(hash, interpreter_frames_label(function->profile, frame, label));
        hash = hash_text(hash, function_path(function));
    }
    snprintf(text, NUMBERING_BYTES, "%zu-%" PRIx64, count, hash);
}

static bool is_same(struct functions *functions, const char *numbering)
{
    char text[NUMBERING_BYTES];
    size_t count = strtoul(numbering, NULL, 10);
    if (count > functions->count)
        return false;
    write_numbering(functions, count, text);
    return strcmp(text, numbering) == 0;
}

/* Write the number and the name, "NAME@MODULE", of a function; null if there is no such one. */
static void write_function(struct json_writer *json, struct functions *functions, const char *text)
{
    struct error error = {0};
    struct function_names names;
    char *name = NULL;
    uint32_t function;
    bool found = functions_find(functions, text, &function, &error) == 0;
    if (found) {
        functions_name(functions, function, &names);
        name = xasprintf("%s@%s", names.full_name, names.path);
        json_unsigned(json, "function", function);
    } else {
        json_null(json, "function");
    }
    json_string(json, "name", name);
    free(name);
}

int answer_functions(struct view_profiles *profiles, const struct view_parameters *parameters,
                     FILE *out, struct error *error)
{
    (void)error;
    struct functions *functions = &profiles->functions;
    const char *known = view_parameter(parameters, "numbering"),
               *function = view_parameter(parameters, "function");
    char numbering[NUMBERING_BYTES];
    struct json_writer json = json_begin(out);
    write_numbering(functions, functions->count, numbering);
    json_object(&json, NULL);
    json_string(&json, "numbering", numbering);
    json_bool(&json, "same", known != NULL && is_same(functions, known));
    if (function != NULL)
        write_function(&json, functions, function);
    json_end_object(&json);
    return 0;
}
