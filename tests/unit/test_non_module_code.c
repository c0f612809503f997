/* SPDX-License-Identifier: Apache-2.0 */
/* Code outside modules, in this very process: its kind is found, and stays the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recorder/reader/file_reader.h"
#include "recorder/reader/target_file.h"
#include "recorder/walk/non_module_code.h"
#include "uint_in_range.h"

#define PAGE 4096u

static unsigned requests; /* to the file reader */
static unsigned answers_after_us;

int __real_file_reader_segment(const struct reader_file *file, uint64_t offset,
                               struct reader_segment *segment);
int __wrap_file_reader_segment(const struct reader_file *file, uint64_t offset,
                               struct reader_segment *segment);

int __wrap_file_reader_segment(const struct reader_file *file, uint64_t offset,
                               struct reader_segment *segment)
{
    requests++;
    usleep(answers_after_us);
    return __real_file_reader_segment(file, offset, segment);
}

static uint64_t map_code(int fd, off_t offset)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
    void *code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, flags, fd, offset);
    assert_ptr_not_equal(code, MAP_FAILED);
    return (uintptr_t)code;
}

static void add_stack(struct callsite_tree *tree, uint64_t pc)
{
    uint64_t bytes[sizeof(struct record_stack) / 8 + 1] = {0};
    struct record_stack *stack = (struct record_stack *)(void *)bytes;
    stack->hash = pc;
    stack->count = 1;
    stack->frames[0] = pc;
    assert_int_equal(callsite_tree_add_stack(tree, stack), 0);
}

static enum non_module_kind kind_of(const struct non_module_code *code, uint64_t pc)
{
    const struct callsite_module *module;
    return non_module_code_find(code, pc, &module);
}

static void generated_code_is_distinguished_from_files(void **state)
{
    (void)state;
    struct callsite_tree tree;
    struct non_module_code *code = non_module_code_open(getpid());
    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    uint64_t generated = map_code(-1, 0), file = map_code(self, 0), nothing = 0x1000;
    close(self);
    assert_int_equal(callsite_tree_init(&tree), 0);
    add_stack(&tree, generated + 5);
    add_stack(&tree, file + 7);
    add_stack(&tree, nothing);
    non_module_code_classify(code, &tree, 1000, false);
    assert_int_equal(kind_of(code, generated + 5), NON_MODULE_GENERATED);
    assert_int_equal(kind_of(code, nothing), NON_MODULE_UNKNOWN);
    assert_int_equal(kind_of(code, generated + 6), NON_MODULE_UNKNOWN); /* not looked up before */
    const struct callsite_module *module;
    assert_int_equal(non_module_code_find(code, file + 7, &module), NON_MODULE_FILE);
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[length] = 0;
    assert_string_equal(module->path, path);
    assert_int_equal(module->start, file);
    assert_true(module->build_id_length > 0);
    munmap((void *)(uintptr_t)generated, PAGE);
    munmap((void *)(uintptr_t)file, PAGE);
    callsite_tree_clear(&tree);
    non_module_code_close(code);
}

/* Otherwise one stack would become two in the dumps of one heap, and its figures would count
 * twice. */
static void unknown_code_of_a_dump_stays_unknown(void **state)
{
    (void)state;
    struct callsite_tree tree;
    struct non_module_code *code = non_module_code_open(getpid());
    uint64_t generated = map_code(-1, 0);
    munmap((void *)(uintptr_t)generated, PAGE);
    assert_int_equal(callsite_tree_init(&tree), 0);
    add_stack(&tree, generated + 5);
    non_module_code_settle(code, &tree, false);
    assert_ptr_equal(mmap((void *)(uintptr_t)generated, PAGE, PROT_READ | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     (void *)(uintptr_t)generated);
    add_stack(&tree, generated + 6);
    char path[64];
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "we");
    assert_non_null(map);
    fprintf(map, "%lx 100 made\n", (unsigned long)generated);
    fclose(map);
    non_module_code_classify(code, &tree, 100000, false);
    non_module_code_name(code, &tree, NON_MODULE_RUNS, NULL, NULL);
    unlink(path);
    assert_int_equal(kind_of(code, generated + 5), NON_MODULE_UNKNOWN);
    assert_int_equal(kind_of(code, generated + 6), NON_MODULE_GENERATED);
    munmap((void *)(uintptr_t)generated, PAGE);
    callsite_tree_clear(&tree);
    non_module_code_close(code);
}

