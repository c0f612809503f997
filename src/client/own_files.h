/* SPDX-License-Identifier: Apache-2.0 */
/* Names of this process's own files in /proc. */
#ifndef HEAPPROFD_CLIENT_OWN_FILES_H
#define HEAPPROFD_CLIENT_OWN_FILES_H

#include <stddef.h>

/* Write the path of the file ("maps"), with room for more behind it. Return the path's end, where
 * it has its zero byte. */
#define OWN_FILE_PATH_BYTES 96
char *own_file_path(char path[OWN_FILE_PATH_BYTES], const char *name);

/* Read a link. Return its length, or a negative errno: -ENAMETOOLONG if it does not fit with a zero
 * byte after it. */
int own_link_read(const char *link, char *buffer, size_t size);

#endif
