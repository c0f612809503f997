/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the questions about this machine. What changes something is asked for by POST. */
#include "cli/view/machine.h"

const struct view_question machine_questions[] = {
    {"api/configuration", "POST", machine_configure},
    {"api/doctor", "POST", machine_examine},
    {"api/open", "POST", machine_open},
    {"api/recordings", "GET", machine_recordings},
    {"api/recordings/end", "POST", machine_end_recording},
    {"api/recordings/start", "POST", machine_start_recording},
    {"api/sessions/snapshot", "POST", machine_snapshot_session},
    {"api/sessions/stop", "POST", machine_stop_session},
};
const size_t machine_question_count = sizeof(machine_questions) / sizeof(machine_questions[0]);
