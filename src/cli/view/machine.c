/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the questions about this machine. What changes something is asked for by POST. */
#include "cli/view/machine.h"

const struct view_question machine_questions[] = {
    {"api/open", "POST", machine_open},
};
const size_t machine_question_count = sizeof(machine_questions) / sizeof(machine_questions[0]);
