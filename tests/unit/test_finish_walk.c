/* SPDX-License-Identifier: Apache-2.0 */
/* Walks that the daemon finishes, from copies of this program's own stack. */
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/walk/finish_walk.h"
#include "recorder/walk/frame_step.h"
#include "uint_in_range.h"

#define STACK_WORDS 2048
#define THEIRS_MAX 256

static struct callsite_tree tree;
static struct walk_finisher *finisher;
static struct record_walk *walk; /* of this program, in the client's format */
static void *theirs[THEIRS_MAX];
static int theirs_count;

/* Find the build id in a program header's notes and return its length. */
static uint16_t build_id_of(const struct dl_phdr_info *info, const ElfW(Phdr) * notes, uint8_t *id)
{
    const char *at = (const char *)info->dlpi_addr + notes->p_vaddr;
    for (size_t used = 0; used + sizeof(ElfW(Nhdr)) < notes->p_memsz;) {
        const ElfW(Nhdr) *note = (const void *)(at + used);
        size_t name = (note->n_namesz + 3) & ~3u;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz <= RECORD_BUILD_ID_MAX) {
            memcpy(id, (const char *)(note + 1) + name, note->n_descsz);
            return (uint16_t)note->n_descsz;
        }
        used += sizeof(*note) + name + ((note->n_descsz + 3) & ~3u);
    }
    return 0;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    uint64_t words[(sizeof(struct record_module) + RECORD_BUILD_ID_MAX + 4096) / 8] = {0};
    struct record_module *module = (void *)words;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_NOTE && module->build_id_length == 0)
            module->build_id_length = build_id_of(info, header, module->bytes);
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
            continue;
        module->start = info->dlpi_addr + header->p_vaddr;
        module->end = module->start + header->p_memsz;
        module->file_offset = header->p_offset;
        module->load_bias = header->p_vaddr - header->p_offset;
    }
    char own[4096] = "";
    const char *path = info->dlpi_name;
    if (path[0] == 0 && readlink("/proc/self/exe", own, sizeof(own) - 1) > 0)
        path = own;
    module->path_length = (uint16_t)strlen(path);
    memcpy(module->bytes + module->build_id_length, path, module->path_length);
    if (module->end != 0 && path[0] == '/')
        assert_int_equal(0, callsite_tree_add_module(&tree, module));
    return 0;
}

/* Record the registers of this function's frame and the stack above it. */
static __attribute__((noinline)) void take_walk(void)
{
    uint64_t *registers = walk->words, sp;
#if defined(__x86_64__)
    __asm__ volatile("mov %%rbx, 24(%0)\n\tmov %%rbp, 48(%0)\n\tmov %%r12, 96(%0)\n\t"
                     "mov %%r13, 104(%0)\n\tmov %%r14, 112(%0)\n\tmov %%r15, 120(%0)\n\t"
                     "mov %%rsp, 56(%0)\n\tlea 0(%%rip), %%rax\n\tmov %%rax, 128(%0)"
                     :
                     : "r"(registers)
                     : "rax", "memory");
    walk->known = 1u << 3 | 1u << 6 | 1u << 7 | 0x1f000;
    walk->pc = registers[16];
#endif
    sp = registers[FRAME_STACK_POINTER];
    walk->register_count = FRAME_REGISTERS;
    walk->frame_count = 0;
    walk->flags = RECORD_WALK_INTERRUPTED | RECORD_WALK_CUT;
    walk->token = 1;
    walk->stack_address = sp;
    walk->stack_bytes = STACK_WORDS * 8;
    memcpy(registers + FRAME_REGISTERS, (const void *)sp, walk->stack_bytes);
    theirs_count = backtrace(theirs, THEIRS_MAX);
}

static __attribute__((noinline)) int take_walk_inside(int depth)
{
    volatile char room[3000]; /* so that the copy ends before the stack's end */
    room[0] = (char)depth;
    if (depth > 0)
        take_walk_inside(depth - 1);
    else
        take_walk();
    return room[0];
}

static int set_up(void **state)
{
    (void)state;
    finisher = walk_finisher_open(getpid());
    walk = calloc(1, sizeof(*walk) + (FRAME_REGISTERS + STACK_WORDS) * 8);
    if (finisher == NULL || walk == NULL || callsite_tree_init(&tree) < 0)
        return -1;
    dl_iterate_phdr(add_object, NULL);
    take_walk_inside(8);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    walk_finisher_close(finisher);
    callsite_tree_clear(&tree);
    free(walk);
    return 0;
}

static const struct record_stack *finish(enum ring_unwinding *answer)
{
    const struct record_stack *stack = walk_finish(finisher, &tree, walk, answer);
    assert_non_null(stack);
    assert_true(stack->count > 0 && stack->hash != 0);
    return stack;
}

