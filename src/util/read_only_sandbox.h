/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandbox of a child that parses files for a user, above all for root. The child can still read all
 * files that the user can read, and do little else, so that a file that exploits a parser gains
 * little.
 */
#ifndef HEAPPROFD_UTIL_READ_ONLY_SANDBOX_H
#define HEAPPROFD_UTIL_READ_ONLY_SANDBOX_H

/*
 * Drop, irrevocably, all rights that reading files does not need: all capabilities but
 * CAP_DAC_READ_SEARCH; with Landlock, writing outside the directory `writable` (a descriptor; -1:
 * none); and the system calls that start programs, reach other processes and networks, or change
 * owners and modes. Descriptors stay open. A step that the kernel does not support is skipped.
 */
void read_only_sandbox_enter(int writable);

/* The same, but keep the capabilities that reading the files of other users' processes needs
 * (/proc/PID/root, /proc/PID/map_files). */
void read_only_sandbox_enter_for_processes(int writable);

#endif
