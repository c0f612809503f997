/* SPDX-License-Identifier: Apache-2.0 */
/* What heap_profile doctor finds out about a program or process: whether it can be profiled, and if
 * not, the reason and the remedy. Only reads, but not thread-safe: one file reader reads the files
 * (recorder/reader/file_reader.h). */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_DOCTOR_CHECKS_H
#define HEAPPROFD_TOOLS_CLI_RECORD_DOCTOR_CHECKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "recorder/processes/program.h"
#include "util/json_writer.h"

enum doctor_finding { DOCTOR_FINE, DOCTOR_LACKING, DOCTOR_IMPOSSIBLE };

/* Takes the findings. The text may have any characters: it has names of the process. */
struct doctor {
    void (*say)(void *context, enum doctor_finding finding, const char *text);
    void *context;
};

/* Report one finding. */
void doctor_say(const struct doctor *doctor, enum doctor_finding finding, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Write one finding as a JSON object: "ok", "note" or "no", and the text. */
void doctor_write_finding(struct json_writer *json, enum doctor_finding finding, const char *text);

/* The facts of a program that findings are based on. */
struct doctor_facts {
    bool are_known; /* else the file could not be read */
    struct program program;
    enum program_way way;
};

/* Check a program by its file. `will_start`: heap_profile is to start it. */
void doctor_check_program(const struct doctor *doctor, const char *path, const char *name,
                          bool will_start, struct doctor_facts *facts);
/* Check whether anybody may profile a command. */
void doctor_check_policy(const struct doctor *doctor, const char *command, const char *path);
/* Check a running process. */
void doctor_check_process(const struct doctor *doctor, pid_t pid, struct doctor_facts *facts);

#endif
