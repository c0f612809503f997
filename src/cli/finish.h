/*
 * What is done with a trace that has just been written: pprof files beside it, and the short
 * report.
 */
#ifndef HEAPPROFD_CLI_FINISH_H
#define HEAPPROFD_CLI_FINISH_H

#include <stdbool.h>

#include "cli/output.h"
#include "util/error.h"

/* Reads the trace back, writes the pprof files, and prints the short report to standard error
 * unless quiet. 0 or a negative errno with a message. */
int finish_output(const struct output *output, bool quiet, struct error *error);

#endif
