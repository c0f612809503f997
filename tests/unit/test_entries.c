/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of functions come and go: their trampolines, the sites that are listed, and the annex. A
 * file represents the process's memory; its offsets are the addresses. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/attach/entries.h"
#include "recorder/attach/installed_client.h"

#define IMAGE UINT64_C(0x10000000)
#define ROOM (IMAGE + 0x10000)
#define HOOK (IMAGE + 0x1000)
#define PARAMS (IMAGE + 0x20000)
#define NEAR_FUNCTION UINT64_C(0x20000000)
#define FAR_FUNCTION UINT64_C(0x700000000000)
#define ANNEX (FAR_FUNCTION + 0x1000000)

/* push %rbp; mov %rsp,%rbp; sub $16,%rsp; leave; ret */
static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc9, 0xc3};

static struct tracee tracee = {.memory_fd = -1};
static struct entries entries;
static const char *why;

static void put_code(uint64_t address)
{
    assert_int_equal(sizeof(code), pwrite(tracee.memory_fd, code, sizeof(code), (off_t)address));
}

static int begin(void **state)
{
    (void)state;
    tracee.memory_fd = memfd_create("memory", MFD_CLOEXEC);
    entries = (struct entries){.image = IMAGE, .image_end = IMAGE + 0x100000, .room = ROOM};
    for (uint64_t i = 0; tracee.memory_fd >= 0 && i < 3; i++)
        put_code(NEAR_FUNCTION + i * 64);
    put_code(FAR_FUNCTION);
    return tracee.memory_fd >= 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    return close(tracee.memory_fd);
}

static uint64_t add(uint64_t address, uint32_t number)
{
    const struct entry_function function = {
        .address = address, .size = sizeof(code), .hook = HOOK, .number = number};
    return entries_add(&entries, &tracee, &function, &why);
}

static void test_no_function_is_patched_twice(void **state)
{
    (void)state;
    assert_int_equal(ROOM, add(NEAR_FUNCTION, 1));
    assert_int_equal(0, add(NEAR_FUNCTION, 2));
    assert_string_equal("its first instructions are patched already", why);
    assert_int_equal(1, entries_due(&entries));
}

/* An attacher may be killed while it writes the list over an earlier one. */
static void test_removed_entries_make_room(void **state)
{
    static struct attached_params params;
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(ROOM + i * TRAMPOLINE_BYTES, add(NEAR_FUNCTION + i * 64, 10 * i));
    entries_remove(&entries, 10, 20);
    entries_list(&entries, &params);
    assert_int_equal(3, params.site_count);
    assert_int_equal(NEAR_FUNCTION, params.sites[0].address);
    assert_int_equal(0, params.sites[1].length);
    assert_int_equal(NEAR_FUNCTION + 128, params.sites[2].address);
    assert_int_equal(ROOM + TRAMPOLINE_BYTES, add(NEAR_FUNCTION + 64, 15));
    entries_list(&entries, &params);
    assert_int_equal(3, params.site_count);
    assert_int_equal(NEAR_FUNCTION + 64, params.sites[1].address);
}

static void assert_code(uint64_t address)
{
    uint8_t bytes[sizeof(code)];
    assert_int_equal(sizeof(bytes), pread(tracee.memory_fd, bytes, sizeof(bytes), (off_t)address));
    assert_memory_equal(code, bytes, sizeof(bytes));
}

static void test_free_sites_are_not_restored(void **state)
{
    static struct installed_client client;
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        add(NEAR_FUNCTION + i * 64, i);
    assert_int_equal(0, entries_patch(&entries, &tracee));
    entries_settle(&entries);
    /* Its library was closed, and the address is another's. */
    entries_remove(&entries, 1, 2);
    put_code(NEAR_FUNCTION + 64);
    entries_list(&entries, &client.params);
    assert_int_equal(0, installed_client_restore(&client, &tracee));
    for (uint64_t i = 0; i < 3; i++)
        assert_code(NEAR_FUNCTION + i * 64);
}

/* List the entries, and patch those that are due. */
static int enter_later(struct attached_params *params)
{
    params->families.families[0].heap++;
    entries_list(&entries, params);
    return entries_enter_later(&entries, &tracee, PARAMS, params);
}