static void test_walk_continues_to_the_end_of_the_copy(void **state)
{
    (void)state;
    enum ring_unwinding answer;
    const struct record_stack *stack = finish(&answer);
    assert_int_equal(RECORD_STACK_TRUNCATED, stack->flags);
    assert_uint_in_range(stack->count, 5, theirs_count - 1);
    for (uint32_t i = 1; i < stack->count; i++)
        assert_int_equal((uintptr_t)theirs[i] - FRAME_CALL_BYTES, stack->frames[i]);
    /* The file has no more unwind information than is loaded. */
    assert_int_equal(RING_UNWINDING_NONE, answer);
}

static void test_frames_that_were_walked_stay(void **state)
{
    (void)state;
    enum ring_unwinding answer;
    uint64_t *frames = walk->words + walk->register_count;
    memmove(frames + 2, frames, (STACK_WORDS - 2) * 8);
    frames[0] = 10;
    frames[1] = 11;
    walk->frame_count = 2;
    walk->stack_bytes -= 16;
    const struct record_stack *stack = finish(&answer);
    assert_int_equal(10, stack->frames[0]);
    assert_int_equal(11, stack->frames[1]);
    assert_int_equal(walk->pc, stack->frames[2]);
    assert_int_equal((uintptr_t)theirs[1] - FRAME_CALL_BYTES, stack->frames[3]);
}

static void test_the_same_stack_has_the_same_hash(void **state)
{
    (void)state;
    enum ring_unwinding answer;
    uint64_t first = finish(&answer)->hash;
    walk->token = 2;
    assert_int_equal(first, finish(&answer)->hash);
    walk->flags &= (uint16_t)~RECORD_WALK_CUT;
    assert_int_not_equal(first, finish(&answer)->hash);
}

/* If anything is missing, the walk ends and reports the reason. */
static void test_ends_where_something_is_missing(void **state)
{
    (void)state;
    enum ring_unwinding answer;
    walk->flags = RECORD_WALK_INTERRUPTED;
    assert_int_equal(4 /* unreadable */, finish(&answer)->error);
    walk->stack_bytes = 0;
    assert_int_equal(1, finish(&answer)->count);
    walk->known = 0;
    assert_int_equal(2 /* no rule */, finish(&answer)->error);
    walk->register_count = 0;
    assert_int_equal(2, finish(&answer)->error);
    walk->pc = UINT64_MAX;
    assert_int_equal(2, finish(&answer)->error);
}

static void test_frames_are_limited(void **state)
{
    (void)state;
    enum ring_unwinding answer;
    walk->register_count = 0;
    walk->known = 0;
    walk->frame_count = STACK_WORDS;
    walk->stack_bytes = 0;
    const struct record_stack *stack = finish(&answer);
    assert_int_equal(1024, stack->count);
    assert_int_equal(RECORD_STACK_TRUNCATED, stack->flags);
}

/* Return the answer for a module with this path at [0x1000, 0x2000). */
static enum ring_unwinding answer_for(const char *path)
{
    uint64_t words[sizeof(struct record_module) / 8 + 64] = {0};
    struct record_module *module = (void *)words;
    enum ring_unwinding answer = RING_UNWINDING_UNKNOWN;
    module->start = 0x1000;
    module->end = 0x2000;
    module->path_length = (uint16_t)strlen(path);
    memcpy(module->bytes, path, module->path_length);
    assert_int_equal(0, callsite_tree_add_module(&tree, module));
    walk->pc = 0x1800;
    finish(&answer);
    return answer;
}

static void test_only_files_of_the_module_are_read(void **state)
{
    (void)state;
    char directory[] = "/tmp/test-finish-walk-XXXXXX", pipe[64];
    assert_non_null(mkdtemp(directory));
    snprintf(pipe, sizeof(pipe), "%s/pipe", directory);
    assert_int_equal(0, mkfifo(pipe, 0600));
    assert_int_equal(RING_UNWINDING_NONE, answer_for(pipe)); /* an open would wait for a writer */
    unlink(pipe);
    rmdir(directory);
    assert_int_equal(RING_UNWINDING_NONE, answer_for("/dev/zero"));
    assert_int_equal(RING_UNWINDING_NONE, answer_for("/etc/passwd"));
    assert_int_equal(RING_UNWINDING_NONE, answer_for("relative"));
    assert_int_equal(RING_UNWINDING_NONE, answer_for("/proc/self/exe")); /* that file has a build
                                                                          * id */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_walk_continues_to_the_end_of_the_copy, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_frames_that_were_walked_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_same_stack_has_the_same_hash, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_where_something_is_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_frames_are_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_files_of_the_module_are_read, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
