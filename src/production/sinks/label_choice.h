/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which labels of a period a store gets. A store makes a series, or a column, of each combination
 * of labels, so labels that say little can be dropped: `drop_labels = boot_id cgroup`.
 */
#ifndef HEAPPROFD_PRODUCTION_SINKS_LABEL_CHOICE_H
#define HEAPPROFD_PRODUCTION_SINKS_LABEL_CHOICE_H

#include "production/continuous/period.h"
#include "util/settings.h"

/* Two processes of a service must stay apart (pid): stores take profiles with the same labels and
 * the same time for copies of one. */
#define LABEL_CHOICE_DEFAULT "boot_id cgroup"

struct label_choice {
    char *dropped; /* names, with a blank before and after each */
};

/* Open and close a kind's state that is a label_choice only (sink_kind.open, .close). */
void *label_choice_open(struct settings_section *section, struct error *error);
void label_choice_close(void *state);

/* Return whether the store gets this label. Labels without a value are dropped. */
bool label_choice_keeps(const struct label_choice *choice, const struct period_label *label);

/* Stores refuse a whole request for one value that is too long or no UTF-8. */
#define LABEL_CHOICE_VALUE_BYTES_MAX 1024u
/* Return the label's value, cut, and with question marks for bytes that are no UTF-8. */
const char *label_choice_value(const struct period_label *label,
                               char value[LABEL_CHOICE_VALUE_BYTES_MAX + 1]);

#endif
