/* SPDX-License-Identifier: Apache-2.0 */
/* Applies target rules (trace/config/target_rules.h) to processes. */
#ifndef HEAPPROFD_RECORDER_SESSION_TARGET_CHOICE_H
#define HEAPPROFD_RECORDER_SESSION_TARGET_CHOICE_H

#include "recorder/processes/process_info.h"
#include "trace/config/target_rules.h"

/* Return the first rule that matches the process, or NULL. Its cgroup is read from /proc if a rule
 * asks for it. Threads of the kernel match nothing. */
const struct target_rule *target_choice_find(const struct target_rules *rules,
                                             const struct process_info *info);

/* Return whether a rule may match the process as far as names decide. The info has only names. */
bool target_choice_is_possible(const struct target_rules *rules, const struct process_info *info);

#endif
