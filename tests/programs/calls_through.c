/*
 * Allocates behind functions of libraries that cannot be unwound by what is loaded of them:
 * through one alone, and through both that can be unwound by what their files say.
 */
#include <stddef.h>

#include "truth.h"

enum { ROUNDS = 100 };

void *through_minidebug(void *(*call)(size_t size), size_t size);
void *through_debug_frame(void *(*call)(size_t size), size_t size);
void *through_nothing(void *(*call)(size_t size), size_t size);

CALLSITE void *behind_minidebug(size_t size)
{
    return kept(malloc(size));
}

CALLSITE void *behind_both(size_t size)
{
    return kept(malloc(size));
}

CALLSITE void *between(size_t size)
{
    return kept(through_debug_frame(behind_both, size));
}

CALLSITE void *behind_nothing(size_t size)
{
    return kept(malloc(size));
}

CALLSITE void outermost(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        free(through_minidebug(behind_minidebug, 100));
        free(through_minidebug(between, 200));
        free(through_nothing(behind_nothing, 300));
    }
}

int main(void)
{
    outermost();
    truth("behind_minidebug", 100ull * ROUNDS, ROUNDS);
    truth("behind_both", 200ull * ROUNDS, ROUNDS);
    truth("behind_nothing", 300ull * ROUNDS, ROUNDS);
    return 0;
}
