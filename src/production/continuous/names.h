/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the addresses in fragments. A child process at low priority reads the files (ELF, DWARF)
 * of those that are not known yet: it gives its memory back at its end, and damage in a file ends
 * only it. Answers are kept by build id and address, also that there is no name: so a file is read
 * only when a program runs code of it that was not seen before.
 */
#ifndef HEAPPROFD_PRODUCTION_CONTINUOUS_NAMES_H
#define HEAPPROFD_PRODUCTION_CONTINUOUS_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile/symbolize/trace_addresses.h"
#include "trace/proto_buffer.h"
#include "util/error.h"
#include "util/id_map.h"

struct names {
    bool asks_servers;
    struct id_map ids; /* by hash of module and address */
    struct name_answer {
        size_t offset;
        uint32_t length; /* 0: no name */
    } * answers;
    size_t count, capacity;
    struct proto_buffer lines; /* Lines of AddressSymbols */
    /* The search that runs. */
    struct trace_addresses addresses; /* of the fragment */
    pid_t child;                      /* 0: none runs */
    int pidfd, found;                 /* memfd with the child's ModuleSymbols */
    uint64_t cpu_ticks, moved_ms;     /* of the child, and when these were last another number */
};

void names_init(struct names *names, bool asks_servers);
void names_clear(struct names *names);

/* Begin to name a fragment. Return 1 if a child reads files: names->pidfd becomes readable when it
 * has; 0 if all its names are known; or a negative errno with a message. */
int names_begin(struct names *names, int fragment, struct error *error);

/* Return whether the child has waited for long, and not for a processor: a file that it reads lies
 * on a server that does not answer (FUSE). Then names_finish() gives it up. */
bool names_is_stuck(struct names *names);

/* Take the child's answers if one ran, and append the names to the fragment. Return 0, or a
 * negative errno with a message: the fragment may lack names. */
int names_finish(struct names *names, int fragment, struct error *error);

#endif
