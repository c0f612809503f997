/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF packages (.dwp): the .dwo files of a program in one, with an index
 * by their ids; GNU's of DWARF 4 and that of DWARF 5.
 */
#ifndef HEAPPROFD_SYMBOLS_DWP_H
#define HEAPPROFD_SYMBOLS_DWP_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/line_table.h"

struct dwp;

/* NULL: there is none, it cannot be read, or its sections are compressed. */
struct dwp *dwp_open(const char *path);
void dwp_close(struct dwp *dwp);

struct dwp_unit {
    Dwarf_Die die;
    struct dwarf_bytes abbreviations, range_lists; /* its parts of these sections */
};

/* The unit of this id. What is in *unit is valid until the next call. 0 or -ENOENT. */
int dwp_find(struct dwp *dwp, uint64_t id, struct dwp_unit *unit);

#endif
