/* SPDX-License-Identifier: Apache-2.0 */
/* What a session of the tracing service prints to standard error: its course, its losses and what
 * the user can do. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_SERVICE_MESSAGES_H
#define HEAPPROFD_TOOLS_CLI_RECORD_SERVICE_SERVICE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/tracing/consumer/consumer.h"

/* Begin. Return whether progress is shown. `quiet`: print only errors and losses. */
bool service_messages_begin(bool quiet);

/* Ask the service for its data sources, and report those that no producer offers. Without a
 * heapprofd there would be no heap profile, so that is an error. Others are only missed: their
 * producers may come later. Return 0 or a negative errno with a message. */
int service_check_sources(struct consumer *consumer, const struct session_config *config,
                          struct error *error);

void service_tell_started(const struct session_config *config, const char *socket);
void service_show_progress(const struct session_config *config, const struct consumer_stats *stats,
                           uint64_t elapsed_ms);
void service_tell_ending(void);
void service_end_progress(void); /* erase the progress line */

void service_tell_no_dump(void);
void service_tell_not_flushed(void);
void service_tell_losses(const struct consumer_stats *stats);
void service_tell_failed(const struct error *error, bool has_trace);

/* Name the trace, here or where the service wrote it. */
void service_tell_trace(const char *path);
void service_tell_written(const struct session_config *config);

void service_tell_nothing_profiled(void);
void service_tell_missed(unsigned snapshots);

/* Explain an empty trace. Return whether that is because no trigger came. */
bool service_tell_empty(const struct session_config *config);

/* Say how to get back at a session, and where its trace will be (NULL: where the user said). Return
 * the exit code. */
int service_tell_detached(const char *key, const struct session_config *config, const char *trace);

#endif
