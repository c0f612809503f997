/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for a trace that is read, from the places that the environment names: functions and lines
 * from PERFETTO_BINARY_PATH (searched as PERFETTO_SYMBOLIZER_MODE says), Java's names by the maps
 * of PERFETTO_PROGUARD_MAP. So every tool honours them, as Perfetto's trace processor does.
 */
#ifndef HEAPPROFD_TOOLS_CLI_FILES_ENVIRONMENT_NAMES_H
#define HEAPPROFD_TOOLS_CLI_FILES_ENVIRONMENT_NAMES_H

#include "profile/profile.h"

/* Return a descriptor of packets with names, or -1 if no names were found. What cannot be read is a
 * warning. This is a profile_read_further (profile_read.h). */
int environment_names_find(const struct profile *unfinished);

#endif
