/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto: one file a (process, heap, dump), with all up to that dump.
 */
#ifndef HEAPPROFD_EXPORT_PPROF_H
#define HEAPPROFD_EXPORT_PPROF_H

#include "profile/profile.h"

struct pprof_options {
    bool gzip;
    bool annotated; /* functions that no compiler made before have [jit], [interp] and the like
                       behind their names */
    bool difference; /* figures are changes, and what is live may be below zero */
};

/* Writes one dump to fd. 0 or a negative errno. */
int pprof_write(const struct profile *profile, const struct profile_heap *heap,
                const struct profile_dump *dump, const struct pprof_options *options, int fd,
                struct error *error);

/* Tells the heaps apart that would have files of the same name: after an exec, one pid can have the
 * same heap twice, or names differ in characters that file names do not keep. */
struct pprof_file_names {
    const struct profile *profile;
    uint32_t *numbers; /* by heap; 0: no other heap has its name */
};

/* 0 or a negative errno. */
int pprof_file_names_make(struct pprof_file_names *names, const struct profile *profile);
void pprof_file_names_clear(struct pprof_file_names *names);

/* A file name that a person can tell from its siblings, such as
 * "jq.4711.libc.malloc.final.pb.gz"; into buffer. */
void pprof_file_name(const struct pprof_file_names *names, const struct profile_heap *heap,
                     const struct profile_dump *dump, char *buffer, size_t size);

#endif
