/* SPDX-License-Identifier: Apache-2.0 */
/* The client reads memory that another thread unmaps, under a seccomp filter that it cannot read.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/system.h"

#define PAGE_BYTES 4096u
#define READS 100000

static uint8_t *page;
static atomic_bool done;

static void map_page(void)
{
    void *mapped = mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (page != NULL ? MAP_FIXED : 0), -1, 0);
    if (mapped == MAP_FAILED)
        _exit(2);
    if (page == NULL)
        page = mapped;
    *(volatile uint8_t *)page = 1;
}

static void *map_and_unmap(void *argument)
{
    while (!atomic_load(&done)) {
        map_page();
        munmap(page, PAGE_BYTES);
    }
    return argument;
}

/* Install a filter that allows everything, as a container's. */
static void take_filter(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(2);
}

/* Read the page while another thread maps and unmaps it. Exit with 0 if all results are among these
 * two. */
static void read_while_it_vanishes(bool permitted, long good, long bad)
{
    uint8_t copy[PAGE_BYTES];
    pthread_t thread;
    signal(SIGSEGV, SIG_DFL); /* not cmocka's */
    take_filter();
    map_page();
    if (permitted)
        system_permit_copying();
    if (pthread_create(&thread, NULL, map_and_unmap, NULL) != 0)
        _exit(2);
    int status = 0;
    for (int i = 0; i < READS && status == 0; i++) {
        long got = system_read_memory(copy, (uintptr_t)page, sizeof(copy));
        status = got == good || got == bad ? 0 : 3;
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    _exit(status);
}

static int status_of_child(bool permitted, long good, long bad)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        read_while_it_vanishes(permitted, good, bad);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void memory_that_may_not_be_copied_is_not_read(void **state)
{
    (void)state;
    assert_int_equal(status_of_child(false, -EPERM, -EPERM), 0);
}

static void a_permitted_copy_fails_without_a_fault(void **state)
{
    (void)state;
    assert_int_equal(status_of_child(true, PAGE_BYTES, -EFAULT), 0);
}

static void memory_in_use_is_read_under_a_filter(void **state)
{
    (void)state;
    static const char text[] = "in use";
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        char copy[sizeof(text)];
        take_filter();
        bool read = system_read_in_use(copy, (uintptr_t)text, sizeof(copy)) &&
                    memcmp(copy, text, sizeof(copy)) == 0;
        _exit(read && !system_read_in_use(copy, 8, sizeof(copy)) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_may_not_be_copied_is_not_read),
        cmocka_unit_test(a_permitted_copy_fails_without_a_fault),
        cmocka_unit_test(memory_in_use_is_read_under_a_filter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
