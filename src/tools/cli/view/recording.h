/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that the page began: a heap_profile with the command line that the page shows, and a
 * thread that starts it, keeps the end of what it prints, and takes dumps while somebody may watch.
 * The recording ends with this process at the latest.
 */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_RECORDING_H
#define HEAPPROFD_TOOLS_CLI_VIEW_RECORDING_H

#include "tools/cli/view/recording_arguments.h"
#include "util/json_writer.h"

struct recording;

/* Start heap_profile. Without a directory among the arguments make one. Return NULL with *error set
 * on failure. */
struct recording *recording_start(uint64_t id, const struct recording_arguments *arguments,
                                  struct error *error);

uint64_t recording_id(const struct recording *recording);
const char *recording_directory(const struct recording *recording);

bool recording_runs(struct recording *recording);

/* Write it as an object. */
void recording_write(struct recording *recording, struct json_writer *json);

/* Ask it to end, as SIGTERM does: a session ends and its profile is written; host passes the signal
 * on to its command. */
void recording_end(struct recording *recording);

/* Begin the wait of recording_free(), so that several recordings have it at the same time. */
void recording_let_go(struct recording *recording);

/* Wait for its end, for a while; then forget it. */
void recording_free(struct recording *recording);

#endif
