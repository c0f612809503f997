/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which heaps of a process a configuration wants, as the client reads it from the ring's memory.
 */
#ifndef HEAPPROFD_DAEMON_SESSION_HEAP_RULES_H
#define HEAPPROFD_DAEMON_SESSION_HEAP_RULES_H

#include <stdbool.h>

#include "trace/config/trace_config.h"
#include "wire/ring.h"

void heap_rules_fill(struct ring_heaps *rules, const struct heap_config *config);

/* Whether it wants any heap but malloc's. */
bool heap_rules_want_others(const struct heap_config *config);

#endif
