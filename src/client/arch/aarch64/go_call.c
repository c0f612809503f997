/* SPDX-License-Identifier: Apache-2.0 */
/* Not known: stacks end at asmcgocall. */
#include "client/unwind/go_call.h"

bool go_call_read(const uint8_t *code, size_t bytes, struct go_call *call)
{
    (void)code, (void)bytes, (void)call;
    return false;
}
