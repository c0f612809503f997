/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of an interpreter's memory that may vanish, here made by hand: of one that ends in another
 * thread, and of frames that make no sense.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/arch/unwind.h"
#include "client/interp/python.h"
#include "client/system.h"

/* What python_stack.c uses of others. */
static unsigned long copies;

long system_read_memory(void *to, uintptr_t from, size_t bytes)
{
    const struct iovec local = {to, bytes}, remote = {(void *)from, bytes};
    copies++;
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
}

const uint8_t *interpreter_view(bool direct, uintptr_t from, void *room, size_t bytes)
{
    if (from < 4096 || direct)
        return (const uint8_t *)from;
    return system_read_memory(room, from, bytes) == (long)bytes ? room : NULL;
}

bool python_find(const struct module *module, struct interpreter *found)
{
    (void)module;
    (void)found;
    return false;
}

bool python_send(struct ring_thread *thread, const struct interpreter *interpreter,
                 const struct interpreter_stack *stack, const struct interpreter_item *item)
{
    (void)thread;
    (void)interpreter;
    (void)stack;
    (void)item;
    return false;
}

/* An interpreter of the kind of 3.13. Its threads' states span two pages. */
enum { STATE_FRAME = 8, STATE_ID = 0, STATE_ACTIVE = 64 };

static struct {
    uint64_t begin;
    uint32_t key_is_made, key;
    uint64_t finalizing;
} runtime;

struct frame {
    uint64_t code;
    struct frame *previous;
    uint64_t place;
    uint8_t owner, pad[PYTHON_FRAME_BYTES - 25];
};

struct code {
    uint64_t head[2], size, words[4];
    uint32_t first_traceable, pad;
    uint8_t rest[PYTHON_CODE_BYTES - 64];
};

static const struct python_layout layout = {
    .minor = 13,
    .frames = PYTHON_SHIMS,
    .shim_owner = 3,
    .runtime_key = offsetof(__typeof__(runtime), key_is_made),
    .runtime_finalizing = offsetof(__typeof__(runtime), finalizing),
    .thread_id = STATE_ID,
    .thread_frame = STATE_FRAME,
    .thread_active = STATE_ACTIVE,
    .frame_code = offsetof(struct frame, code),
    .frame_previous = offsetof(struct frame, previous),
    .frame_place = offsetof(struct frame, place),
    .frame_owner = offsetof(struct frame, owner),
    .code_instructions = sizeof(struct code) - 8,
    .code_first_traceable = offsetof(struct code, first_traceable),
    .code_bytes = sizeof(struct code),
};

static const uint64_t code_type[1];
static uintptr_t current; /* the thread's own variable */

static uintptr_t get_current(void)
{
    return current;
}

static uintptr_t get_specific = (uintptr_t)pthread_getspecific;
static const struct module no_module;
static struct interpreter python;
static struct interpreter_stack stack;
static size_t page_bytes;
static uint8_t *pages,
    *state; /* two pages; the state's part from STATE_ACTIVE on is in the second */

static int begin(void **unused)
{
    (void)unused;
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    state = pages + page_bytes - STATE_ACTIVE;
    uint64_t id = arch_thread_pointer();
    memcpy(state + STATE_ID, &id, sizeof(id));
    state[STATE_ACTIVE] = PYTHON_THREAD_ACTIVE;
    assert_int_equal(pthread_key_create(&runtime.key, NULL), 0);
    assert_int_equal(pthread_setspecific(runtime.key, state), 0);
    runtime.key_is_made = 1;
    runtime.finalizing = 0;
    python = (struct interpreter){.module = &no_module, .supported = true};
    python.places[PYTHON_RUNTIME] = (uintptr_t)&runtime;
    python.places[PYTHON_CODE_TYPE] = (uintptr_t)code_type;
    python.places[PYTHON_GET_SPECIFIC] = (uintptr_t)&get_specific;
    python.places[PYTHON_CURRENT] = (uintptr_t)get_current;
    current = (uintptr_t)state;
    memcpy(python.layout, &layout, sizeof(layout));
    memset(&stack, 0, sizeof(stack));
    copies = 0;
    return 0;
}

static int end(void **unused)
{
    (void)unused;
    assert_int_equal(pthread_key_delete(runtime.key), 0);
    munmap(pages, 2 * page_bytes);
    return 0;
}

static void a_thread_with_the_gil_is_read_directly(void **unused)
{
    (void)unused;
    /* The interpreter's end runs Python's code, too. */
    for (runtime.finalizing = 0; runtime.finalizing < 2; runtime.finalizing++) {
        stack.direct = false;
        python_read(&python, &stack);
        assert_true(stack.direct);
    }
}

static void a_state_that_another_thread_runs_with_is_copied(void **unused)
{
    (void)unused;
    current = 0;
    assert_int_equal(python_read(&python, &stack), INTERPRETER_READ);
    assert_false(stack.direct);
}

static void a_state_may_vanish_while_the_interpreter_ends(void **unused)
{
    (void)unused;
    assert_int_equal(python_read(&python, &stack), INTERPRETER_READ);
    runtime.finalizing = 1;
    munmap(pages + page_bytes, page_bytes);
    assert_int_equal(python_read(&python, &stack), INTERPRETER_READ);
    assert_false(stack.direct);
}

static void frames_that_lead_to_themselves_end(void **unused)
{
    (void)unused;
    static struct code code = {
        .head = {0, (uint64_t)(uintptr_t)code_type}, .size = 8, .first_traceable = 8};
    static struct frame frame = {.code = (uint64_t)(uintptr_t)&code, .previous = &frame};
    struct frame *innermost = &frame;
    frame.place = frame.code + layout.code_instructions;
    memcpy(state + STATE_FRAME, &innermost, sizeof(innermost));
    state[STATE_ACTIVE] = 0; /* it is copied */
    assert_int_equal(python_read(&python, &stack), INTERPRETER_UNCERTAIN);
    assert_true(copies > 100);
    assert_true(copies < 20000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thread_with_the_gil_is_read_directly, begin, end),
        cmocka_unit_test_setup_teardown(a_state_that_another_thread_runs_with_is_copied, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_state_may_vanish_while_the_interpreter_ends, begin, end),
        cmocka_unit_test_setup_teardown(frames_that_lead_to_themselves_end, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
