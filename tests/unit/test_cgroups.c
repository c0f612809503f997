/* SPDX-License-Identifier: Apache-2.0 */
/* The text of cgroups' files, and when a cgroup is near its limit. The cgroup is a directory with
 * the files of version 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/cgroups/cgroup_watch.h"
#include "trace/process_end.h"
#include "util/process_files.h"

static void mounts_are_found(void **state)
{
    (void)state;
    struct cgroup_mounts mounts = {0};
    cgroup_mounts_take(&mounts, "30 23 0:26 / /sys/fs/cgroup rw - tmpfs none rw\n");
    cgroup_mounts_take(&mounts, "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    cgroup_mounts_take(&mounts, "32 30 0:28 / /x rw - cgroup cgroup rw,memoryless\n");
    assert_string_equal(mounts.memory.path, "");
    assert_string_equal(mounts.unified.path, "");
    cgroup_mounts_take(
        &mounts,
        "33 30 0:29 /docker/a /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n");
    cgroup_mounts_take(&mounts, "34 30 0:30 / /a\\040b rw,nosuid - cgroup2 cgroup2 rw\n");
    cgroup_mounts_take(&mounts, "35 30 0:30 / /later rw - cgroup2 cgroup2 rw\n");
    assert_string_equal(mounts.memory.path, "/sys/fs/cgroup/memory");
    assert_string_equal(mounts.memory.root, "/docker/a");
    assert_string_equal(mounts.unified.path, "/a b");
    static const char *const malformed[] = {"", "\n", " - ", " - cgroup2", "1 2 3 - cgroup2 x y"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        struct cgroup_mounts none = {0};
        cgroup_mounts_take(&none, malformed[i]);
        assert_string_equal(none.unified.path, "");
    }
}

static void paths_are_found(void **state)
{
    (void)state;
    char path[CGROUP_PATH_BYTES], directory[CGROUP_PATH_BYTES];
    static const char both[] =
        "9:cpu,memory:/one\n8:memoryx,name=memory:/two\n0::/three:with:colons";
    assert_true(cgroup_path_of(both, true, path));
    assert_string_equal(path, "/one");
    assert_true(cgroup_path_of(both, false, path));
    assert_string_equal(path, "/three:with:colons");
    assert_false(cgroup_path_of("8:memoryx,name=memory:/two\n", true, path));
    assert_false(cgroup_path_of("0::/../outside\n", false, path));
    assert_true(cgroup_path_of("0::/gone (deleted)\n", false, path));
    assert_string_equal(path, "/gone");
    assert_false(cgroup_path_of("0::relative\n", false, path));
    assert_false(cgroup_path_of("0::\n\n:\n::", false, path));
    char *long_text = malloc(3 * CGROUP_PATH_BYTES);
    memset(long_text, 'x', 3 * CGROUP_PATH_BYTES - 1);
    long_text[3 * CGROUP_PATH_BYTES - 1] = '\0';
    memcpy(long_text, "0::/", 4);
    assert_false(cgroup_path_of(long_text, false, path));
    free(long_text);

    struct cgroup_mount root = {.path = "/sys/fs/cgroup", .root = "/"};
    assert_true(cgroup_directory(&root, "/a/b", directory));
    assert_string_equal(directory, "/sys/fs/cgroup/a/b");
    struct cgroup_mount inner = {.path = "/sys/fs/cgroup", .root = "/docker/a"};
    assert_true(cgroup_directory(&inner, "/docker/a/b", directory));
    assert_string_equal(directory, "/sys/fs/cgroup/b");
    assert_false(cgroup_directory(&inner, "/docker/ab", directory));
    assert_false(cgroup_directory(&inner, "/other", directory));
    assert_false(cgroup_directory(&(struct cgroup_mount){0}, "/a", directory));
}

static void values_are_read(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_true(cgroup_counter("low 0\noom_kill 3\noom_group_kill 4\n", "oom_kill", &value));
    assert_int_equal(value, 3);
    assert_true(cgroup_counter("oom_kill 18446744073709551615", "oom_kill", &value));
    assert_int_equal(value, UINT64_MAX);
    assert_false(cgroup_counter("oom_kills 3\nx oom_kill 3\n", "oom_kill", &value));
    assert_false(cgroup_counter("oom_kill \noom_kill x\noom_kill", "oom_kill", &value));
    assert_false(cgroup_counter("", "oom_kill", &value));
    assert_true(cgroup_amount("123\n", &value));
    assert_int_equal(value, 123);
    assert_true(cgroup_amount("max\n", &value));
    assert_int_equal(value, CGROUP_UNLIMITED);
    assert_true(cgroup_amount("9223372036854771712\n", &value)); /* version 1 */
    assert_int_equal(value, CGROUP_UNLIMITED);
    assert_false(cgroup_amount("", &value));
    assert_false(cgroup_amount("-5\n", &value));
}

