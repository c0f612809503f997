/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF packages (.dwp): all .dwo files of a program in one file, with an index by their ids,
 * in GNU's form for DWARF 4 and in the form of DWARF 5.
 */
#ifndef HEAPPROFD_PROFILE_SYMBOLS_DWP_H
#define HEAPPROFD_PROFILE_SYMBOLS_DWP_H

#include <elfutils/libdw.h>
#include <stdint.h>

#include "profile/symbols/dwarf_bytes.h"

struct dwp;

/* Open a package. Return NULL if it does not exist or cannot be read. */
struct dwp *dwp_open(const char *path);
void dwp_close(struct dwp *dwp);

struct dwp_unit {
    Dwarf_Die die;
    struct dwarf_bytes abbreviations, range_lists; /* the unit's parts of these sections */
};

/* Find the unit of an id. *unit is valid until the next call. Return 0 or -ENOENT. */
int dwp_find(struct dwp *dwp, uint64_t id, struct dwp_unit *unit);

#endif
