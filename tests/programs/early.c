/* SPDX-License-Identifier: Apache-2.0 */
/* Uses a library that allocates while the loader relocates it (early_library.c). */
#include "truth.h"

int early_call(void);
void early_free(void);

static CALLSITE void *allocate(void)
{
    return kept(malloc(100));
}

int main(void)
{
    printf("%d blocks\n", early_call());
    early_free();
    for (int i = 0; i < 1000; i++)
        free(allocate());
    truth("allocate", 100000, 1000);
    return 0;
}
