/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's tables of memory functions, from which all of its code calls pymalloc: those of the
 * domains MEM and OBJ, and copies of them that wrappers (tracemalloc, the debug hooks) keep to call
 * the wrapped functions.
 *
 * The tables are found by their contents. PyMem_GetAllocator() shows at start-up which four
 * functions pymalloc has, and the interpreter's writable data is searched for these four in a row.
 * PyMem_SetAllocator() would be the documented way to write them, but some versions take a lock
 * there, or copy a table in pieces smaller than a word while other threads call through it. So each
 * word is stored by itself here. The tables' first word, the functions' context, stays.
 */
#ifndef HEAPPROFD_CLIENT_HEAPS_PYMALLOC_TABLES_H
#define HEAPPROFD_CLIENT_HEAPS_PYMALLOC_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "client/heaps/python_count.h"

/* Find the interpreter among the loaded objects, and pymalloc's functions. Return false if there is
 * no interpreter, or it allocates objects by other functions. Call it at start-up, before the
 * interpreter has run and before there are threads. */
bool pymalloc_tables_find(struct pymalloc_functions *pymalloc);

/* Take an interpreter that the program has opened since, with these functions. A frame of this
 * thread returns into it. Return false if the one that was taken before is still there. */
struct module;
bool pymalloc_tables_take(const struct module *module, const struct pymalloc_functions *pymalloc);

/* Replace pymalloc's functions in all tables. The replacements must call them. */
void pymalloc_tables_replace(const struct pymalloc_functions *replacements);

/* Replace them again in tables that the interpreter has reset since (PYTHONMALLOC=debug, -X dev).
 * Reads a few words; any thread may call it. */
void pymalloc_tables_replace_again(void);

/* After pymalloc_tables_take(), only threads with a frame in the interpreter may call the functions
 * above and below. */

/* Put pymalloc's functions back wherever the replacements are now. */
void pymalloc_tables_restore(void);

#endif
