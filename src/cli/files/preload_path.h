/* SPDX-License-Identifier: Apache-2.0 */
/* Where the library is that programs are to preload. */
#ifndef HEAPPROFD_CLI_FILES_PRELOAD_PATH_H
#define HEAPPROFD_CLI_FILES_PRELOAD_PATH_H

#include <limits.h>

#include "util/error.h"

/* Beside the program, as it is built; where it is installed; or where HEAPPROFD_PRELOAD says. 0 or
 * a negative errno with a message. */
int preload_path_find(char path[PATH_MAX], struct error *error);

#endif
