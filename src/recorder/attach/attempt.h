/* SPDX-License-Identifier: Apache-2.0 */
/* An attempt to change a process, which attach.c and attach_families.c share: to attach to it, and
 * to patch more of it later. */
#ifndef HEAPPROFD_RECORDER_ATTACH_ATTEMPT_H
#define HEAPPROFD_RECORDER_ATTACH_ATTEMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/attach/attach.h"
#include "recorder/attach/entries.h"
#include "recorder/attach/image.h"
#include "recorder/attach/installed_client.h"
#include "recorder/attach/locate.h"
#include "recorder/attach/memory_sharers.h"
#include "recorder/attach/process.h"
#include "recorder/attach/python_heap.h"
#include "recorder/attach/remote_objects.h"
#include "recorder/attach/tracee.h"
#include "util/error.h"

struct attach {
    pid_t pid;
    uint64_t start_time; /* of the process: its pid may be reused */
    struct installed_client client;
    struct entries entries;

    /* The process's libraries. */
    uint64_t loader;           /* see remote_loader(); 0: they are not looked at */
    struct remote_link *links; /* at the last look */
    size_t link_count;
    uint64_t family_objects[FAMILIES_MAX]; /* as in struct located_family */
};

/* An attempt to attach, or to find out whether that is possible. */
struct attempt {
    const struct attach_options *options; /* NULL: only find out */
    struct attach *attach;
    struct process process;
    struct tracee tracee;
    struct located located;
    struct python_heap python;
    struct memory_sharers sharers;
    struct image image;
    struct attached_params *params; /* of the image */
    bool has_no_annex;              /* something was in its place */
    struct attach_outcome *outcome;
    struct error *error;
};

/* Return whether the process of our client has not ended: no other one has its pid. */
bool attempt_is_same_process(const struct attach *attach);

/* Read the mappings of the process. Return whether our client's are among them: an exec has
 * discarded them, and the patched code. */
bool attempt_has_client(const struct attach *attach, struct process *process);

void attempt_note_refused(struct attach_outcome *outcome, const char *name, const char *why);

/* Refuse a process whose memory is another process's, too. */
int attempt_check_sharers(struct attempt *attempt);

/* Stop the process, check what can change until then, and enter it. The entries that are due are
 * patched then. */
int attempt_stop_and_enter(struct attempt *attempt, int (*enter)(struct attempt *attempt));

/* Note which libraries the process has, so that later ones are noticed. */
int attempt_note_libraries(struct attempt *attempt);

/* Choose the address of an annex, if functions are out of the image's reach: those of the
 * executable, if malloc is in a library; or those of libraries, if it is in the executable. A place
 * near them does not overlap the image, which is not. */
void attempt_place_annex(struct attempt *attempt);

/* Make the trampolines of the located families. */
void attempt_patch_families(struct attempt *attempt);

#endif
