/* SPDX-License-Identifier: Apache-2.0 */
/* The versions 3.x of CPython whose functions are shown in stacks. */
#ifndef HEAPPROFD_WIRE_PYTHON_VERSIONS_H
#define HEAPPROFD_WIRE_PYTHON_VERSIONS_H

#define PYTHON_MINOR_FIRST 9u
#define PYTHON_MINOR_LAST 15u

#endif
