/* SPDX-License-Identifier: Apache-2.0 */
/* What --version says of every program: the version, and the commit if it was built from git. */
#ifndef HEAPPROFD_UTIL_VERSION_H
#define HEAPPROFD_UTIL_VERSION_H

/* Print "PROGRAM VERSION (COMMIT)" and a newline. */
void version_print(const char *program);

#endif
