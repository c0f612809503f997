/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol tables in another process's memory: what is found, and that every search ends. A file
 * represents the memory; its offsets are the addresses. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/attach/remote_objects.h"

#define HASH 0x2000
#define STRINGS 0x3000
#define SYMBOLS 0x10000
#define SYMBOL_COUNT (1u << 20)

static struct tracee tracee = {.memory_fd = -1};
static struct remote_object object = {
    .base = 0x400000, .symbols = SYMBOLS, .strings = STRINGS, .hash = HASH};

static int make_memory(void **state)
{
    static const char strings[] = "\0malloc\0free";
    const uint32_t hash[] = {1, SYMBOL_COUNT};
    const Elf64_Sym symbols[] = {
        {0},
        {.st_name = 1, .st_info = 0x12, .st_shndx = 5, .st_value = 0x1000, .st_size = 48},
        {.st_name = 8, .st_info = 0x12, .st_shndx = SHN_UNDEF, .st_value = 0x2000},
    };
    (void)state;
    tracee.memory_fd = memfd_create("memory", MFD_CLOEXEC);
    bool good = tracee.memory_fd >= 0 &&
                ftruncate(tracee.memory_fd, SYMBOLS + SYMBOL_COUNT * sizeof(Elf64_Sym)) == 0 &&
                pwrite(tracee.memory_fd, strings, sizeof(strings), STRINGS) > 0 &&
                pwrite(tracee.memory_fd, hash, sizeof(hash), HASH) > 0 &&
                pwrite(tracee.memory_fd, symbols, sizeof(symbols), SYMBOLS) > 0;
    return good ? 0 : -1;
}

static void test_defined_functions_are_found(void **state)
{
    struct remote_memory memory = {&tracee, REMOTE_READS_MAX};
    struct remote_symbol symbol;
    (void)state;
    assert_true(remote_symbol_find(&memory, &object, "malloc", &symbol));
    assert_int_equal(symbol.address, 0x401000);
    assert_int_equal(symbol.size, 48);
}

/* A hostile process can have tables of any length and with many names. */
static void test_every_search_ends(void **state)
{
    enum { READS = 1000 };
    struct remote_memory memory = {&tracee, READS};
    struct remote_symbol symbol;
    (void)state;
    assert_false(remote_symbol_find(&memory, &object, "free", &symbol));
    assert_int_equal(memory.reads_left, 0);
    assert_false(remote_symbol_find(&memory, &object, "malloc", &symbol));
}

static void test_links_are_listed_while_the_loader_rests(void **state)
{
    enum { LOADER = 0x4000, LINKS = 0x5000, READS = 100000 };
    struct remote_memory memory = {&tracee, READS};
    struct r_debug list = {.r_map = (void *)LINKS, .r_state = RT_ADD};
    struct link_map maps[] = {
        {.l_addr = 0x1000, .l_ld = (void *)0x1100, .l_next = (void *)(LINKS + sizeof(maps[0]))},
        {.l_addr = 0x2000, .l_ld = (void *)0x2200},
    };
    struct remote_link *links;
    size_t count;
    (void)state;
    assert_true(pwrite(tracee.memory_fd, &list, sizeof(list), LOADER) > 0);
    assert_true(pwrite(tracee.memory_fd, maps, sizeof(maps), LINKS) > 0);
    assert_int_equal(-EAGAIN, remote_links(LOADER, &memory, &links, &count));
    assert_int_equal(0, count);
    assert_null(links);
    assert_int_equal(0, remote_links_now(LOADER, &memory, &links, &count));
    assert_int_equal(2, count);
    free(links);
    list.r_state = RT_CONSISTENT;
    assert_true(pwrite(tracee.memory_fd, &list, sizeof(list), LOADER) > 0);
    assert_int_equal(0, remote_links(LOADER, &memory, &links, &count));
    assert_int_equal(2, count);
    assert_int_equal(0x2000, links[1].base);
    assert_int_equal(0x2200, links[1].dynamic);
    free(links);
    /* A list without an end. */
    maps[1].l_next = (void *)LINKS;
    assert_true(pwrite(tracee.memory_fd, maps, sizeof(maps), LINKS) > 0);
    assert_int_equal(0, remote_links(LOADER, &memory, &links, &count));
    assert_true(count < READS);
    free(links);
    assert_int_equal(0, remote_links(0, &memory, &links, &count));
    assert_int_equal(0, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defined_functions_are_found),
        cmocka_unit_test(test_links_are_listed_while_the_loader_rests),
        cmocka_unit_test(test_every_search_ends),
    };
    return cmocka_run_group_tests(tests, make_memory, NULL);
}
