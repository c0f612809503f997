/* SPDX-License-Identifier: Apache-2.0 */
/* Compare frame addresses, on the thread's own stack only. */
#include "client/sample/abandoned_frame.h"

#include <signal.h>

#include "client/system.h"

/* A program may put its alternate stack into an array on its main stack. A handler there lies
 * further out than the function that it interrupted. */
static bool on_alternate_stack(void)
{
    stack_t stack;
    return system_call(CALL_SIGNAL_STACK, &stack) != 0 || (stack.ss_flags & SS_ONSTACK) != 0;
}

bool abandoned_frame(const struct unwind_stack_bounds *bounds, uintptr_t frame, uintptr_t here)
{
    return frame <= here && frame >= bounds->low && here < bounds->high && !on_alternate_stack();
}