/* --- a cgroup of version 2, as a directory --- */

static char directory[] = "/tmp/test-cgroup-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct memory_cgroup *open_one(struct cgroup_watch *watch)
{
    char text[8192], path[CGROUP_PATH_BYTES];
    assert_int_equal(cgroup_watch_open(watch, 90), 0);
    memset(&watch->mounts, 0, sizeof(watch->mounts));
    assert_true(process_file_read(getpid(), "cgroup", text, sizeof(text)) > 0);
    if (!cgroup_path_of(text, false, path) || strlen(path) >= sizeof(watch->mounts.unified.root))
        skip();
    strcpy(watch->mounts.unified.path, directory);
    strcpy(watch->mounts.unified.root, path);
    put("memory.max", "1000000\n");
    put("memory.high", "max\n");
    put("memory.current", "100000\n");
    put("memory.stat", "anon 1\ninactive_file 0\nactive_file 0\n");
    put("memory.events.local", "low 0\noom 0\noom_kill 5\n");
    struct memory_cgroup *cgroup = cgroup_watch_take(watch, getpid());
    assert_non_null(cgroup);
    assert_false(cgroup->is_machine);
    return cgroup;
}

/* Return whether the cgroup comes near its limit with this use. */
static bool comes_near(struct cgroup_watch *watch, uint64_t *now_ms, const char *current,
                       struct near_cgroup *near)
{
    put("memory.current", current);
    *now_ms += 20000;
    cgroup_watch_tick(watch, *now_ms);
    return cgroup_watch_take_near(watch, *now_ms, near);
}

static void one_rise_is_reported_once(void **state)
{
    (void)state;
    struct cgroup_watch watch;
    struct near_cgroup near;
    struct memory_cgroup *cgroup = open_one(&watch);
    uint64_t now_ms = 1000000000;
    assert_false(comes_near(&watch, &now_ms, "899999\n", &near));
    assert_true(comes_near(&watch, &now_ms, "900000\n", &near));
    assert_ptr_equal(near.cgroup, cgroup);
    assert_int_equal(near.cause, DUMP_CAUSE_NEAR_LIMIT);
    assert_int_equal(near.used_bytes, 900000);
    assert_int_equal(near.limit_bytes, 1000000);
    assert_false(comes_near(&watch, &now_ms, "950000\n", &near));
    assert_false(comes_near(&watch, &now_ms, "850000\n", &near));
    assert_false(comes_near(&watch, &now_ms, "950000\n", &near));
    assert_false(comes_near(&watch, &now_ms, "500000\n", &near));
    assert_true(comes_near(&watch, &now_ms, "950000\n", &near));
    cgroup_watch_release(&watch, cgroup);
    assert_int_equal(watch.count, 0);
    cgroup_watch_close(&watch);
}

static void cache_of_files_does_not_count(void **state)
{
    (void)state;
    struct cgroup_watch watch;
    struct near_cgroup near;
    struct memory_cgroup *cgroup = open_one(&watch);
    uint64_t now_ms = 1000000000;
    put("memory.stat", "anon 1\ninactive_file 50000\nactive_file 50000\n");
    assert_false(comes_near(&watch, &now_ms, "990000\n", &near));
    put("memory.stat", "anon 1\ninactive_file 50000\nactive_file 10000\n");
    assert_true(comes_near(&watch, &now_ms, "990000\n", &near));
    assert_int_equal(near.used_bytes, 930000);
    cgroup_watch_release(&watch, cgroup);
    cgroup_watch_close(&watch);
}

