/*
 * Call frame information of files, for walks that a profiled process could not finish by what it
 * has loaded: .eh_frame, and .debug_frame of the file itself, of its .gnu_debugdata, or of the
 * debug file with its build id.
 *
 * Files are anybody's: tables are copied out of them within bounds, never mapped, and a file may
 * take only so much time. They are shared by all processes of this one's sessions, and live as
 * long as one of them uses them. For one thread.
 */
#ifndef HEAPPROFD_DAEMON_UNWIND_FILE_H
#define HEAPPROFD_DAEMON_UNWIND_FILE_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/callsite_tree.h"

struct unwind_file;

/* The file of a process's module; NULL: it cannot be read, is another one, or says nothing. To be
 * given back. */
struct unwind_file *unwind_file_take(pid_t pid, const struct callsite_module *module);
void unwind_file_give(struct unwind_file *file);

/* Whether it says more than what is loaded from it into a process. */
bool unwind_file_says_more(const struct unwind_file *file);

/* How to leave the frame of the code at an ELF virtual address; NULL: it does not say. Valid until
 * the next call, and not the caller's. */
Dwarf_Frame *unwind_file_frame(struct unwind_file *file, uint64_t address);

#endif
