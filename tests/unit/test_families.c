/* SPDX-License-Identifier: Apache-2.0 */
/* Families of functions: how many of an executable are read, that an attach does without an annex
 * for them, and that only the process with our client gets more of them. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/attach/attempt.h"
#include "recorder/attach/families.h"
#include "recorder/attach/inject.h"
#include "uint_in_range.h"
#include "util/process_files.h"

/* --- of an executable --- */

#define KEYS 1000

static unsigned requests;
static bool has_them; /* the executable has malloc and free with every prefix */

int __wrap_file_reader_functions(const struct reader_file *file, const char *names, size_t bytes,
                                 size_t count, struct reader_function **functions, bool *is_whole);
int __wrap_file_reader_functions(const struct reader_file *file, const char *names, size_t bytes,
                                 size_t count, struct reader_function **functions, bool *is_whole)
{
    const char *end = names + bytes;
    (void)file;
    requests++;
    *is_whole = true;
    *functions = calloc(count, sizeof(**functions));
    for (uint32_t i = 0; has_them && names < end; names += strlen(names) + 1, i++)
        (*functions)[i] = (struct reader_function){.value = 0x1000 + i * 16, .name = i};
    return has_them ? (int)count : 0;
}

static void test_families_of_an_executable_are_bounded(void **state)
{
    static const char *const names[] = {"malloc", "*mallocx"};
    static struct reader_function keys[KEYS];
    static struct located_family families[FAMILIES_MAX];
    const struct reader_file file = {.fd = -1, .debug_fd = -1};
    (void)state;
    for (unsigned i = 0; i < KEYS; i++) {
        keys[i].name = 1;
        memcpy(keys[i].prefix, (char[]){'p', (char)('a' + i / 26 % 26), (char)('a' + i % 26)}, 3);
    }
    assert_int_equal(0, families_read(families, &file, keys, KEYS, names));
    assert_uint_in_range(requests, FAMILIES_MAX, 2 * FAMILIES_MAX);
    has_them = true;
    assert_int_equal(FAMILIES_MAX, families_read(families, &file, keys, KEYS, names));
    assert_string_equal("paa.malloc", families[0].name);
}

/* --- of a process --- */

/* A family that this program exports. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *engine_malloc(size_t size);
EXPORTED void *engine_mallocx(size_t size, int flags);
EXPORTED void engine_free(void *block);
static char arena[4096];
static size_t used;

void *engine_malloc(size_t size)
{
    used += size;
    return arena + used - size;
}

void *engine_mallocx(size_t size, int flags)
{
    used += (size_t)flags;
    return engine_malloc(size);
}

void engine_free(void *block)
{
    used -= block == arena;
}

/* Where an attacher would find its client's parameters. */
static struct attached_params params = {.magic = ATTACHED_MAGIC};
static struct attach attach;

static uint64_t start_time_of(pid_t pid)
{
    struct process_stat stat;
    return process_stat_read(pid, &stat) ? stat.start_ticks : 0;
}

/* A list of the loader's in which this program is a library. */
static char name[] = "libengine.so";
static struct link_map library = {.l_name = name, .l_ld = _DYNAMIC};
static struct r_debug list = {.r_map = &library, .r_state = RT_CONSISTENT};

static int note_base(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size, (void)context;
    library.l_addr = info->dlpi_addr;
    return 1;
}

/* Fork a process that waits for its end. It has the memory that ours has. */
static pid_t fork_waiting(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static unsigned maps, annexes;

int __wrap_inject_map(struct tracee *tracee, const struct image *image, uint64_t base, int ring_fd,
                      uint64_t data_bytes, uint64_t *ring, struct error *error);
int __wrap_inject_map(struct tracee *tracee, const struct image *image, uint64_t base, int ring_fd,
                      uint64_t data_bytes, uint64_t *ring, struct error *error)
{
    bool has_annex = image_params(image)->annex != 0;
    (void)tracee, (void)base, (void)ring_fd, (void)data_bytes, (void)ring;
    maps++;
    annexes += has_annex;
    return error_set(error, has_annex ? -EADDRNOTAVAIL : -EIO, "annex: %d", has_annex);
}

/* A sanitizer's malloc is in the executable itself, near the family: no annex is needed. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER true
#endif
#endif
#ifndef HAS_SANITIZER
#define HAS_SANITIZER false
#endif

/* The executable has a family, and malloc is in a library far from it. */
static void test_an_annex_without_a_place_is_left_out(void **state)
{
    struct attach_outcome outcome;
    struct error error = {0};
    (void)state;
    if (HAS_SANITIZER)
        skip();
    pid_t pid = fork_waiting();
    const struct attach_options options = {
        .pid = pid, .data_bytes = 1 << 20, .wants_families = true};
    has_them = false;
    assert_null(attach_open(&options, &outcome, &error));
    end_process(pid);
    if (maps == 0)
        skip();
    assert_int_equal(2, maps);
    assert_int_equal(1, annexes);
    assert_string_equal("annex: 0", error.message);
    assert_string_equal("engine.malloc", outcome.unseen_family);
}

/* Make an attach to the process that knows none of its libraries and has patched one, which was
 * closed. */
static void make_attach(pid_t pid)
{
    attach =
        (struct attach){.pid = pid, .start_time = start_time_of(pid), .loader = (uintptr_t)&list};
    uint64_t address = (uintptr_t)&params;
    attach.client.params_address = address;
    attach.client.params.families.families[FAMILIES_MAX - 1].heap = 1;
    attach.client.params.families.thunks = address;
    attach.entries.image = address & ~UINT64_C(4095);
    attach.entries.image_end = address + sizeof(params);
    attach.entries.room = (uintptr_t)params.sites;
}

static int update(struct attach_outcome *outcome)
{
    struct error error = {0};
    int code = attach_update_families(&attach, outcome, &error);
    free(attach.links);
    attach.links = NULL;
    return code;
}

static void test_another_process_with_the_pid_is_left_alone(void **state)
{
    const struct attached_family *closed =
        &attach.client.params.families.families[FAMILIES_MAX - 1];
    struct attach_outcome outcome;
    (void)state;
    pid_t pid = fork_waiting();
    make_attach(pid);
    attach.start_time--;
    assert_int_equal(0, update(&outcome));
    assert_int_equal(1, closed->heap);
    attach.start_time++;
    update(&outcome);
    assert_int_equal(0, closed->heap);
    end_process(pid);
}

/* It has exec'd: what is at the address of the parameters is its own. */
static void test_a_process_without_the_client_is_left_alone(void **state)
{
    uint8_t code[16];
    struct tracee tracee;
    struct attach_outcome outcome;
    (void)state;
    pid_t pid = fork_waiting();
    make_attach(pid);
    assert_int_equal(0, tracee_open(&tracee, pid));
    assert_int_equal(0, update(&outcome));
    assert_string_equal("", outcome.added);
    assert_string_equal("", outcome.unseen_family);
    assert_int_equal(0, tracee_read(&tracee, (uintptr_t)engine_malloc, code, sizeof(code)));
    assert_memory_equal((const void *)engine_malloc, code, sizeof(code));
    tracee_close(&tracee);
    end_process(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families_of_an_executable_are_bounded),
        cmocka_unit_test(test_an_annex_without_a_place_is_left_out),
        cmocka_unit_test(test_another_process_with_the_pid_is_left_alone),
        cmocka_unit_test(test_a_process_without_the_client_is_left_alone),
    };
    /* The family must import what maps memory. */
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    dl_iterate_phdr(note_base, NULL);
    return page == MAP_FAILED ? 77 : cmocka_run_group_tests(tests, NULL, NULL);
}
