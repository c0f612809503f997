/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of sinks that this build has. A new kind is a line here and one in sinks.c. */
#ifndef HEAPPROFD_PRODUCTION_SINKS_KINDS_H
#define HEAPPROFD_PRODUCTION_SINKS_KINDS_H

#include "production/sinks/sink.h"

extern const struct sink_kind sink_clickhouse;
extern const struct sink_kind sink_coroot;
extern const struct sink_kind sink_directory;
extern const struct sink_kind sink_gigapipe;
extern const struct sink_kind sink_otlp;
extern const struct sink_kind sink_parca;
extern const struct sink_kind sink_pyroscope;

#endif
