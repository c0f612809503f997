/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's profile.proto: one file for each process, heap and dump, with everything up to that dump.
 */
#ifndef HEAPPROFD_TOOLS_EXPORT_PPROF_H
#define HEAPPROFD_TOOLS_EXPORT_PPROF_H

#include "profile/profile.h"
#include "util/error.h"

/* The times and names of a file about one period instead of a heap's whole time. The figures are
 * those of production/continuous/period.h. */
struct pprof_period {
    int64_t start_ns, end_ns; /* since 1970 */
    uint64_t interval_bytes;
    const char *types[4];   /* sample types: allocated objects and bytes, live objects and bytes */
    const char *end_reason; /* of the process's last period: how it ended; "" or NULL: it runs */
    bool time_is_end;       /* the file's time is the end of the period, not its start */
    /* Without what may hold a secret or makes a store's index large: command line, threads, types
     * and contexts. */
    bool for_others;
    const char *const *comments; /* further comments; NULL at the end, or without any */
};

struct pprof_options {
    const struct pprof_period *period; /* NULL: the file has everything up to the dump */
    bool gzip;
    unsigned packing_threads; /* that pack the file beside the caller's */
    bool annotated;  /* append [jit], [interp] and the like to functions that no compiler made in
                      * advance */
    bool difference; /* figures are changes, and live ones can be negative */
};

/* Write one dump to fd. Return 0 or a negative errno. */
int pprof_write(const struct profile *profile, const struct profile_heap *heap,
                const struct profile_dump *dump, const struct pprof_options *options, int fd,
                struct error *error);

/* Distinguishes heaps whose files would have the same name: after an exec, one pid can have the
 * same heap twice, or names differ in characters that file names do not keep. */
struct pprof_file_names {
    const struct profile *profile;
    uint32_t *numbers; /* by heap; 0: no other heap has its name */
};

void pprof_file_names_make(struct pprof_file_names *names, const struct profile *profile);
void pprof_file_names_clear(struct pprof_file_names *names);

/* Write a readable and distinct file name, such as "jq.4711.libc.malloc.final.pb.gz", to buffer. */
void pprof_file_name(const struct pprof_file_names *names, const struct profile_heap *heap,
                     const struct profile_dump *dump, char *buffer, size_t size);

#endif
