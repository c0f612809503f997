/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which names of the profiles share a key of the sites. */
#ifndef HEAPPROFD_TOOLS_EXPLORE_SITES_NAMES_H
#define HEAPPROFD_TOOLS_EXPLORE_SITES_NAMES_H

#include "tools/explore/sites.h"
#include "trace/intern.h"

struct sites_names {
    struct sites *sites;
    struct intern_table tables[SITES_DIMENSIONS];
    struct intern_table texts;
    /* The previous lookup: consecutive samples share a label, at the same address. */
    const char *last_labels[SITES_DIMENSIONS];
    uint32_t last_keys[SITES_DIMENSIONS];
    bool one_profile; /* distinguish processes and threads by pid and tid */
};

void sites_names_begin(struct sites_names *names, struct sites *sites, bool one_profile);
void sites_names_end(struct sites_names *names);

/* Return the key of a function; the functions below return that of another name. */
uint32_t sites_names_function(struct sites_names *names, const struct profile *profile,
                              uint32_t frame);
/* Find the key of a type, context or heap. */
uint32_t sites_names_label(struct sites_names *names, enum sites_dimension dimension,
                           const char *label);
uint32_t sites_names_process(struct sites_names *names, const struct profile *profile,
                             uint32_t process);
/* Return the key of the part's thread. `part` NULL, or its thread 0: unknown. */
uint32_t sites_names_thread(struct sites_names *names, const struct profile *profile,
                            uint32_t process, const struct profile_part *part);

#endif
