/* What stands behind a profile: the memory of its strings. */
#ifndef HEAPPROFD_PROFILE_PROFILE_OWNER_H
#define HEAPPROFD_PROFILE_PROFILE_OWNER_H

#include "profile/profile.h"

struct profile_chunk {
    struct profile_chunk *next;
    char bytes[];
};

struct profile_owner {
    struct profile profile; /* first, so that profile_free() finds the rest */
    struct profile_chunk *chunks;
    enum demangle_mode demangling; /* of the names of frames, while they are built */
    bool as_in_trace;              /* see profile_read_options */
};

#endif
