/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs heap_profile again with other arguments, for what the page asks: a user sees the same
 * messages as on the command line, and what one of these processes does wrong stays in it. No shell
 * is involved. They read nothing and hold no other file of this process.
 */
#ifndef HEAPPROFD_TOOLS_CLI_VIEW_SELF_RUN_H
#define HEAPPROFD_TOOLS_CLI_VIEW_SELF_RUN_H

#include <stddef.h>
#include <sys/types.h>

#include "util/error.h"

/* Start heap_profile. `arguments` begin with its name and end with NULL. It is in a process group
 * of its own, and gets SIGTERM when the calling thread ends. Return its pid or a negative errno. */
pid_t self_start(const char *const *arguments, int output, int errors, struct error *error);

struct self_output {
    char *text;   /* standard output, or "" */
    char *errors; /* standard error, or "" */
    int status;   /* exit code; 128 and more: ended by a signal */
};

/* Run heap_profile to its end, at most for `seconds`. Return 0 or a negative errno, also if it
 * prints too much. self_output_clear() is needed in any case. */
int self_run(const char *const *arguments, unsigned seconds, struct self_output *output,
             struct error *error);
void self_output_clear(struct self_output *output);

/* Set the error to what heap_profile printed, in one line without its name. Return `code`. */
int self_output_error(const struct self_output *output, int code, struct error *error);

/* Return the exit code of a wait status; 128 and the number for a signal, as shells say it. */
int self_exit_code(int wait_status);

#endif
