/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads traces into profiles. If a trace is cut off or damaged, the profile has the good part
 * before the damage, and its `warning` is set. Without a good part the functions return NULL, and
 * an error with the offset and the reason.
 */
#ifndef HEAPPROFD_PROFILE_BUILDER_PROFILE_READ_H
#define HEAPPROFD_PROFILE_BUILDER_PROFILE_READ_H

#include "profile/profile.h"
#include "profile/symbols/demangle.h"
#include "util/error.h"

struct import_naming;
struct profile_filter;
struct trace_source;
struct profile_read_options {
    enum demangle_mode demangling; /* form of profile_frame.name */
    /* Keep the trace's own frames, mappings and callsites one by one, with the names of the trace
     * (or, if obfuscated_name is set, of a map). Inlined functions are in symbol_lines and are no
     * callsites. */
    bool as_in_trace;
    /* Apart from `native`, for import_profile(): */
    const struct profile_filter *filter; /* NULL: keep everything */
    const struct trace_source *source;   /* what was read of it bounds the frames of stacks; NULL:
                                          * they are not bounded */
    bool withdrawn;                      /* keep checkpoints that later dumps took back, as dumps */
    bool only_regular;                   /* refuse pipes and devices, which may never end */
    /* Name the addresses of files that have no names from this machine's programs; import_profile()
     * does it always. */
    bool find_names;
    /* Chrome's memory dumps: find names there (profile/import/import.h), and refuse a file that is
     * damaged. NULL: keep addresses. */
    struct import_naming *naming;
    /* Called repeatedly with the number of (unpacked) bytes read so far; NULL: nobody. */
    void (*tell)(void *context, uint64_t bytes);
    void *tell_context;
    /* Called after the last packet of a whole trace, to continue it with packets that give names to
     * its addresses, and again after these. `unfinished` has the trace's mappings, frames,
     * processes and heaps, whose names may still change. Return a descriptor to read the packets
     * from, which is closed; -1: no more. NULL: nobody. */
    int (*go_on)(void *context, const struct profile *unfinished);
    void *go_on_context;
    bool alone; /* nothing continues the trace, profile_read_further neither */
};

/* If not NULL, called like go_on, once for each trace, where the options have no go_on. An answer
 * of its packets never takes the place of one with file and line. */
extern int (*profile_read_further)(const struct profile *unfinished);

/* In all three functions, options NULL means full names and nothing else. */

/* Read a file; "-": standard input. */
struct profile *profile_read(const char *path, const struct profile_read_options *options,
                             struct error *error);
/* Read a source from which nothing was read yet, and close it. Errors begin with `name`, unless it
 * is "". A NULL source returns NULL. */
struct profile *profile_read_source(struct trace_source *source, const char *name,
                                    const struct profile_read_options *options,
                                    struct error *error);
/* Read a trace in memory. */
struct profile *profile_read_bytes(const void *bytes, size_t length,
                                   const struct profile_read_options *options, struct error *error);

#endif
