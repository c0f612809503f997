/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves out the frames that a pprof file asks its readers to drop: allocators' own functions, and
 * what they call. The names are matched as go tool pprof matches them: whole, without arguments.
 *
 * A hostile file can have any expression and any names: the steps of all matches are bounded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import/pprof_reading.h"
#include "symbols/demangle.h"

/* About two seconds. tcmalloc's expression, of 1,600 bytes, takes some hundred steps for a name. */
#define STEPS_MAX (UINT64_C(1) << 27)
#define NAME_BYTES_MAX 4096u

void pprof_drop_open(struct pprof_reading *reading)
{
    struct pprof_drop *drop = &reading->drop;
    const char *pattern = pprof_reading_text(reading, reading->file.drop_frames);
    drop->budget = STEPS_MAX;
    if (*pattern == '\0')
        return;
    drop->drop = name_pattern_new(pattern);
    if (drop->drop == NULL)
        drop->problem = "its drop_frames is no expression that can be used: no frame is left out";
    pattern = pprof_reading_text(reading, reading->file.keep_frames);
    if (drop->drop == NULL || *pattern == '\0')
        return;
    drop->keep = name_pattern_new(pattern);
    if (drop->keep != NULL)
        return;
    drop->problem = "its keep_frames is no expression that can be used: no frame is left out";
    pprof_drop_close(drop);
}

void pprof_drop_close(struct pprof_drop *drop)
{
    name_pattern_free(drop->drop);
    name_pattern_free(drop->keep);
    drop->drop = drop->keep = NULL;
}

/* Cut a function's name at its arguments. Parentheses can also be part of the name itself. */
static void cut_arguments(char *name)
{
    static const char *const reserved[] = {"(anonymous namespace)", "operator()"};
    for (char *at = name; *at != '\0'; at++) {
        size_t skip = 0;
        for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
            if (strncmp(at, reserved[i], strlen(reserved[i])) == 0)
                skip = strlen(reserved[i]);
        if (skip > 0) {
            at += skip - 1;
        } else if (*at == '(') {
            *at = '\0';
            return;
        }
    }
}

bool pprof_drop_matches(struct pprof_drop *drop, const char *name)
{
    char plain[NAME_BYTES_MAX];
    char *demangled = strncmp(name, "_Z", 2) == 0 ? demangle_name(name) : NULL;
    const char *shown = demangled != NULL ? demangled : name;
    shown += *shown == '.';
    bool fits = (size_t)snprintf(plain, sizeof(plain), "%s", shown) < sizeof(plain);
    free(demangled);
    if (!fits || plain[0] == '\0')
        return false;
    cut_arguments(plain);
    bool is_dropped =
        name_pattern_matches(drop->drop, plain, &drop->budget) &&
        !(drop->keep != NULL && name_pattern_matches(drop->keep, plain, &drop->budget));
    if (drop->budget == 0)
        drop->problem = "its drop_frames takes too long: frames that it leaves out may be there";
    return is_dropped && drop->budget > 0;
}

int pprof_drop_apply(struct pprof_reading *reading, struct error *error)
{
    bool has_caller = false;
    if (reading->drop.drop == NULL)
        return 0;
    for (size_t i = reading->id_count; i-- > 0;) {
        const struct pprof_location_frames *frames = pprof_reading_frames(reading, reading->ids[i]);
        if (frames == NULL && reading->builder->error < 0)
            return reading->builder->error;
        if (frames == NULL)
            return error_set(error, -EBADMSG, "a sample with an unknown or malformed location");
        has_caller |= frames->dropped == PPROF_KEPT;
        if (!has_caller || frames->dropped == PPROF_KEPT)
            continue;
        size_t first = frames->dropped == PPROF_DROPPED ? i + 1 : i;
        reading->id_count -= first;
        memmove(reading->ids, reading->ids + first, reading->id_count * sizeof(*reading->ids));
        return 0;
    }
    return 0;
}
