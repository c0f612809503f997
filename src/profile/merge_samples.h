/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of leaving frames out of a profile: samples whose callsites have become one are
 * merged.
 */
#ifndef HEAPPROFD_PROFILE_MERGE_SAMPLES_H
#define HEAPPROFD_PROFILE_MERGE_SAMPLES_H

#include "profile/profile.h"

/* Move the samples without a callsite into their dump's left_out, and, if `merges`, make one of
 * those that have the same callsite. Return 0 or -ENOMEM. */
int profile_merge_samples(struct profile *profile, bool merges);

/* Return zeroed memory that lives as long as the profile, or NULL. */
void *profile_merge_memory(struct profile *profile, size_t count, size_t size);

#endif
