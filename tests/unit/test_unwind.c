/* SPDX-License-Identifier: Apache-2.0 */
/* Walks from difficult places, each compared with libunwind's. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "client/arch/registers.h"
#include "client/libc/libc.h"
#include "client/modules/module.h"
#include "client/system.h"
#include "client/unwind/unwind.h"
#include "client/unwind/unwind_memory.h"

#define NOINLINE __attribute__((noinline))

static __thread struct unwind_stack_bounds bounds;
static __thread struct unwind_memory last_walk;
static uint64_t ours[UNWIND_FRAMES_MAX];
static struct unwind_walk last;
static unsigned theirs_count, common;
static volatile int sink;
static bool checks_limits;

/* Walk at most `max` frames, as far as `last` has walked. What is remembered, and places, must not
 * change the result; nor may they leave out a frame. */
static NOINLINE void assert_same_with(const struct unwind_registers *registers, unsigned max)
{
    static __thread struct unwind_memory other;
    static __thread uint64_t frames[UNWIND_FRAMES_MAX];
    static __thread uintptr_t places[UNWIND_FRAMES_MAX + 1];
    uint64_t hash = 0;
    unsigned expected = last.count < max ? last.count : max;
    memset(&other, 0, sizeof(other));
    for (int i = 0; i < 4; i++) {
        /* Twice with memory that was empty at first, then with that of other walks. */
        struct unwind_memory *memory = i < 2 ? &other : &last_walk;
        memset(frames, 0, sizeof(frames));
        struct unwind_walk walk = unwind_callstack(registers, &bounds, memory, frames,
                                                   i % 2 == 0 ? NULL : places, max, NULL);
        unwind_write_recalled(&walk, memory, frames);
        assert_int_equal(walk.count, expected);
        assert_memory_equal(frames, ours, expected * sizeof(*frames));
        assert_true(i == 0 || walk.hash == hash);
        assert_true(max < UNWIND_FRAMES_MAX || walk.hash == last.hash);
        assert_int_equal(walk.stop, last.count > max ? UNWIND_TRUNCATED : last.stop);
        hash = walk.hash;
        for (unsigned n = 0; i % 2 == 1 && n + 1 < expected && !walk.signalled; n++)
            assert_true(places[n] < places[n + 1]);
    }
}

/* The same with each small limit, and with some large ones. */
static NOINLINE void assert_limits_hold(const struct unwind_registers *registers)
{
    static const unsigned limits[] = {127, 128, 129, 130, 255, 256, 257, 258};
    for (unsigned max = 1; max < 20; max++)
        assert_same_with(registers, max);
    for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        assert_same_with(registers, limits[i]);
    for (unsigned max = last.count - 2; max < last.count + 2; max++)
        assert_same_with(registers, max);
}

/* Walk from here with both unwinders. Results are in last, theirs_count and common. */
static NOINLINE void walk_here(void)
{
    unw_context_t context;
    unw_cursor_t cursor;
    unw_getcontext(&context);
    const greg_t *from = context.uc_mcontext.gregs;
    struct unwind_registers registers = {
        .rbx = (uint64_t)from[REG_RBX],
        .rbp = (uint64_t)from[REG_RBP],
        .r12 = (uint64_t)from[REG_R12],
        .r13 = (uint64_t)from[REG_R13],
        .r14 = (uint64_t)from[REG_R14],
        .r15 = (uint64_t)from[REG_R15],
        .sp = (uint64_t)from[REG_RSP],
        .pc = (uint64_t)from[REG_RIP],
    };
    /* Two walks from the same place: the second recalls all frames. */
    for (int i = 0; i < 2; i++) {
        struct unwind_walk first = last;
        last =
            unwind_callstack(&registers, &bounds, &last_walk, ours, NULL, UNWIND_FRAMES_MAX, NULL);
        assert_true(i == 0 || (last.hash == first.hash && last.count == first.count));
    }
    unwind_write_recalled(&last, &last_walk, ours);
    assert_same_with(&registers, UNWIND_FRAMES_MAX);
    if (checks_limits)
        assert_limits_hold(&registers);

    bool same = true;
    theirs_count = common = 0;
    unw_init_local(&cursor, &context);
    do {
        unw_word_t pc;
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        /* Our address is inside the call instruction, or exact for frames of signals. */
        uint64_t frame = theirs_count < last.count ? ours[theirs_count] : 0;
        same = same && (frame == pc || frame == pc - 1);
        common += same;
        theirs_count++;
    } while (theirs_count < UNWIND_FRAMES_MAX && unw_step(&cursor) > 0);
}

static void assert_same_as_theirs(void)
{
    assert_int_equal(last.count, theirs_count);
    assert_int_equal(common, theirs_count);
    assert_true(last.hash != 0);
}

