/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights of a child that parses files for its user, above all for root: it can still read what he
 * can read, and do little else. So a file that makes it do what it should not gains little.
 */
#ifndef HEAPPROFD_UTIL_READING_RIGHTS_H
#define HEAPPROFD_UTIL_READING_RIGHTS_H

/*
 * Give up, for good, what reading files does not take: all capabilities but CAP_DAC_READ_SEARCH;
 * writing to the file system outside the directory `writable` (a descriptor; -1: none) where the
 * kernel has Landlock; and the system calls that begin programs, reach other processes and networks
 * or change owners and modes. Descriptors stay open. A step that the kernel does not know is left
 * out.
 */
void reading_rights_enter(int writable);

#endif
