/* SPDX-License-Identifier: Apache-2.0 */
/* What unwinding needs to know of the processor: register numbers in DWARF,
 * where a thread's own stack ends, how return addresses look. */
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
