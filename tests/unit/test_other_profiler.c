/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the profiler of a ring that a process maps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/processes/other_profiler.h"
#include "recorder/ring/ring_reader.h"
#include "uint_in_range.h"
#include "util/process_maps.h"
#include "wire/ring.h"

#define RINGS 8
#define DECOYS 4
#define MAPPINGS 50000 /* fewer than the kernel allows */

static unsigned lines;

bool __real_process_maps_next(struct process_maps *maps, struct process_map *map);
bool __wrap_process_maps_next(struct process_maps *maps, struct process_map *map);

bool __wrap_process_maps_next(struct process_maps *maps, struct process_map *map)
{
    lines++;
    return __real_process_maps_next(maps, map);
}

/* Start a process that does this once, and then waits to be killed. */
static pid_t start(void (*prepare)(void))
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prepare();
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]), close(ready[1]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static struct ring_control *map_ring(void)
{
    int fd = memfd_create(RING_MEMFD_NAME, MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 1 << 20) < 0)
        _exit(1);
    struct ring_control *control = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED)
        _exit(1);
    control->magic = RING_MAGIC;
    close(fd);
    return control;
}

static struct ring_control *shared;

static void map_silent_rings(void)
{
    for (unsigned i = 0; i < RINGS; i++)
        map_ring();
}

/* Have a profiler's name, and as many mappings as possible. */
static void pretend(void)
{
    prctl(PR_SET_NAME, "heap-decoy");
    for (int i = 0; i < MAPPINGS; i++)
        mmap(NULL, 1, i % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void keep_shared(void)
{
    prctl(PR_SET_NAME, "heap-real");
}

static void become_target(void)
{
    prctl(PR_SET_NAME, "target");
}

static void the_profiler_of_a_ring_is_found(void **state)
{
    (void)state;
    shared = map_ring();
    pid_t profiler = start(keep_shared), target = start(become_target);
    shared->heartbeat_ms = UINT64_MAX / 2;
    munmap(shared, 1 << 20);
    assert_int_equal(other_profiler_of(target), profiler);
    end(profiler);
    assert_int_not_equal(other_profiler_of(target), profiler);
    end(target);
}

/* Nothing else is done meanwhile. Any user may start processes with a profiler's name. */
static void the_search_is_bounded(void **state)
{
    pid_t decoys[DECOYS];
    (void)state;
    for (unsigned i = 0; i < DECOYS; i++)
        decoys[i] = start(pretend);
    pid_t target = start(map_silent_rings);
    lines = 0;
    other_profiler_of(target);
    assert_uint_in_range(lines, DECOYS, 200000);
    for (unsigned i = 0; i < DECOYS; i++)
        end(decoys[i]);
    end(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_profiler_of_a_ring_is_found),
        cmocka_unit_test(the_search_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
