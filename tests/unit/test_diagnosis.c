/* SPDX-License-Identifier: Apache-2.0 */
/* The explanations of empty or partial profiles, and the matching of process names. */
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

#include "recorder/processes/diagnosis.h"
#include "recorder/processes/process_info.h"
#include "recorder/processes/program.h"

static char text[DIAGNOSIS_BYTES_MAX];

static struct diagnosis_facts whole(void)
{
    return (struct diagnosis_facts){
        .name = "prog",
        .said_hello = true,
        .interval_bytes = 4096,
        .samples = 10,
        .totals = {.calls = 100, .bytes = 50000, .client_state = RING_CLIENT_EXITED},
    };
}

static void expect(const struct diagnosis_facts *facts, const char *words)
{
    diagnosis_write(facts, text, sizeof(text));
    assert_non_null(strstr(text, words));
}

static void test_whole_profile_has_no_remark(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    diagnosis_write(&facts, text, sizeof(text));
    assert_string_equal("", text);
}

static void test_explains_missing_samples(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    facts.samples = 0;
    expect(&facts, "smaller interval than 4096");
    facts.totals.calls = 0;
    expect(&facts, "No call of malloc");
    facts.totals.client_state = RING_CLIENT_AWAITED;
    expect(&facts, "waited 2 s for the profiler's answer in vain");
    expect(&facts, "client library of another version");
    assert_null(strstr(text, "No call of malloc"));
}

static void test_names_heaps_that_nobody_asked_for(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    facts.totals.unmentioned_heaps = 1;
    strcpy(facts.totals.unmentioned_heap, "app.textures");
    expect(&facts, "The program has a heap of its own (app.textures)");
    facts.totals.unmentioned_heap[0] = 0; /* not written yet */
    expect(&facts, "The program has a heap of its own, which");
    strcpy(facts.totals.unmentioned_heap, "app.textures");
    facts.totals.unmentioned_heaps = 3;
    expect(&facts, "The program has 3 heaps of its own (app.textures and others)");

    facts = whole();
    facts.is_linked = true;
    diagnosis_write(&facts, text, sizeof(text));
    assert_string_equal("", text); /* only an attached client cannot see them */
    facts.attached = true;
    expect(&facts, "heaps of its own, if it has any, are missing. heap_profile host records all");
    facts.may_join = true;
    expect(&facts, "are missing. --all-heaps records them, without malloc; heap_profile host");
}

static void test_reports_heaps_that_never_appeared(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    facts.heaps_reported = 1;
    facts.unreported = "textures, meshes";
    expect(&facts, "Nothing was reported to textures, meshes: the process registered no heap");
    assert_null(strstr(text, "libc.mmap"));
    facts.unreported = "";
    facts.mmap_unreported = true;
    expect(&facts, "mapped nothing by itself: there is no libc.mmap");
    assert_null(strstr(text, "Nothing was reported"));
}

static void test_reports_the_missed_part_of_a_new_process(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    facts.attached = true;
    expect(&facts, "attached while it ran: earlier allocations");
    assert_null(strstr(text, "libc.mmap"));
    facts.others_wanted = true;
    expect(&facts, "libc.mmap needs heap_profile host or shell");
    facts.hides_python_objects = true;
    facts.python = ATTACH_PYTHON_PRINTS;
    expect(&facts, "There is no python.object: PYTHONMALLOCSTATS is set");
    facts.python = ATTACH_PYTHON_ABSENT;
    expect(&facts, "There is no python.object: the profiler did not find the interpreter");
    facts.attach_missed_us = 3400;
    facts.known_us = 250000;
    facts.start_was_reported = true;
    expect(&facts, "attached 3.4 ms after it began, of the 250 ms that it ran");
    facts.start_was_reported = false;
    facts.attach_missed_us = 87000;
    expect(&facts, "Its start was missed");
    expect(&facts, "up to 87 ms after it began, of up to 250 ms");
}

static void test_names_the_heap_of_go(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    facts.is_go = true;
    expect(&facts, "Go's own heap, which is not in this profile");
}

static void test_reports_the_end_of_the_session(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    facts.totals.client_state = RING_CLIENT_OVERRAN;
    expect(&facts, "--block-client");
    facts.totals.client_state = RING_CLIENT_TIMED_OUT;
    expect(&facts, "--block-client-timeout");
    facts.corrupted = true;
    expect(&facts, "overwrote");
    facts.running = true;
    expect(&facts, "still running");
}

static void test_reports_exec(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    facts.became = "other";
    expect(&facts, "became other by exec");
    facts.replaced = "sh";
    expect(&facts, "Before its exec this process was sh");
}

static void test_all_remarks_at_once_stay_in_bounds(void **state)
{
    (void)state;
    struct diagnosis_facts facts = whole();
    char name[4000];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    facts.samples = 0;
    facts.corrupted = facts.out_of_memory = facts.running = true;
    facts.became = facts.replaced = name;
    facts.busy_bytes = facts.unknown_stacks = facts.lost_frees = 1;
    diagnosis_write(&facts, text, sizeof(text));
    assert_true(strlen(text) < sizeof(text));
}