static void memory_high_is_a_limit(void **state)
{
    (void)state;
    struct cgroup_watch watch;
    struct near_cgroup near;
    struct memory_cgroup *cgroup = open_one(&watch);
    uint64_t now_ms = 1000000000;
    put("memory.high", "600000\n");
    put("memory.max", "max\n");
    assert_false(comes_near(&watch, &now_ms, "599999\n", &near));
    assert_true(comes_near(&watch, &now_ms, "600001\n", &near));
    assert_int_equal(near.cause, DUMP_CAUSE_MEMORY_HIGH);
    assert_int_equal(near.limit_bytes, 600000);
    cgroup_watch_release(&watch, cgroup);
    cgroup_watch_close(&watch);
}

static void kills_are_dated(void **state)
{
    (void)state;
    struct cgroup_watch watch;
    struct memory_cgroup *cgroup = open_one(&watch);
    assert_int_equal(cgroup->kills, 5);
    assert_int_equal(cgroup->rose_ms, 0);
    memory_cgroup_read_kills(cgroup, 77);
    assert_int_equal(cgroup->rose_ms, 0);
    put("memory.events.local", "oom_kill 6\n");
    memory_cgroup_read_kills(cgroup, 78);
    assert_int_equal(cgroup->rose_ms, 78);
    memory_cgroup_read_kills(cgroup, 79);
    assert_int_equal(cgroup->rose_ms, 78);
    cgroup_watch_release(&watch, cgroup);
    cgroup_watch_close(&watch);
}

/* A child of the profiler (its file reader) has its descriptors for a moment. An event that comes
 * then must not lead to a cgroup that is gone. The file of events is a pipe here: its end is an
 * event. */
static void a_released_cgroup_has_no_events(void **state)
{
    (void)state;
    struct cgroup_watch watch;
    struct epoll_event event;
    char path[128], byte = 0;
    int told[2];
    snprintf(path, sizeof(path), "%s/memory.events", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    int writer = open(path, O_RDWR | O_CLOEXEC);
    struct memory_cgroup *cgroup = open_one(&watch);
    assert_true(writer >= 0 && cgroup->events >= 0 && pipe(told) == 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(writer);
        if (write(told[1], &byte, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    cgroup_watch_release(&watch, cgroup);
    assert_int_equal(watch.count, 0);
    close(writer);
    int count = epoll_wait(watch.epoll, &event, 1, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_int_equal(count, 0);
    close(told[0]), close(told[1]);
    unlink(path);
    cgroup_watch_close(&watch);
}

static void ends_have_words(void **state)
{
    (void)state;
    struct process_end end = {.oom_kills = OOM_KILLS_CGROUP_ROSE};
    char words[PROCESS_END_WORDS];
    process_end_set_status(&end, 9);
    assert_string_equal(process_end_words(&end, words),
                        "signal 9, the cgroup's oom_kill counter rose");
    assert_true(process_end_is_oom(&end));
    end.oom_kills = OOM_KILLS_UNCHANGED;
    assert_string_equal(process_end_words(&end, words), "signal 9 (SIGKILL)");
    assert_false(process_end_is_oom(&end));
    process_end_set_status(&end, 11 | 0x80);
    assert_string_equal(process_end_words(&end, words), "signal 11 (SIGSEGV), core dumped");
    process_end_set_status(&end, 34);
    assert_string_equal(process_end_words(&end, words), "signal 34");
    process_end_set_status(&end, 3 << 8);
    assert_string_equal(process_end_words(&end, words), "exit code 3");
    process_end_set_status(&end, -1);
    assert_string_equal(process_end_words(&end, words), "unknown");
    end = (struct process_end){.how = 77, .oom_kills = 99, .code = -1};
    assert_string_equal(process_end_words(&end, words), "unknown");
    assert_string_equal(process_end_oom_kills_name(&end), "unknown");
    assert_null(dump_cause_name(DUMP_CAUSES));
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"memory.max", "memory.high", "memory.current",
                                        "memory.stat", "memory.events.local"};
    char path[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mounts_are_found),
        cmocka_unit_test(paths_are_found),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(one_rise_is_reported_once),
        cmocka_unit_test(cache_of_files_does_not_count),
        cmocka_unit_test(memory_high_is_a_limit),
        cmocka_unit_test(kills_are_dated),
        cmocka_unit_test(a_released_cgroup_has_no_events),
        cmocka_unit_test(ends_have_words),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
