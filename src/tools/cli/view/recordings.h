/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recordings that the page began, and the sessions of this machine: what runs, and what the
 * page may ask of it. All of it is done by running heap_profile, with the rights of this user.
 */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_RECORDINGS_H
#define HEAPPROFD_TOOLS_CLI_VIEW_RECORDINGS_H

#include <pthread.h>
#include <stdio.h>

#include "tools/cli/view/recording.h"

#define RECORDINGS_MAX 64u
#define RECORDINGS_RUNNING_MAX 8u

struct recordings {
    pthread_mutex_t lock;
    struct recording *items[RECORDINGS_MAX]; /* the oldest first */
    size_t count;
    uint64_t last_id;
};

void recordings_begin(struct recordings *recordings);
/* End all, and wait until their profiles are written. Call it when nobody asks any more. */
void recordings_end(struct recordings *recordings);

/* Write the recordings, and the sessions as heap_profile status --json prints them. */
void recordings_list(struct recordings *recordings, FILE *out);

/* Answers to requests, which `root` has. Return 0 or a negative errno with *error set. */
typedef int recordings_answer(struct recordings *recordings, const struct json_value *root,
                              FILE *out, struct error *error);
/* Begin a recording: as in recording_arguments.h. */
recordings_answer recordings_start;
/* End one: {"recording": ID}. */
recordings_answer recordings_finish;
/* Run heap_profile stop, or snapshot, for a session: {"session": ID}. */
recordings_answer recordings_stop_session, recordings_snapshot_session;
/* Write the Perfetto configuration of a command line. */
recordings_answer recordings_configure;
/* Write what heap_profile doctor says: {"arguments": ["-p", "4711"]}. */
recordings_answer recordings_examine;

#endif
