/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page's questions about this machine: recent profiles, processes, recordings. They are
 * answered with the rights of the user of heap_profile view. Answers are written as answer_function
 * does (tools/view/answers/answers.h).
 */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_MACHINE_H
#define HEAPPROFD_TOOLS_CLI_VIEW_MACHINE_H

#include "tools/cli/view/recordings.h"
#include "tools/cli/view/shown.h"
#include "tools/view/server/server.h"

/* The context of all questions. */
struct machine {
    struct shown shown;
    struct recordings recordings;
    pthread_mutex_t check_lock; /* of the file reader, which doctor's checks use */
};

/* Begin, before the server starts: its threads ask without waiting for us. */
void machine_begin(struct machine *machine, struct watched *watched);
void machine_end(struct machine *machine);

extern const struct view_question machine_questions[];
extern const size_t machine_question_count;

/* A question's answer, as in struct view_question; the context is a struct machine. */
typedef int machine_answer(void *context, const struct view_parameters *parameters,
                           const char *body, FILE *out, struct error *error);

/* Show other profiles. */
machine_answer machine_open;
/* The page's recordings and the sessions of this machine; begin and end them. */
machine_answer machine_recordings, machine_start_recording, machine_end_recording;
machine_answer machine_stop_session, machine_snapshot_session;
/* What a command line means, and whether it would work. */
machine_answer machine_configure, machine_examine;
/* Recent profiles, the newest first. */
machine_answer machine_recent;
/* All processes with their memory. */
machine_answer machine_processes;
/* Whether some processes can be profiled, and why not. */
machine_answer machine_checks;
/* A dump of a process that is being profiled, as a file. */
machine_answer machine_dump;

#endif