static NOINLINE int recurse(int depth)
{
    int below = 0;
    if (depth == 0)
        walk_here();
    else
        below = recurse(depth - 1);
    return below + sink;
}

static void ordinary_stack_is_walked_to_its_end(void **state)
{
    (void)state;
    /* The first walk finds the rules, and the second one takes them from the cache. */
    for (volatile int i = 0; i < 2; i++) {
        recurse(40);
        assert_same_as_theirs();
        assert_int_equal(last.stop, UNWIND_OUTERMOST);
        assert_true(last.uninterrupted);
    }
}

static void equal_stacks_have_equal_hashes(void **state)
{
    (void)state;
    uint64_t hashes[3];
    for (volatile int i = 0; i < 3; i++) {
        recurse(i < 2 ? 7 : 8);
        hashes[i] = last.hash;
    }
    assert_int_equal(hashes[0], hashes[1]);
    assert_int_not_equal(hashes[0], hashes[2]);
}

/* The rules' generation numbers wrap around, any number of times. */
static void earlier_generations_are_forgotten(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        /* The first walk of a generation finds the rules, and the second one takes them from the
         * cache. */
        for (volatile int walk = 0; walk < 2; walk++)
            recurse(7);
        assert_ptr_not_equal(unwind_memory_top(&last_walk, module_generation()),
                             unwind_memory_end(&last_walk));
        for (int j = 0; j <= i; j++)
            module_begin_generation();
        assert_ptr_equal(unwind_memory_top(&last_walk, module_generation()),
                             unwind_memory_end(&last_walk));
    }
    recurse(7);
    assert_same_as_theirs();
}

/* Two places with the same call: all deeper frames have the same state after both. Different stores
 * keep the compiler from merging the places. */
static NOINLINE int call_from(int place, int depth)
{
    int below = 0;
    if (place == 0) {
        sink = 1;
        below = recurse(depth);
        sink = 2;
    } else {
        sink = 3;
        below = recurse(depth);
        sink = 4;
    }
    return below;
}

static NOINLINE int outer(int outer_place, int inner_place, int depth)
{
    int below = 0;
    if (outer_place == 0) {
        sink = 1;
        below = call_from(inner_place, depth);
        sink = 2;
    } else {
        sink = 3;
        below = call_from(inner_place, depth);
        sink = 4;
    }
    return below;
}

/* The last walk's frames can still be on the stack. Frames that were called anew from elsewhere are
 * seen at every depth, also beyond the cached ones. */
static void changed_callers_are_seen(void **state)
{
    (void)state;
    uint64_t hashes[4] = {0};
    static const int depths[] = {0, 1, 20, 120, 127, 128, 129, 300};
    for (unsigned d = 0; d < sizeof(depths) / sizeof(depths[0]); d++) {
        for (volatile int round = 0; round < 48; round++) {
            int outer_place = round * 7 / 3 & 1, inner_place = round >> 1 & 1;
            outer(outer_place, inner_place, depths[d]);
            assert_same_as_theirs();
            uint64_t *hash = &hashes[outer_place * 2 + inner_place];
            if (round >= 24)
                assert_int_equal(last.hash, *hash);
            *hash = last.hash;
        }
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < i; j++)
                assert_int_not_equal(hashes[i], hashes[j]);
    }
}

static void full_walks_are_truncated(void **state)
{
    (void)state;
    static const int depths[] = {3, 120, 128, 250, 256, 300};
    checks_limits = true;
    for (unsigned d = 0; d < sizeof(depths) / sizeof(depths[0]); d++)
        recurse(depths[d]);
    checks_limits = false;
}

static void *deep_thread(void *argument)
{
    (void)argument;
    recurse(100000);
    return NULL;
}