/* Create a file with this content and mode. */
static void make_file(char path[64], const void *bytes, size_t length, mode_t mode)
{
    strcpy(path, "/tmp/test_diagnosis-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(length, write(fd, bytes, length));
    assert_int_equal(0, fchmod(fd, mode));
    close(fd);
}

static void test_static_program_is_recognized(void **state)
{
    (void)state;
    /* An ELF header without program headers has no interpreter. */
    uint8_t header[64] = {0x7f, 'E', 'L', 'F', 2, 1, 1, [16] = 2, [20] = 1, [52] = 64};
#if defined(__x86_64__)
    header[18] = 62;
#else
    header[18] = 183;
#endif
    char path[64];
    make_file(path, header, sizeof(header), 0700);
    struct diagnosis_facts facts = whole();
    facts.said_hello = false;
    facts.executable = path;
    expect(&facts, "statically linked");
    unlink(path);
    header[4] = 1;  /* ELFCLASS32 */
    header[18] = 3; /* EM_386 */
    make_file(path, header, sizeof(header), 0700);
    expect(&facts,
           "is a program for 32-bit x86 (i386), and this heapprofd profiles programs for 64-bit");
    unlink(path);
}

static void test_garbage_in_place_of_a_program_is_survived(void **state)
{
    (void)state;
    uint8_t bytes[4096];
    char path[64];
    struct diagnosis_facts facts = whole();
    facts.said_hello = false;
    facts.executable = path;
    for (int seed = 0; seed < 200; seed++) {
        srand((unsigned)seed);
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)rand();
        memcpy(bytes, "\177ELF\2\1\1", 7);
        if (seed % 2 == 0)
            memset(bytes + 7, 0, 9);
        make_file(path, bytes, sizeof(bytes), 0700);
        expect(&facts, ".");
        unlink(path);
    }
}

static void test_script_leads_to_its_interpreter(void **state)
{
    (void)state;
    static const char script[] = "#! /bin/sh -e\necho\n";
    char path[64], found[256];
    make_file(path, script, sizeof(script) - 1, 0700);
    program_find(path, found, sizeof(found));
    assert_string_equal("/bin/sh", found);
    unlink(path);
    program_find("no-such-program-here", found, sizeof(found));
    assert_string_equal("", found);
}

static void test_names_match_after_the_slash(void **state)
{
    (void)state;
    static const char *arguments[] = {"/opt/bin/server@2", "-x"};
    struct process_info info = {.comm = "worker",
                                .executable = "/usr/bin/server-4.1",
                                .arguments = arguments,
                                .argument_count = 2};
    assert_true(process_info_matches(&info, "server"));
    assert_true(process_info_matches(&info, "/somewhere/server@9"));
    assert_true(process_info_matches(&info, "server-4.1"));
    assert_true(process_info_matches(&info, "worker"));
    assert_false(process_info_matches(&info, "serve"));
    assert_false(process_info_matches(&info, ""));
    assert_false(process_info_matches(&info, "/"));
    assert_false(process_info_matches(&info, "@2"));
    assert_true(process_info_matches(&info, "server@"));
}

static void test_names_with_a_star_are_patterns(void **state)
{
    (void)state;
    static const char *arguments[] = {"/opt/bin/[web]@2"};
    struct process_info info = {.comm = "worker",
                                .executable = "/usr/bin/server-4.1",
                                .arguments = arguments,
                                .argument_count = 1};
    assert_true(process_info_matches(&info, "*"));
    assert_true(process_info_matches(&info, "serv*"));
    assert_true(process_info_matches(&info, "*-4.?"));
    assert_true(process_info_matches(&info, "/any/where/w*r"));
    assert_true(process_info_matches(&info, "serv*@7"));
    assert_false(process_info_matches(&info, "serv*er"));
    assert_false(process_info_matches(&info, "/usr/bin/*/x"));
    /* Without a star the pattern is a literal name. */
    assert_true(process_info_matches(&info, "[web]"));
    assert_false(process_info_matches(&info, "worke?"));
    struct process_info nameless = {0};
    assert_false(process_info_matches(&nameless, "*"));
}

static void test_own_process_reads_as_it_is(void **state)
{
    (void)state;
    struct process_info info;
    assert_int_equal(0, process_info_read(&info, getpid()));
    assert_int_equal(getppid(), info.parent_pid);
    assert_int_equal(getuid(), info.uid);
    assert_true(info.argument_count >= 1 && info.start_boottime_ns > 0);
    assert_string_equal("test_diagnosis", process_info_name(&info));
    assert_true(process_info_descends(getpid(), getppid()));
    assert_false(process_info_descends(getppid(), getpid()));
    process_info_clear(&info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_profile_has_no_remark),
        cmocka_unit_test(test_explains_missing_samples),
        cmocka_unit_test(test_names_heaps_that_nobody_asked_for),
        cmocka_unit_test(test_reports_heaps_that_never_appeared),
        cmocka_unit_test(test_reports_the_missed_part_of_a_new_process),
        cmocka_unit_test(test_names_the_heap_of_go),
        cmocka_unit_test(test_reports_the_end_of_the_session),
        cmocka_unit_test(test_reports_exec),
        cmocka_unit_test(test_all_remarks_at_once_stay_in_bounds),
        cmocka_unit_test(test_static_program_is_recognized),
        cmocka_unit_test(test_garbage_in_place_of_a_program_is_survived),
        cmocka_unit_test(test_script_leads_to_its_interpreter),
        cmocka_unit_test(test_names_match_after_the_slash),
        cmocka_unit_test(test_names_with_a_star_are_patterns),
        cmocka_unit_test(test_own_process_reads_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
