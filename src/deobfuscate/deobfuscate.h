/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ProGuard and R8 maps as DeobfuscationMapping packets, which may be appended to a trace.
 *
 * Perfetto's converter writes the whole of a map; most of it, easily 100 MB, no frame of the trace
 * ever asks for, and every reader has to go through it again. Here only methods that the trace
 * names are written, unless it has a Java heap graph, whose types and fields are not looked at:
 * then all is written, too.
 */
#ifndef HEAPPROFD_DEOBFUSCATE_DEOBFUSCATE_H
#define HEAPPROFD_DEOBFUSCATE_DEOBFUSCATE_H

#include <stdbool.h>
#include <stddef.h>

#include "deobfuscate/trace_names.h"
#include "util/error.h"

/* Which maps, for which packages. */
struct deobfuscate_maps {
    struct deobfuscate_map {
        char *package; /* "": the frames of all packages; Perfetto leaves such maps out */
        char *path;
    } * items;
    size_t count, capacity;
    /* Told time and again how many lines of a map have been read; NULL: nobody asks. */
    void (*tell)(void *context, const char *path, size_t lines);
    void *tell_context;
};

/* "[package=]file". 0 or a negative errno. */
int deobfuscate_maps_add(struct deobfuscate_maps *maps, const char *argument, struct error *error);
/* PERFETTO_PROGUARD_MAP's "package=file:package=file"; NULL and "" add none. */
int deobfuscate_maps_add_list(struct deobfuscate_maps *maps, const char *list, struct error *error);
void deobfuscate_maps_clear(struct deobfuscate_maps *maps);

struct deobfuscate_result {
    const char *package, *path; /* of the maps' */
    size_t lines, unknown_lines;
    size_t classes, methods, fields; /* in the map */
    size_t written_classes, written_methods, written_fields;
    size_t names;          /* of the trace, whose class the map has */
    size_t unlisted;       /* of these: the map has not the method */
    bool compared;         /* with a trace */
    bool package_in_trace; /* or the map is for all */
    bool done;             /* false: an error came before its end */
};

struct deobfuscate_report {
    struct deobfuscate_result *results; /* as many as there are maps */
    size_t count;
    size_t trace_names; /* of Java methods, or what looks like them */
};

/*
 * Writes to fd. names NULL: whole maps. 0, or a negative errno with *error set, which names the map
 * and the line; what was written before it is good. *report is to be cleared in any case, and
 * refers to *maps.
 */
int deobfuscate_write(const struct deobfuscate_maps *maps, const struct trace_names *names, int fd,
                      struct deobfuscate_report *report, struct error *error);
void deobfuscate_report_clear(struct deobfuscate_report *report);

/* In words for people: why a map named nothing, and what to do about it; NULL where it named
 * something. */
const char *deobfuscate_remedy(const struct deobfuscate_result *result);

#endif
