/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs that are programs of their own, because they need libraries that take longer to load than
 * most sessions take to begin: heap_profile becomes heap_profile_VERB.
 */
#ifndef HEAPPROFD_TOOLS_CLI_MAIN_VERB_PROGRAM_H
#define HEAPPROFD_TOOLS_CLI_MAIN_VERB_PROGRAM_H

/* Become the program of a verb. `arguments` begin with "heap_profile" and the verb, and end with
 * NULL. Returns only on failure, with the exit code. */
int verb_program_run(char *const *arguments);

#endif
