/* SPDX-License-Identifier: Apache-2.0 */
/* Included before every file of the engine: what older C libraries for WebAssembly do not declare.
 */
#ifndef HEAPPROFD_VIEW_ENGINE_PLATFORM_H
#define HEAPPROFD_VIEW_ENGINE_PLATFORM_H

#include <stddef.h>

void qsort_r(void *items, size_t count, size_t bytes,
             int (*compare)(const void *, const void *, void *), void *context);

#endif
