/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the questions about this machine. What changes something is asked for by POST. */
#include "tools/cli/view/machine.h"

void machine_begin(struct machine *machine, struct watched *watched)
{
    shown_begin(&machine->shown, watched);
    recordings_begin(&machine->recordings);
    pthread_mutex_init(&machine->check_lock, NULL);
}

void machine_end(struct machine *machine)
{
    recordings_end(&machine->recordings);
    shown_end(&machine->shown);
    pthread_mutex_destroy(&machine->check_lock);
}

const struct view_question machine_questions[] = {
    {"api/checks", "GET", machine_checks, NULL},
    {"api/configuration", "POST", machine_configure, NULL},
    {"api/doctor", "POST", machine_examine, NULL},
    {"api/dump", "POST", machine_dump, "application/octet-stream"},
    {"api/open", "POST", machine_open, NULL},
    {"api/processes", "GET", machine_processes, NULL},
    {"api/recent", "GET", machine_recent, NULL},
    {"api/recordings", "GET", machine_recordings, NULL},
    {"api/recordings/end", "POST", machine_end_recording, NULL},
    {"api/recordings/start", "POST", machine_start_recording, NULL},
    {"api/sessions/snapshot", "POST", machine_snapshot_session, NULL},
    {"api/sessions/stop", "POST", machine_stop_session, NULL},
};
const size_t machine_question_count = sizeof(machine_questions) / sizeof(machine_questions[0]);
