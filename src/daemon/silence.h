/*
 * Finds out why a program does not load the preload library: from its file and, for a process, from
 * its environment and root directory. Such a program does not report, so it is observed from
 * outside.
 */
#ifndef HEAPPROFD_DAEMON_SILENCE_H
#define HEAPPROFD_DAEMON_SILENCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/process_info.h"
#include "daemon/program.h"

enum silence {
    SILENCE_NONE,        /* nothing keeps it from loading the library */
    SILENCE_STATIC,      /* linked statically, with a malloc that has a symbol */
    SILENCE_STRIPPED,    /* linked statically, without one */
    SILENCE_GO,          /* a static Go program */
    SILENCE_MUSL,        /* its loader is musl's */
    SILENCE_MACHINE,     /* for another processor, or 32-bit */
    SILENCE_RIGHTS,      /* it gains rights when it starts */
    SILENCE_ALLOCATOR,   /* it loads the library, and has an allocator of its own */
    SILENCE_ENVIRONMENT, /* its environment has no LD_PRELOAD of ours */
    SILENCE_PLACE,       /* the library's file is not visible where it runs */
    SILENCE_KINDS,
};

/* Return one word for scripts. */
const char *silence_name(enum silence silence);

/* Write the reason and the remedy for people. The sentence begins with "it". */
void silence_explain(enum silence silence, char *text, size_t size);

/* Cache of program files by identity: a build starts the same programs again and again. */
struct silence_cache {
    struct silence_file {
        dev_t device;
        ino_t inode;
        int64_t changed_ns;
        enum silence silence;
    } files[64];
    size_t next;
};

/* `library` is its path in LD_PRELOAD. */
enum silence silence_of_process(struct silence_cache *cache, const struct process_info *info,
                                const char *library);

#endif
