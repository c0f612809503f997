/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patched entries of a process's functions, and those that will be patched: their trampolines,
 * and what is done with them while all threads are stopped.
 */
#ifndef HEAPPROFD_RECORDER_ATTACH_ENTRIES_H
#define HEAPPROFD_RECORDER_ATTACH_ENTRIES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/attach/tracee.h"
#include "recorder/attach/trampoline.h"
#include "wire/attached_params.h"

struct entries {
    uint64_t image, image_end; /* of the client in the process */
    uint64_t room;             /* for trampolines, in there */
    uint64_t annex; /* for those of functions out of the image's reach; 0: there is none */
    unsigned count; /* of those below. One whose site has no length is free */
    struct trampoline trampolines[ATTACHED_SITES_MAX];
};

/* Bytes of an annex: a trampoline and a far jump for each entry. */
#define ENTRIES_ANNEX_SLOT_BYTES (TRAMPOLINE_BYTES + TRAMPOLINE_FAR_BYTES)
#define ENTRIES_ANNEX_BYTES (ATTACHED_SITES_MAX * ENTRIES_ANNEX_SLOT_BYTES)

/* A function to patch. */
struct entry_function {
    uint64_t address, size, hook;
    uint32_t number; /* of the site */
};

/* Return whether a jump at the address reaches the image or the annex, and one from there the
 * address. */
bool entries_reach(const struct entries *entries, uint64_t address);

/* Make the trampoline of a function. Return its address in the process; 0: it cannot be patched,
 * for the reason *why. */
uint64_t entries_add(struct entries *entries, const struct tracee *tracee,
                     const struct entry_function *function, const char **why);

/* Free the entries whose site has a number in [first, end). */
void entries_remove(struct entries *entries, uint32_t first, uint32_t end);

/* Return the number of entries that are to be patched. */
unsigned entries_due(const struct entries *entries);

/* Return whether the process's code at one of the patched entries with a number in [first, end) is
 * as we wrote it. */
bool entries_any_present(const struct entries *entries, const struct tracee *tracee, uint32_t first,
                         uint32_t end);

/* Put the trampolines into the contents of the image's room and of the annex. */
void entries_fill(const struct entries *entries, uint8_t *room, uint8_t *annex);

/* List the sites in the parameters, each at its entry's place: while the list is written over an
 * earlier one, no site of a patched entry moves. */
void entries_list(const struct entries *entries, struct attached_params *params);

/*
 * The rest is done with the entries that are due, while all threads are stopped.
 */

/* Return whether the code that the trampolines were made from is unchanged. */
bool entries_are_unchanged(const struct entries *entries, const struct tracee *tracee);

/* Move threads out of the entries. Return 0, or the id of a thread that cannot be moved or whose
 * signal handler will return there. */
pid_t entries_clear(const struct entries *entries, struct tracee *tracee);

/* Write the trampolines, which a process that has the image already lacks. Return 0 or a negative
 * errno. */
int entries_write_trampolines(const struct entries *entries, const struct tracee *tracee);

/* Patch the entries. Return 0 or a negative errno. */
int entries_patch(const struct entries *entries, const struct tracee *tracee);

/* Undo that, and move the threads back. Return 0 or a negative errno. */
int entries_undo(const struct entries *entries, struct tracee *tracee);

/* Patch the entries of a process that has the client: write the trampolines, and the families and
 * sites of `params` into its parameters at `address`, before. Return 0; or a negative errno, and
 * all is as it was, unless the code cannot be written back: then the sites stay listed. */
int entries_enter_later(const struct entries *entries, struct tracee *tracee, uint64_t address,
                        const struct attached_params *params);

/* Note that they are patched: they are no longer due. */
void entries_settle(struct entries *entries);

#endif
