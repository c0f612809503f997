/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the processor for unwinding: DWARF register numbers, the end of a
 * thread's own stack, the form of return addresses. */
#ifndef HEAPPROFD_CLIENT_ARCH_UNWIND_H
#define HEAPPROFD_CLIENT_ARCH_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "client/arch/registers.h"

#if defined(__x86_64__)
#include "client/arch/x86_64/unwind.h"
#elif defined(__aarch64__)
#include "client/arch/aarch64/unwind.h"
#endif

#endif
