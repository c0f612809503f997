/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates at unusual times: in an IFUNC resolver (during relocation), in preinit functions and
 * constructors, in atexit handlers, and in the destructors after those. */
#include "truth.h"

static int resolved;

static CALLSITE void *allocate_in_constructor(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_at_exit(size_t size)
{
    return kept(malloc(size));
}

static CALLSITE void *allocate_in_destructor(size_t size)
{
    return kept(malloc(size));
}

static int answer(void)
{
    return 42;
}

static void *resolver_block;

__attribute__((used)) static int (*resolve(void))(void)
{
    resolver_block = malloc(77);
    resolved++;
    return answer;
}

int resolved_answer(void) __attribute__((ifunc("resolve")));

static void prepare(void)
{
    free(allocate_in_constructor(10));
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = prepare;

__attribute__((constructor(101))) static void construct_early(void)
{
    free(allocate_in_constructor(20));
}

__attribute__((constructor)) static void construct_late(void)
{
    free(allocate_in_constructor(30));
}

__attribute__((destructor(101))) static void destroy_late(void)
{
    free(allocate_in_destructor(40));
}

__attribute__((destructor)) static void destroy_early(void)
{
    free(allocate_in_destructor(50));
}

static void at_exit(void)
{
    free(allocate_at_exit(60));
}

int main(void)
{
    require(resolved_answer() == 42 && resolved > 0 && resolver_block);
    free(resolver_block);
    for (int i = 0; i < 40; i++)
        require(!atexit(at_exit));
    truth("allocate_in_constructor", 60, 3);
    truth("allocate_at_exit", 40 * 60, 40);
    truth("allocate_in_destructor", 90, 2);
    return 0;
}
