/* SPDX-License-Identifier: Apache-2.0 */
/* The remark of a target's last dump: what the profile lacks, and why. */
#ifndef HEAPPROFD_DAEMON_SESSION_TARGET_DIAGNOSIS_H
#define HEAPPROFD_DAEMON_SESSION_TARGET_DIAGNOSIS_H

#include "daemon/processes/diagnosis.h"
#include "daemon/session/target.h"

/* Write the remark, "" if there is nothing to remark. `remark` has DIAGNOSIS_BYTES_MAX bytes. */
void target_diagnose(const struct target *target, const struct target_end *end, char *remark);

#endif
