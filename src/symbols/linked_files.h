/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at the files that debug information names, before libdw opens them: alternate files (dwz)
 * and .dwo files. libdw opens whatever stands there. A pipe would keep it waiting forever, and
 * opening a device may do anything.
 *
 * Whoever may change the file between the look and libdw's open can still make it wait.
 */
#ifndef HEAPPROFD_SYMBOLS_LINKED_FILES_H
#define HEAPPROFD_SYMBOLS_LINKED_FILES_H

#include <elfutils/libdw.h>
#include <stdbool.h>

/* Whether the alternate file of the debug information in descriptor `fd` may be opened. */
bool linked_files_have_safe_alternate(Dwarf *dwarf, int fd);

/* Whether the .dwo file may be opened. `directory`: the unit's, or NULL. */
bool linked_files_have_safe_split(int fd, const char *directory, const char *name);

#endif
