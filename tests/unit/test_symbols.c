/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of real binaries against nm's, build ids, and files that are not ELF. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "profile/symbols/symbols.h"

static const uint8_t no_build_id[1];

__attribute__((noinline)) static int a_local_function(int value)
{
    return value * 3 + 1;
}

static const char *name_of(struct symbol_file *file, uint64_t address)
{
    const char *name;
    assert_int_equal(symbol_file_names(file, &address, 1, &name), 0);
    return name;
}

/* Compare with nm's functions that have a size and an unshared address. nm also calls a weak
 * variable of the sanitizers a function. */
static void assert_agrees_with_nm(const char *path, const char *table)
{
    if (access(path, R_OK) != 0)
        skip();
    struct error error = {0};
    struct symbol_file *file = symbol_file_open(path, no_build_id, 0, &error);
    if (file == NULL)
        fail_msg("%s", error.message);

    char command[512];
    snprintf(command, sizeof(command),
             "nm %s -S -n --defined-only '%s' | sed 's/@.*//' |"
             " awk 'NF == 4 && $3 ~ /[tTWi]/ && $4 !~ /^__sancov_/ { n[$1]++; line[$1] = $0 }"
             " END { for (a in n) if (n[a] == 1) print line[a] }'",
             table, path);
    FILE *lines = popen(command, "r");
    assert_non_null(lines);
    unsigned long long address, size;
    char type, name[256];
    size_t checked = 0;
    while (fscanf(lines, "%llx %llx %c %255s", &address, &size, &type, name) == 4) {
        const char *first = name_of(file, address);
        if (first == NULL || strcmp(first, name) != 0)
            fail_msg("%s: %llx is %s, not %s", path, address, name, first ? first : "nothing");
        const char *middle = name_of(file, address + size / 2);
        assert_non_null(middle);
        checked++;
    }
    pclose(lines);
    assert_true(checked > 10);
    symbol_file_close(file);
}

static void own_symtab_agrees_with_nm(void **state)
{
    (void)state;
    char path[4096] = "";
    assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
    assert_agrees_with_nm(path, "");
}

static void dynsym_of_a_stripped_program_agrees_with_nm(void **state)
{
    (void)state;
    assert_agrees_with_nm("/usr/bin/redis-server", "-D");
}

