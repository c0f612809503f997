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

#include "profile/import/pprof_reading.h"
#include "profile/symbols/demangle.h"

#define NAME_BYTES_MAX 4096u

void pprof_drop_open(struct pprof_reading *reading)
{
    struct pprof_drop *drop = &reading->drop;
    const char *pattern = pprof_reading_text(reading, reading->file.drop_frames);
    if (*pattern == '\0')
        return;
    if (pattern_new(&drop->drop, pattern, PATTERN_WHOLE_TEXT, NULL) < 0)
        drop->problem = "its drop_frames is no expression that can be used: no frame is left out";
    pattern = pprof_reading_text(reading, reading->file.keep_frames);
    if (drop->drop == NULL || *pattern == '\0')
        return;
    if (pattern_new(&drop->keep, pattern, PATTERN_WHOLE_TEXT, NULL) == 0)
        return;
    drop->problem = "its keep_frames is no expression that can be used: no frame is left out";
    pprof_drop_close(drop);
}

void pprof_drop_close(struct pprof_drop *drop)
{
    pattern_free(drop->drop);
    pattern_free(drop->keep);
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
    int is_dropped = pattern_matches(drop->drop, plain, NULL);
    int is_kept =
        is_dropped > 0 && drop->keep != NULL ? pattern_matches(drop->keep, plain, NULL) : 0;
    if (is_dropped < 0 || is_kept < 0)
        drop->problem =
            "its drop_frames or keep_frames takes too many steps to match: not all frames "
            "are left out that it asks for";
    return is_dropped > 0 && is_kept == 0;
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
