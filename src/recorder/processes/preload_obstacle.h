/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out why a program does not load the preload library: from its file and, for a process, from
 * its environment and root directory. Such a program does not report, so it is observed from
 * outside.
 */
#ifndef HEAPPROFD_RECORDER_PROCESSES_PRELOAD_OBSTACLE_H
#define HEAPPROFD_RECORDER_PROCESSES_PRELOAD_OBSTACLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "recorder/processes/process_info.h"

enum preload_obstacle {
    OBSTACLE_NONE,        /* nothing prevents it from loading the library */
    OBSTACLE_STATIC,      /* linked statically, with a malloc that has a symbol */
    OBSTACLE_STRIPPED,    /* linked statically, without one */
    OBSTACLE_GO,          /* a static Go program */
    OBSTACLE_MACHINE,     /* for another processor, or 32-bit */
    OBSTACLE_RIGHTS,      /* it gains rights when it starts */
    OBSTACLE_ALLOCATOR,   /* it loads the library, and has an allocator of its own */
    OBSTACLE_ENVIRONMENT, /* its environment has no LD_PRELOAD of ours */
    OBSTACLE_PLACE,       /* the library's file is not visible where it runs */
    OBSTACLE_KINDS,
};

/* Return one word for scripts. */
const char *preload_obstacle_name(enum preload_obstacle obstacle);

/* Print the reason and the remedy for users. The sentence begins with "it". */
void preload_obstacle_explain(enum preload_obstacle obstacle, char *text, size_t size);

/* Cache of program files by identity: a build starts the same programs again and again. */
struct preload_obstacle_cache {
    struct preload_obstacle_file {
        dev_t device;
        ino_t inode;
        int64_t changed_ns;
        enum preload_obstacle obstacle;
    } files[64];
    size_t next;
};

/* Find out why a process does not load the library. `library` is its path in LD_PRELOAD. */
enum preload_obstacle preload_obstacle_of_process(struct preload_obstacle_cache *cache,
                                                  const struct process_info *info,
                                                  const char *library);

#endif
