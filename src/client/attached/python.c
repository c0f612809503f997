/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap python.object of an attached client. The attacher has found the interpreter's tables of
 * functions and has put the calls of its page (wire/call_page.h) into them before the client runs.
 * Once no session wants the heap, the first thread that calls through a table restores the tables:
 * in a forked child, or when the session has ended early.
 */
#include "client/attached/python.h"

#include <string.h>

#include "client/attached.h"
#include "client/heaps/heaps.h"
#include "client/heaps/python_count.h"
#include "wire/call_page.h"

#define HEAP_PYTHON 1u

/* A set without addresses, until the heap has begun. */
static const struct live_set no_addresses = {.near_shift = LIVE_SET_NEAR_NOTHING_SHIFT};

struct python_count python_count = {.live = &no_addresses, .heap = HEAP_PYTHON};

static uint32_t is_restored;

void attached_python_begin(void)
{
    static const char name[] = HEAPS_PYTHON_NAME;
    struct AHeapInfo *heap = &heaps[HEAP_PYTHON];
    if (heapprofd_attach_params.python.functions[0] == 0 || heaps_init() != 0)
        return;
    memcpy(heap->name, name, sizeof(name));
    heap->is_python = 1;
    heap->stage = HEAP_REGISTERED;
    heap_begin(HEAP_PYTHON);
    if (heap->rule.interval_bytes != 0)
        store_release(&python_count.live, &heap->live);
}

void python_count_unprofiled(void)
{
    const struct attached_python *python = &heapprofd_attach_params.python;
    uint64_t calls[PYMALLOC_WORDS];
    uint32_t found = 0;
    if (client_state() == CLIENT_ACTIVE || !cas_acquire(&is_restored, &found, 1))
        return;
    /* This thread came through one of the tables: the interpreter's data is there. */
    uint64_t *at = (uint64_t *)python->data.start;
    call_page_calls(python->call_page, calls);
    while ((at = pymalloc_words_search(at, (uint64_t *)python->data.end, calls)) != NULL)
        pymalloc_words_set(at, python->functions);
}