static void run_thread(size_t stack_bytes, void *(*function)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
    assert_int_equal(pthread_create(&thread, &attributes, function, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

static void deep_recursion_is_truncated(void **state)
{
    (void)state;
    run_thread(64u << 20, deep_thread);
    assert_int_equal(last.count, UNWIND_FRAMES_MAX);
    assert_int_equal(last.stop, UNWIND_TRUNCATED);
    assert_int_equal(common, UNWIND_FRAMES_MAX);
}

static void *small_thread(void *argument)
{
    (void)argument;
    recurse(3);
    return NULL;
}

static void thread_is_walked_to_its_end(void **state)
{
    (void)state;
    run_thread(256u << 10, small_thread);
    assert_same_as_theirs();
    assert_int_equal(last.stop, UNWIND_OUTERMOST);
}

static void on_signal(int number)
{
    (void)number;
    recurse(2);
}

static void handle(int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
}

static void signal_frames_are_crossed(void **state)
{
    (void)state;
    for (volatile int i = 0; i < 2; i++) {
        handle(0);
        assert_same_as_theirs();
        assert_int_equal(last.stop, UNWIND_OUTERMOST);
        assert_false(last.uninterrupted);
    }
}

static void alternate_stack_leads_back_to_the_home_stack(void **state)
{
    (void)state;
    size_t bytes = 128u << 10;
    stack_t alternate = {.ss_size = bytes};
    alternate.ss_sp = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&alternate, NULL);
    handle(SA_ONSTACK);
    assert_same_as_theirs();
    assert_int_equal(last.stop, UNWIND_OUTERMOST);
    alternate.ss_flags = SS_DISABLE;
    sigaltstack(&alternate, NULL);
    munmap(alternate.ss_sp, bytes);
}

static ucontext_t fiber, home;

static void fiber_main(void)
{
    recurse(20);
    swapcontext(&fiber, &home);
}

static void fibers_are_walked_to_their_end(void **state)
{
    (void)state;
    size_t bytes = 128u << 10;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = memory;
    fiber.uc_stack.ss_size = bytes;
    fiber.uc_link = &home;
    makecontext(&fiber, fiber_main, 0);
    swapcontext(&home, &fiber);
    munmap(memory, bytes);
    assert_true(last.count >= 22);
    assert_true(common >= 22);
    assert_int_equal(last.stop, UNWIND_OUTERMOST);
}

/* A realigned frame of unknown size, whose unwinding needs more registers than usual. */
static NOINLINE void realigned(int size)
{
    volatile char aligned[64] __attribute__((aligned(64)));
    volatile char *dynamic = __builtin_alloca((size_t)size);
    aligned[0] = 1;
    dynamic[0] = aligned[0];
    recurse(1);
    sink += dynamic[0] - aligned[0];
}

static void realigned_and_dynamic_stacks_are_walked(void **state)
{
    (void)state;
    realigned(1000);
    assert_same_as_theirs();
    assert_int_equal(last.stop, UNWIND_OUTERMOST);
}

/* A frame whose CFA is relative to rbx, like that of glibc's lazy binder. */
void call_with_rbx_frame(void (*function)(void));
__asm__(".text\n"
        ".type call_with_rbx_frame, @function\n"
        "call_with_rbx_frame:\n"
        ".cfi_startproc\n"
        "push %rbx\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset rbx, -16\n"
        "mov %rsp, %rbx\n"
        ".cfi_def_cfa_register rbx\n"
        "and $-64, %rsp\n"
        "sub $256, %rsp\n"
        "call *%rdi\n"
        "mov %rbx, %rsp\n"
        ".cfi_def_cfa_register rsp\n"
        "pop %rbx\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_with_rbx_frame, .-call_with_rbx_frame\n");

/* Use rbx, so that it must be restored from this frame. */
static NOINLINE void spoil_rbx(void)
{
    __asm__ volatile("mov $-1, %%rbx" ::: "rbx", "r12", "r13");
    walk_here();
    __asm__ volatile("" ::: "rbx", "r12", "r13");
}

static void frames_with_other_cfa_registers_are_walked(void **state)
{
    (void)state;
    call_with_rbx_frame(spoil_rbx);
    assert_same_as_theirs();
    assert_int_equal(last.stop, UNWIND_OUTERMOST);
}

/* push rbp; mov rbp, rsp; call rdi; pop rbp; ret */
static const uint8_t generated[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};

static void generated_code_is_crossed_by_frame_pointer(void **state)
{
    (void)state;
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, generated, sizeof(generated));
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    union {
        void *data;
        void (*call)(void (*)(void));
    } entry = {.data = code};
    entry.call(walk_here);
    assert_int_equal(last.stop, UNWIND_OUTERMOST);
    assert_int_equal(ours[1], (uint64_t)(uintptr_t)code + 5);
    assert_int_equal(module_find(ours[2], true), module_find(ours[0], true));
    munmap(code, 4096);
}

static void garbage_ends_the_walk(void **state)
{
    (void)state;
    for (uint64_t sp = 8; sp != 0 && sp < UINT64_MAX / 8; sp *= 8) {
        struct unwind_registers registers = {
            .pc = (uint64_t)(uintptr_t)garbage_ends_the_walk + 20, .sp = sp, .rbp = sp + 64};
        struct unwind_stack_bounds none = {0};
        struct unwind_walk walk =
            unwind_callstack(&registers, &none, &last_walk, ours, NULL, UNWIND_FRAMES_MAX, NULL);
        assert_int_not_equal(walk.stop, UNWIND_OUTERMOST);
        assert_true(walk.count >= 1);
    }
}

static void modules_know_their_files(void **state)
{
    (void)state;
    char path[4096];
    const struct module *module = module_find((uintptr_t)walk_here, true);
    assert_non_null(module);
    assert_true(module_path(module, true, path, sizeof(path)) > 0);
    assert_non_null(strstr(path, "test_unwind"));
    assert_true(module->build_id_length > 0);
    assert_null(module_find((uintptr_t)&path, true));
    assert_int_equal(module_path(module, true, path, 3), -36 /* -ENAMETOOLONG */);
}

static void checking_for_unloaded_modules_changes_nothing(void **state)
{
    (void)state;
    uint32_t generation = module_generation();
    const struct module *module = module_find((uintptr_t)walk_here, true);
    unsigned compared = module_check_unloaded(false);
    assert_true(compared == 0 || !module_is_permanent(module));
    assert_int_equal(module_generation(), generation);
    assert_ptr_equal(module_find((uintptr_t)walk_here, true), module);
}

static void on_deep_fiber(void)
{
    recurse(200);
    swapcontext(&fiber, &home);
}

/* If the kernel may not copy, the part of a fiber's stack that cannot vanish is read. */
static void foreign_stacks_are_read_as_far_as_they_stay(void **state)
{
    size_t bytes = 128u << 10;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&fiber);
    fiber.uc_stack.ss_sp = memory;
    fiber.uc_stack.ss_size = bytes;
    fiber.uc_link = &home;
    makecontext(&fiber, on_deep_fiber, 0);
    system_avoid_copying();
    swapcontext(&home, &fiber);
    assert_int_equal(last.stop, UNWIND_UNREADABLE_STACK);
    assert_true(last.count >= 1 && last.count == common && last.count < theirs_count);
    alternate_stack_leads_back_to_the_home_stack(state);
    generated_code_is_crossed_by_frame_pointer(state);
    system_permit_copying();
    munmap(memory, bytes);
}

