/* SPDX-License-Identifier: Apache-2.0 */
/* Raw system calls, by processor. system_call(number, ...) with 0 to 6 arguments. */
#ifndef HEAPPROFD_CLIENT_ARCH_SYSCALL_H
#define HEAPPROFD_CLIENT_ARCH_SYSCALL_H

#if defined(__x86_64__)
#include "client/arch/x86_64/syscall.h"
#elif defined(__aarch64__)
#include "client/arch/aarch64/syscall.h"
#else
#error "heapprofd runs on x86-64 and aarch64"
#endif

#define SYSTEM_CALL_PICK(_0, _1, _2, _3, _4, _5, _6, name, ...) name
#define system_call(...)                                                                           \
    SYSTEM_CALL_PICK(__VA_ARGS__, system_call6, system_call5, system_call4, system_call3,          \
                     system_call2, system_call1, system_call0, )                                   \
    (__VA_ARGS__)

#define system_call0(n) system_call6(n, 0, 0, 0, 0, 0, 0)
#define system_call1(n, a) system_call6(n, a, 0, 0, 0, 0, 0)
#define system_call2(n, a, b) system_call6(n, a, b, 0, 0, 0, 0)
#define system_call3(n, a, b, c) system_call6(n, a, b, c, 0, 0, 0)
#define system_call4(n, a, b, c, d) system_call6(n, a, b, c, d, 0, 0)
#define system_call5(n, a, b, c, d, e) system_call6(n, a, b, c, d, e, 0)
#define system_call6(n, a, b, c, d, e, f)                                                          \
    (unlikely(system_calls_are_forbidden())                                                        \
         ? (long)-EPERM                                                                            \
         : arch_system_call((long)(n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),      \
                            (long)(f)))

#endif
