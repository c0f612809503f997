/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap python.object of a process that is attached to: finds CPython's allocator of small
 * objects, pymalloc, in the process's memory, and makes the interpreter's tables of functions lead
 * to the client. The tables are words of data, so no code is patched: compilers copy pymalloc's
 * code into its callers.
 *
 * A table's words are the addresses of a page that stays in the process (wire/call_page.h). All
 * changes are made while the process is stopped.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_PYTHON_HEAP_H
#define HEAPPROFD_RECORDER_ATTACH_PYTHON_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "recorder/attach/attach.h"
#include "recorder/attach/process.h"
#include "recorder/attach/tracee.h"
#include "wire/attached_params.h"

struct python_heap {
    enum attach_python state;
    uint64_t functions[PYMALLOC_WORDS]; /* pymalloc's */
    struct pymalloc_data data;
    uint64_t call_page; /* of an earlier session; 0: none */
};

/* Look for CPython in a running process. The state is ATTACH_PYTHON_COUNTED if pymalloc was found.
 */
void python_heap_locate(struct python_heap *heap, const struct process *process,
                        const struct tracee *tracee);

/* Map a call page, unless there is one, and fill in the client's parameters. Call it between
 * tracee_work_begin() and tracee_work_end(); `scratch` is writable memory of the process. If it
 * fails, the state becomes ATTACH_PYTHON_FAILED. */
void python_heap_place_calls(struct python_heap *heap, struct tracee *tracee, uint64_t scratch,
                             struct attached_python *params);

/* Make the tables lead to the client. Return 0 or a negative errno. */
int python_heap_enter(const struct attached_python *params, const struct tracee *tracee);

/* Undo that, for any client. Return 0 or a negative errno. */
int python_heap_leave(const struct attached_python *params, const struct tracee *tracee);

/* Return where the thread may continue instead if its pc is in a call that has perhaps read its
 * target already; 0: it is elsewhere. */
uint64_t python_heap_call_begin(const struct attached_python *params, uint64_t pc);

#endif
