/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the library that programs are to preload. */
#ifndef HEAPPROFD_RECORDER_HOST_PRELOAD_PATH_H
#define HEAPPROFD_RECORDER_HOST_PRELOAD_PATH_H

#include <limits.h>

#include "util/error.h"

/* Find the preload library: at HEAPPROFD_PRELOAD, beside the program as in a build, or where it is
 * installed. If LD_PRELOAD cannot name its path, make a link to it, and return the link's. Return
 * 0, or a negative errno with *error set. */
int preload_path_find(char path[PATH_MAX], struct error *error);

#endif