/* If the kernel may not copy, a library that the program may unload is only read where a frame
 * returns into it. */
static void libraries_that_may_vanish_are_not_read(void **state)
{
    (void)state;
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library == NULL)
        skip();
    struct link_map *map;
    assert_int_equal(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    uintptr_t pc = 0;
    for (uintptr_t at = map->l_addr; pc == 0 && at < map->l_addr + (1u << 20); at += 4096)
        pc = module_find(at, false) != NULL ? at : 0;
    assert_int_not_equal(pc, 0);
    dlclose(library);
    module_check_unloaded(true);
    library = dlopen("libm.so.6", RTLD_NOW);

    system_avoid_copying();
    assert_null(module_find(pc, false));
    assert_true(module_is_unread(pc));
    assert_non_null(module_find((uintptr_t)walk_here, false)); /* never unloaded */
    const struct module *module = module_find(pc, true);
    assert_non_null(module);
    assert_false(module_is_permanent(module));
    uint32_t generation = module_generation();
    module_check_unloaded(false);
    assert_int_equal(module_generation(), generation);
    module_check_unloaded(true); /* it may be another one */
    assert_int_equal(module_generation(), generation + 1);
    assert_ptr_equal(module_find(pc, true), module);
    system_permit_copying();
    dlclose(library);
    module_check_unloaded(true);
}

static int set_up(void **state)
{
    (void)state;
    return unwind_init(&(struct unwind_process){.stack_end = libc_stack_end()});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_stack_is_walked_to_its_end),
        cmocka_unit_test(equal_stacks_have_equal_hashes),
        cmocka_unit_test(earlier_generations_are_forgotten),
        cmocka_unit_test(changed_callers_are_seen),
        cmocka_unit_test(full_walks_are_truncated),
        cmocka_unit_test(deep_recursion_is_truncated),
        cmocka_unit_test(thread_is_walked_to_its_end),
        cmocka_unit_test(signal_frames_are_crossed),
        cmocka_unit_test(alternate_stack_leads_back_to_the_home_stack),
        cmocka_unit_test(fibers_are_walked_to_their_end),
        cmocka_unit_test(realigned_and_dynamic_stacks_are_walked),
        cmocka_unit_test(frames_with_other_cfa_registers_are_walked),
        cmocka_unit_test(foreign_stacks_are_read_as_far_as_they_stay),
        cmocka_unit_test(libraries_that_may_vanish_are_not_read),
        cmocka_unit_test(generated_code_is_crossed_by_frame_pointer),
        cmocka_unit_test(garbage_ends_the_walk),
        cmocka_unit_test(modules_know_their_files),
        cmocka_unit_test(checking_for_unloaded_modules_changes_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
