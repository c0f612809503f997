/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts ProGuard and R8 maps to DeobfuscationMapping packets, which may be appended to a trace.
 *
 * Perfetto's converter writes the whole map. Most of it, easily 100 MB, is never used by a frame of
 * the trace, but every reader must read it again. Here only the methods that the trace names are
 * written. If the trace has a Java heap graph, whose types and fields are not read here, everything
 * is written.
 */
#ifndef HEAPPROFD_PROFILE_DEOBFUSCATE_DEOBFUSCATE_H
#define HEAPPROFD_PROFILE_DEOBFUSCATE_DEOBFUSCATE_H

#include <stdbool.h>
#include <stddef.h>

#include "profile/deobfuscate/trace_names.h"
#include "util/error.h"

/* The maps and their packages. */
struct deobfuscate_maps {
    struct deobfuscate_map {
        char *package; /* "": the frames of all packages; Perfetto ignores such maps */
        char *path;
    } * items;
    size_t count, capacity;
    /* Receives the number of lines read from a map, from time to time; NULL: none. */
    void (*tell)(void *context, const char *path, size_t lines);
    void *tell_context;
};

/* Add "[package=]file". Return 0 or a negative errno. */
int deobfuscate_maps_add(struct deobfuscate_maps *maps, const char *argument, struct error *error);
/* Add PERFETTO_PROGUARD_MAP's "package=file:package=file". NULL and "" add none. */
int deobfuscate_maps_add_list(struct deobfuscate_maps *maps, const char *list, struct error *error);
void deobfuscate_maps_clear(struct deobfuscate_maps *maps);

struct deobfuscate_result {
    const char *package, *path; /* owned by the maps */
    size_t lines, unknown_lines;
    size_t classes, methods, fields; /* in the map */
    size_t written_classes, written_methods, written_fields;
    size_t names;          /* of the trace, if the map has their class */
    size_t unlisted;       /* of these: if the map does not have the method */
    bool compared;         /* with a trace */
    bool package_in_trace; /* or the map applies to all packages */
    bool done;             /* false: an error ended it */
};

struct deobfuscate_report {
    struct deobfuscate_result *results; /* one per map */
    size_t count;
    size_t trace_names; /* of Java methods, or similar names */
};

/*
 * Write the packets to fd. `names` NULL: write whole maps. Return 0, or a negative errno with
 * *error set, which names the map and the line; packets before the error are valid. Clear *report
 * in any case. It refers to *maps.
 */
int deobfuscate_write(const struct deobfuscate_maps *maps, const struct trace_names *names, int fd,
                      struct deobfuscate_report *report, struct error *error);
void deobfuscate_report_clear(struct deobfuscate_report *report);

/* Return a text for users: why a map named nothing, and the remedy. Return NULL if it named
 * something. */
const char *deobfuscate_remedy(const struct deobfuscate_result *result);

#endif