/* A compiler may put its code into a file. Asking about each address would take a long time, in
 * which no ring is read. */
static void a_file_that_is_no_program_is_read_once(void **state)
{
    (void)state;
    struct callsite_tree tree;
    struct non_module_code *code = non_module_code_open(getpid());
    char path[] = "/tmp/test-code-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
    uint64_t first = map_code(fd, 0), second = map_code(fd, PAGE);
    close(fd);
    assert_int_equal(callsite_tree_init(&tree), 0);
    requests = 0;
    for (unsigned i = 0; i < 1000; i++) {
        add_stack(&tree, first + i);
        add_stack(&tree, second + i);
    }
    non_module_code_classify(code, &tree, 1000, false);
    assert_int_equal(kind_of(code, first), NON_MODULE_GENERATED);
    assert_int_equal(kind_of(code, second + 999), NON_MODULE_GENERATED);
    assert_uint_in_range(requests, 2, 2 * TARGET_FILE_WAYS);
    unsigned before = requests;
    add_stack(&tree, first + 1000);
    non_module_code_classify(code, &tree, 100000, false);
    assert_int_equal(kind_of(code, first + 1000), NON_MODULE_GENERATED);
    assert_int_equal(requests, before);
    unlink(path);
    munmap((void *)(uintptr_t)first, PAGE);
    munmap((void *)(uintptr_t)second, PAGE);
    callsite_tree_clear(&tree);
    non_module_code_close(code);
}

/* A hostile program may map many files that take long to read. */
static void files_that_take_long_are_left_out(void **state)
{
    (void)state;
    struct callsite_tree tree;
    struct non_module_code *code = non_module_code_open(getpid());
    char path[] = "/tmp/test-code-XXXXXX";
    int fd = mkstemp(path);
    uint64_t mapped[20];
    assert_true(fd >= 0);
    assert_int_equal(callsite_tree_init(&tree), 0);
    assert_int_equal(ftruncate(fd, 20 * PAGE), 0);
    for (unsigned i = 0; i < 20; i++) {
        mapped[i] = map_code(fd, i * PAGE);
        add_stack(&tree, mapped[i] + 5);
    }
    close(fd);
    requests = 0;
    answers_after_us = 300000;
    non_module_code_classify(code, &tree, 1000, false);
    answers_after_us = 0;
    /* The first second, a tenth of the time since, and the last one's answers. */
    assert_uint_in_range(requests, 1, 8);
    unsigned unknown = 0;
    for (unsigned i = 0; i < 20; i++)
        unknown += kind_of(code, mapped[i] + 5) == NON_MODULE_UNKNOWN;
    assert_uint_in_range(unknown, 12, 19);
    non_module_code_name(code, &tree, NON_MODULE_RUNS, NULL, NULL);
    char remark[NON_MODULE_REMARK_BYTES];
    non_module_code_remark(code, remark);
    assert_non_null(strstr(remark, "could not be read in time"));
    unlink(path);
    for (unsigned i = 0; i < 20; i++)
        munmap((void *)(uintptr_t)mapped[i], PAGE);
    callsite_tree_clear(&tree);
    non_module_code_close(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_take_long_are_left_out),
        cmocka_unit_test(generated_code_is_distinguished_from_files),
        cmocka_unit_test(a_file_that_is_no_program_is_read_once),
        cmocka_unit_test(unknown_code_of_a_dump_stays_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
