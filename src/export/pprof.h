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

/* A file name that a person can tell from its siblings, such as
 * "jq.4711.libc.malloc.final.pb.gz"; into buffer. */
void pprof_file_name(const struct profile *profile, const struct profile_heap *heap,
                     const struct profile_dump *dump, char *buffer, size_t size);

#endif
