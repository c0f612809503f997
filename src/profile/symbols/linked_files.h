/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the files that debug information names before libdw opens them: alternate files (dwz) and
 * .dwo files. libdw opens any kind of file. A pipe would block it forever, and opening a device may
 * have any effect.
 *
 * Anybody who can replace the file between the check and libdw's open can still block it.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_LINKED_FILES_H
#define HEAPPROFD_PROFILE_SYMBOLS_LINKED_FILES_H

#include <elfutils/libdw.h>
#include <limits.h>
#include <stdbool.h>

/* Return whether the alternate file of the debug information in descriptor `fd` may be opened. */
bool linked_files_have_safe_alternate(Dwarf *dwarf, int fd);

/* Return whether the .dwo file may be opened. `directory`: the unit's, or NULL. */
bool linked_files_have_safe_split(int fd, const char *directory, const char *name);

/* Write the path of a file that the debug information in descriptor `fd` names, below `directory`
 * (a unit's, or ""). Return false if it is too long. */
bool linked_files_path(int fd, const char *directory, const char *name, char path[PATH_MAX]);

#endif
