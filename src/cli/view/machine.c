/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the questions about this machine. What changes something is asked for by POST. */
#include "cli/view/machine.h"

#include "reader/file_reader.h"

void machine_begin(struct machine *machine, struct watched *watched, struct view_server *server)
{
    shown_begin(&machine->shown, watched, server);
    recordings_begin(&machine->recordings);
    pthread_mutex_init(&machine->check_lock, NULL);
}

void machine_end(struct machine *machine)
{
    recordings_end(&machine->recordings);
    shown_end(&machine->shown);
    pthread_mutex_destroy(&machine->check_lock);
    file_reader_close();
}

const struct view_question machine_questions[] = {
    {"api/checks", "GET", machine_checks},
    {"api/configuration", "POST", machine_configure},
    {"api/doctor", "POST", machine_examine},
    {"api/open", "POST", machine_open},
    {"api/processes", "GET", machine_processes},
    {"api/recent", "GET", machine_recent},
    {"api/recordings", "GET", machine_recordings},
    {"api/recordings/end", "POST", machine_end_recording},
    {"api/recordings/start", "POST", machine_start_recording},
    {"api/sessions/snapshot", "POST", machine_snapshot_session},
    {"api/sessions/stop", "POST", machine_stop_session},
};
const size_t machine_question_count = sizeof(machine_questions) / sizeof(machine_questions[0]);
