/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Put the functions that count pymalloc's (python_count.h) into the interpreter's tables
 * (pymalloc_tables.h) while a session profiles the heap. The heap is registered like a program's
 * own, and its callbacks change the tables. An interpreter that the program opens later (dlopen) is
 * noticed by the first stack that has a frame of it. It may be closed at any time, so only threads
 * that are in it change its tables.
 */
#include "client/heaps/python_object.h"

#include <stdint.h>
#include <string.h>

#include "client/environment.h"
#include "client/heaps/heaps.h"
#include "client/interp/interpreter.h"
#include "client/sample/sampler.h"

struct python_count python_count;

/* --- whether malloc had the request --- */

/* The sizes of an arena: up to 3.9, and since. */
static bool is_arena(size_t length)
{
    return length == 256u << 10 || length == 1u << 20;
}

void python_object_note_failed_mapping(const void *address, size_t length, int fd)
{
    struct client_cell *cell = client_own_cell();
    struct ring_thread *thread = load_relaxed(&cell->thread);
    if (thread == NULL || load_relaxed(&cell->python) == NULL || address != NULL || fd != -1 ||
        !is_arena(length) ||
        load_acquire(&client.process->heap_states[python_count.heap]) != HEAP_COUNTS)
        return;
    store_relaxed(&cell->next_is_python, 1);
    sampler_call_next(thread, &client.pending[thread - client.threads]);
}

/* --- the heap --- */

static const struct pymalloc_functions python_counting = {python_count_malloc, python_count_calloc,
                                                          python_count_realloc, python_count_free};

static void python_object_begin(void *data, const AHeapProfileEnableCallbackInfo *info)
{
    (void)data;
    (void)info;
    pymalloc_tables_replace(&python_counting);
}

static void end(void *data, const AHeapProfileDisableCallbackInfo *info)
{
    (void)data;
    (void)info;
    pymalloc_tables_restore();
}

/* The interpreter prints its statistics of pymalloc only if its tables have pymalloc's functions.
 * If the environment asks for them, leave the tables alone. */
static bool statistics_are_wanted;

static void find_statistics_wanted(void)
{
    const char *value = environment_get("PYTHONMALLOCSTATS");
    statistics_are_wanted = value != NULL && value[0] != '\0';
}

/* Describe the heap. Return false if there is no room for it. */
static bool python_object_describe(void)
{
    struct AHeapInfo *heap = AHeapInfo_create(HEAPS_PYTHON_NAME);
    if (heap == NULL)
        return false;
    heap->is_python = 1;
    python_count.live = &heap->live;
    python_count.heap = (uint32_t)(heap - heaps);
    return true;
}

/* After the constructors that find malloc's functions (101, 102): registering may join a session.
 */
__attribute__((constructor(103))) static void register_at_start(void)
{
    find_statistics_wanted();
    if (!pymalloc_tables_find(&python_count.pymalloc) || statistics_are_wanted ||
        !python_object_describe())
        return;
    AHeapInfo_setEnabledCallback(&heaps[python_count.heap], python_object_begin, NULL);
    AHeapInfo_setDisabledCallback(&heaps[python_count.heap], end, NULL);
    AHeapProfile_registerHeap(&heaps[python_count.heap]);
}

/* --- an interpreter that the program opens later --- */

static const struct module *opened; /* the interpreter's; NULL: none */

/* Replace the tables, in a thread that is in the interpreter, when a session wants the heap. */
static void take_opened(const struct interpreter *found)
{
    if (opened != found->module) {
        struct pymalloc_functions functions;
        memcpy(&functions, found->small_objects, sizeof(functions));
        if (!pymalloc_tables_take(found->module, &functions))
            return;
        python_count.pymalloc = functions;
    }
    if (opened == NULL && !python_object_describe())
        return;
    store_release(&opened, found->module);
    if (heaps_want(&heaps[python_count.heap]))
        pymalloc_tables_replace(&python_counting);
    /* The thread is in the client now. It registers the heap when it leaves. */
    store_release(&client.process->heaps_callbacks_due, 1);
}

void interpreter_noticed(const struct interpreter *found)
{
    static uint32_t busy;
    uint32_t nobody = 0;
    bool is_of_start = python_count.heap != 0 && load_acquire(&opened) == NULL;
    if (found->small_objects[0] == 0 || is_of_start || statistics_are_wanted ||
        module_is_permanent(found->module) || !cas_acquire(&busy, &nobody, 1))
        return;
    take_opened(found);
    store_release(&busy, 0);
}

void python_object_register_noticed(void)
{
    if (unlikely(load_acquire(&opened) != NULL) &&
        load_acquire(&heaps[python_count.heap].stage) == HEAP_DESCRIBED)
        AHeapProfile_registerHeap(&heaps[python_count.heap]);
}

/* No session wants the heap any more. Restore the tables from the thread that has called through
 * them: the interpreter cannot be closed meanwhile. */
void python_count_unprofiled(void)
{
    if (load_acquire(&opened) != NULL && client_state() != CLIENT_ACTIVE)
        pymalloc_tables_restore();
}