static void test_entries_that_cannot_be_patched_are_not_listed(void **state)
{
    static struct attached_params params, seen;
    struct rlimit whole, limit;
    (void)state;
    assert_int_equal(0, ftruncate(tracee.memory_fd, FAR_FUNCTION + 4096));
    add(NEAR_FUNCTION, 1);
    assert_int_equal(0, enter_later(&params));
    entries_settle(&entries);
    assert_true(entries_any_present(&entries, &tracee, 1, 2));
    add(NEAR_FUNCTION + 64, 2);
    entries.annex = ANNEX;
    add(FAR_FUNCTION, 3);
    entries.trampolines[2].site.trampoline = ROOM + 2 * TRAMPOLINE_BYTES;
    /* The last entry cannot be written. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &whole);
    limit = (struct rlimit){FAR_FUNCTION, whole.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &limit));
    assert_true(enter_later(&params) < 0);
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &whole));
    assert_true(entries_any_present(&entries, &tracee, 1, 2));
    assert_code(NEAR_FUNCTION + 64);
    assert_code(FAR_FUNCTION);
    assert_int_equal(0, tracee_read(&tracee, PARAMS, &seen, sizeof(seen)));
    assert_int_equal(1, seen.families.families[0].heap);
    assert_int_equal(1, seen.site_count);
    assert_int_equal(NEAR_FUNCTION, seen.sites[0].address);
    assert_int_equal(0, seen.sites[1].length);
    assert_int_equal(0, enter_later(&params));
    assert_true(entries_any_present(&entries, &tracee, 3, 4));
    assert_int_equal(0, tracee_read(&tracee, PARAMS, &seen, sizeof(seen)));
    assert_int_equal(3, seen.site_count);
}

static void test_only_new_entries_are_written(void **state)
{
    (void)state;
    add(NEAR_FUNCTION, 1);
    assert_false(entries_any_present(&entries, &tracee, 1, 2));
    assert_int_equal(0, entries_patch(&entries, &tracee));
    entries_settle(&entries);
    assert_int_equal(0, entries_due(&entries));
    assert_true(entries_any_present(&entries, &tracee, 1, 2));
    assert_false(entries_any_present(&entries, &tracee, 2, 3));
    /* The library was closed, and is there again. */
    put_code(NEAR_FUNCTION);
    assert_false(entries_any_present(&entries, &tracee, 1, 2));
    add(NEAR_FUNCTION + 64, 2);
    assert_true(entries_are_unchanged(&entries, &tracee));
    assert_int_equal(0, entries_patch(&entries, &tracee));
    assert_false(entries_any_present(&entries, &tracee, 1, 2));
    assert_true(entries_any_present(&entries, &tracee, 2, 3));
    assert_false(entries_are_unchanged(&entries, &tracee));
    assert_int_equal(0, entries_undo(&entries, &tracee));
    assert_code(NEAR_FUNCTION + 64);
}

static void test_the_annex_reaches_what_the_image_does_not(void **state)
{
    static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
    uint8_t slot[ENTRIES_ANNEX_SLOT_BYTES];
    uint64_t hook;
    (void)state;
    assert_false(entries_reach(&entries, FAR_FUNCTION));
    assert_int_equal(0, add(FAR_FUNCTION, 1));
    entries.annex = ANNEX;
    assert_true(entries_reach(&entries, FAR_FUNCTION));
    assert_int_equal(ANNEX, add(FAR_FUNCTION, 1));
    assert_int_equal(ROOM + TRAMPOLINE_BYTES, add(NEAR_FUNCTION, 2));
    assert_int_equal(0, entries_write_trampolines(&entries, &tracee));
    assert_int_equal(sizeof(slot), pread(tracee.memory_fd, slot, sizeof(slot), (off_t)ANNEX));
    assert_memory_equal(code, slot, 8);
    assert_memory_equal(jump, slot + TRAMPOLINE_BYTES, sizeof(jump));
    memcpy(&hook, slot + TRAMPOLINE_BYTES + sizeof(jump), sizeof(hook));
    assert_int_equal(HOOK, hook);
    const struct trampoline *trampoline = &entries.trampolines[0];
    assert_int_equal(FAR_FUNCTION, trampoline_leave(trampoline, ANNEX + TRAMPOLINE_BYTES));
    assert_int_equal(0, trampoline_leave(trampoline, ANNEX + ENTRIES_ANNEX_SLOT_BYTES));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_function_is_patched_twice, begin, end),
        cmocka_unit_test_setup_teardown(test_removed_entries_make_room, begin, end),
        cmocka_unit_test_setup_teardown(test_free_sites_are_not_restored, begin, end),
        cmocka_unit_test_setup_teardown(test_only_new_entries_are_written, begin, end),
        cmocka_unit_test_setup_teardown(test_entries_that_cannot_be_patched_are_not_listed, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_the_annex_reaches_what_the_image_does_not, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
