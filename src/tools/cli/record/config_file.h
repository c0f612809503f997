/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of configurations that users name. */
#ifndef HEAPPROFD_TOOLS_CLI_RECORD_CONFIG_FILE_H
#define HEAPPROFD_TOOLS_CLI_RECORD_CONFIG_FILE_H

#include <stddef.h>

#include "util/error.h"

/* Read a whole file, malloc'd; "-": standard input. Return NULL with *error set on failure. */
char *config_file_read(const char *path, size_t *length, struct error *error);

#endif
