/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heaps of a process that a configuration wants, in the form that the client reads from the
 * ring's memory.
 */
#ifndef HEAPPROFD_RECORDER_SESSION_HEAP_RULES_H
#define HEAPPROFD_RECORDER_SESSION_HEAP_RULES_H

#include <stdbool.h>

#include "trace/config/trace_config.h"
#include "wire/ring.h"

void heap_rules_fill(struct ring_heaps *rules, const struct heap_config *config);

/* Return whether the configuration wants a heap that only a preloaded or linked client has: another
 * one than malloc's and python.object. */
bool heap_rules_want_others(const struct heap_config *config);

#endif