static void dynsym_of_a_library_agrees_with_nm(void **state)
{
    (void)state;
    assert_agrees_with_nm("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "-D");
}

static const char *lookup_in_libc(const char *wanted)
{
    static struct symbol_file *file;
    if (file == NULL)
        file = symbol_file_open("/lib/x86_64-linux-gnu/libc.so.6", no_build_id, 0, NULL);
    if (file == NULL)
        skip();
    char command[128];
    snprintf(command, sizeof(command),
             "nm -D --defined-only /lib/x86_64-linux-gnu/libc.so.6 | sed 's/@.*//' |"
             " awk '$3 == \"%s\" { print $1; exit }'",
             wanted);
    FILE *line = popen(command, "r");
    unsigned long long address = 0;
    if (fscanf(line, "%llx", &address) != 1)
        address = 0;
    pclose(line);
    return name_of(file, address);
}

static void the_public_alias_is_chosen(void **state)
{
    (void)state;
    assert_string_equal(lookup_in_libc("malloc"), "malloc");
    assert_string_equal(lookup_in_libc("__libc_malloc"), "malloc");
    assert_string_equal(lookup_in_libc("qsort"), "qsort");
}

static void the_running_program_is_read_by_descriptor(void **state)
{
    (void)state;
    FILE *self = fopen("/proc/self/exe", "rb");
    assert_non_null(self);
    struct symbol_file *file = symbol_file_open_fds(fileno(self), -1, no_build_id, 0, NULL);
    assert_non_null(file);
    assert_int_equal(fclose(self), 0);

    extern const char __executable_start[];
    uintptr_t address = (uintptr_t)a_local_function - (uintptr_t)__executable_start;
    assert_int_equal(a_local_function(2), 7);
    const char *name = name_of(file, address);
    assert_non_null(name);
    assert_memory_equal(name, "a_local_function", strlen("a_local_function"));
    symbol_file_close(file);
}

static void a_stripped_program_is_read_through_its_gnu_debugdata(void **state)
{
    (void)state;
    char directory[] = "/tmp/test_symbols-XXXXXX";
    assert_non_null(mkdtemp(directory));
    char self[4096] = "", command[3 * 4096];
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    snprintf(command, sizeof(command),
             "cd %s && objcopy --only-keep-debug '%s' mini && xz mini && "
             "objcopy -S --add-section .gnu_debugdata=mini.xz '%s' program",
             directory, self, self);
    int made = system(command);
    char path[64];
    snprintf(path, sizeof(path), "%s/program", directory);
    struct symbol_file *file = made == 0 ? symbol_file_open(path, no_build_id, 0, NULL) : NULL;
    snprintf(command, sizeof(command), "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    if (made != 0)
        skip();
    assert_non_null(file);
    extern const char __executable_start[];
    const char *name = name_of(file, (uintptr_t)a_local_function - (uintptr_t)__executable_start);
    assert_non_null(name);
    assert_memory_equal(name, "a_local_function", strlen("a_local_function"));
    symbol_file_close(file);
}

/* Symbols that nest, have no size, or share a start, in any section of the program. */
asm(".text\n"
    ".type outer_of_the_test, %function\n"
    "outer_of_the_test: .skip 16\n"
    ".type inner_of_the_test, %function\n"
    ".type __inner_of_the_test, %function\n"
    "__inner_of_the_test:\n"
    "inner_of_the_test: .skip 4\n"
    ".size inner_of_the_test, 4\n"
    ".size __inner_of_the_test, 20\n"
    "label_of_the_test: .skip 12\n"
    ".size outer_of_the_test, 32\n"
    "open_end_of_the_test: .skip 16\n"
    "next_of_the_test: .skip 16\n"
    ".globl outer_of_the_test\n");
extern const char outer_of_the_test[];

static void overlapping_symbols_have_one_name_at_each_address(void **state)
{
    (void)state;
    extern const char __executable_start[];
    struct symbol_file *file = symbol_file_open("/proc/self/exe", no_build_id, 0, NULL);
    assert_non_null(file);
    uint64_t start = (uint64_t)(outer_of_the_test - __executable_start), addresses[64];
    const char *names[64];
    for (size_t i = 0; i < 64; i++)
        addresses[i] = start + i;
    assert_int_equal(symbol_file_names(file, addresses, 64, names), 0);
    for (size_t i = 0; i < 64; i++) {
        const char *expected = i < 16 || (i >= 20 && i < 32) ? "outer_of_the_test"
                               : i < 20                      ? "inner_of_the_test"
                               : i < 48                      ? "open_end_of_the_test"
                                                             : "next_of_the_test";
        assert_string_equal(names[i], expected);
        /* Whatever else is asked. */
        assert_string_equal(name_of(file, addresses[i]), expected);
    }
    symbol_file_close(file);
}

extern const char __executable_start[]; /* of the linker */

static void names_do_not_depend_on_other_addresses(void **state)
{
    enum { COUNT = 1000, NEARBY = 1 << 16 };
    uint64_t here =
        (uintptr_t)names_do_not_depend_on_other_addresses - (uintptr_t)__executable_start;
    (void)state;
    static uint64_t addresses[COUNT];
    static const char *names[COUNT];
    struct symbol_file *file = symbol_file_open("/proc/self/exe", no_build_id, 0, NULL);
    assert_non_null(file);
    srand(3);
    for (size_t i = 0; i < COUNT; i++)
        addresses[i] = here - NEARBY / 2 + (uint64_t)rand() % NEARBY;
    assert_int_equal(symbol_file_names(file, addresses, COUNT, names), 0);
    size_t named = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const char *name = name_of(file, addresses[i]);
        assert_int_equal(name == NULL, names[i] == NULL);
        if (name != NULL)
            assert_string_equal(name, names[i]);
        named += name != NULL;
    }
    assert_true(named > COUNT / 100);
    symbol_file_close(file);
}

static void addresses_outside_have_no_name(void **state)
{
    (void)state;
    struct symbol_file *file = symbol_file_open("/proc/self/exe", no_build_id, 0, NULL);
    assert_non_null(file);
    assert_null(name_of(file, 0));
    assert_null(name_of(file, UINT64_MAX));
    symbol_file_close(file);
}

static void another_build_id_is_refused(void **state)
{
    (void)state;
    const uint8_t wrong[20] = {1, 2, 3};
    struct error error = {0};
    assert_null(symbol_file_open("/lib/x86_64-linux-gnu/libc.so.6", wrong, sizeof(wrong), &error));
    assert_int_equal(error.code, -ESTALE);
}

static void files_other_than_programs_are_refused(void **state)
{
    (void)state;
    struct error error = {0};
    assert_null(symbol_file_open("/etc/passwd", no_build_id, 0, &error));
    assert_int_equal(error.code, -ENOEXEC);
    assert_null(symbol_file_open("/nowhere/at/all", no_build_id, 0, &error));
    assert_int_equal(error.code, -ENOENT);
    assert_null(symbol_file_open("/dev/null", no_build_id, 0, &error));
    assert_int_equal(error.code, -EINVAL);
    assert_null(symbol_file_open("/usr/bin", no_build_id, 0, &error));
    assert_true(error.code < 0);
}

/* Random changes in the bytes of a real program: any answer is accepted, but there must be one. */
static void a_damaged_file_does_no_harm(void **state)
{
    (void)state;
    FILE *source = fopen("/proc/self/exe", "rb");
    assert_non_null(source);
    static unsigned char good[4 << 20], bad[4 << 20];
    static uint64_t addresses[sizeof(good) / 997 + 1];
    static const char *names[sizeof(good) / 997 + 1];
    size_t size = fread(good, 1, sizeof(good), source);
    fclose(source);
    char path[] = "/tmp/test_symbols-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    srand(7);
    for (int round = 0; round < 200; round++) {
        memcpy(bad, good, size);
        for (int change = 0; change < 200; change++) {
            /* The headers at both ends of the file control the reader. */
            size_t span = change % 3 == 0 ? size : 4096;
            size_t at = change % 3 == 1 ? (size_t)rand() % span : size - 1 - (size_t)rand() % span;
            bad[at] = (unsigned char)rand();
        }
        memcpy(bad, good, 20);
        size_t cut = round % 10 == 0 ? (size_t)rand() % size : size;
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, bad, cut, 0), (ssize_t)cut);
        struct symbol_file *file = symbol_file_open_fds(fd, -1, no_build_id, 0, NULL);
        if (file == NULL)
            continue;
        size_t count = 0;
        for (uint64_t address = 0; address < size; address += 997)
            addresses[count++] = address;
        assert_int_equal(symbol_file_names(file, addresses, count, names), 0);
        symbol_file_close(file);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_symtab_agrees_with_nm),
        cmocka_unit_test(dynsym_of_a_stripped_program_agrees_with_nm),
        cmocka_unit_test(dynsym_of_a_library_agrees_with_nm),
        cmocka_unit_test(the_public_alias_is_chosen),
        cmocka_unit_test(the_running_program_is_read_by_descriptor),
        cmocka_unit_test(a_stripped_program_is_read_through_its_gnu_debugdata),
        cmocka_unit_test(overlapping_symbols_have_one_name_at_each_address),
        cmocka_unit_test(names_do_not_depend_on_other_addresses),
        cmocka_unit_test(addresses_outside_have_no_name),
        cmocka_unit_test(another_build_id_is_refused),
        cmocka_unit_test(files_other_than_programs_are_refused),
        cmocka_unit_test(a_damaged_file_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
