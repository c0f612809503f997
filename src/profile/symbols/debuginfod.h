/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks debuginfod's servers for debug files, if DEBUGINFOD_URLS names any and the client library is
 * installed. It keeps what it gets in the user's cache. A request may take long: never ask while
 * others wait.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_DEBUGINFOD_H
#define HEAPPROFD_PROFILE_SYMBOLS_DEBUGINFOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/error.h"

struct debuginfod;

/* Return NULL if no server is named, or with a message if the client is not there. `limit_ms`: time
 * for a request; 0: what the client itself allows (DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME). */
struct debuginfod *debuginfod_open(unsigned limit_ms, struct error *error);
void debuginfod_close(struct debuginfod *debuginfod);

/* Get the debug file with this build id. Return its path, malloc'd, or NULL. */
char *debuginfod_find(struct debuginfod *debuginfod, const uint8_t *build_id, size_t length);

/* Write the path of the file with this build id (in hexadecimal) in one of the client's caches, or
 * "" if there is no such cache. The file need not exist, and is empty after a failed request.
 * Return false after the last cache. */
#define DEBUGINFOD_OLD_CACHE 3u /* used only if it exists */
bool debuginfod_cache_path(size_t index, const char *build_id, char *path, size_t size);

#endif
