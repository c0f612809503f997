/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request by the machine's program `curl`. A statically linked program can neither look up
 * names of hosts nor load a library that could, and the certificates to trust are the machine's.
 *
 * Options go to curl through its standard input, so that no other user sees what is secret, and
 * what is sent through a file in memory. What is received comes through a pipe: the heads of the
 * answer first (include), and then its body.
 */
#ifndef HEAPPROFD_STATIC_CURL_RUN_H
#define HEAPPROFD_STATIC_CURL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* One that is zero has no options yet, and does not run. */
struct curl_run {
    char *options;
    size_t length, capacity;
    bool is_out_of_memory;
    pid_t pid;          /* 0: none */
    int answer, errors; /* pipes, while it runs */
};

/* Return whether there is a program `curl`. */
bool curl_run_is_possible(void);

/* Add an option of curl: its long name and its value (NULL: none). */
void curl_run_add(struct curl_run *run, const char *name, const char *value);

/* Start curl. The body to send is copied; NULL: no body. The options are wiped and freed. Return 0
 * or a negative errno. */
int curl_run_start(struct curl_run *run, const void *body, size_t length);

#define CURL_RUN_FAILURE_BYTES 256

/* Wait for its end, which is near when `answer` has ended. Return curl's exit status (a CURLcode),
 * and what it says about its failure. */
int curl_run_finish(struct curl_run *run, char failure[CURL_RUN_FAILURE_BYTES]);

/* End it at once. */
void curl_run_stop(struct curl_run *run);

/* Why curl could not be started, for people. */
const char *curl_run_explain(int code);

#endif
