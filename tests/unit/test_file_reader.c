/* SPDX-License-Identifier: Apache-2.0 */
/* The file reading process: its answers, its rights, and its death at bad times. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "profile/symbols/elf_image.h"
#include "profile/symbols/symbols.h"
#include "recorder/reader/file_reader.h"

#define LIBRARY "/lib/x86_64-linux-gnu/libc.so.6"
#define ADDRESSES 4000u

static int library;
static struct elf_image image; /* of LIBRARY */

static bool may_not_fork;

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    errno = EAGAIN;
    return may_not_fork ? -1 : __real_fork();
}

static struct reader_file file_of(const char *path, int fd)
{
    return (struct reader_file){.path = path,
                                .fd = fd,
                                .debug_fd = -1,
                                .number = file_reader_number(),
                                .build_id = image.build_id,
                                .build_id_length = image.build_id_length};
}

/* Return the pid of the only child of this process, or 0. */
static pid_t reader_pid(void)
{
    int pid = 0;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    assert_non_null(children);
    if (fscanf(children, "%d", &pid) != 1)
        pid = 0;
    fclose(children);
    return pid;
}

static int ask(const char *path)
{
    struct reader_file file = file_of(path, library);
    const uint64_t address = image.code[0].start + 0x10000;
    const char *name;
    char *text;
    int code = file_reader_names(&file, &address, 1, &name, &text);
    free(text);
    return code;
}

static const char *complaint(const char *path)
{
    return file_reader_failure(path, image.build_id, image.build_id_length);
}

static void test_names_equal_the_symbol_tables(void **state)
{
    static uint64_t addresses[ADDRESSES];
    static const char *names[ADDRESSES];
    unsigned named = 0;
    (void)state;
    for (uint64_t i = 0; i < ADDRESSES; i++)
        addresses[i] = 0x20000 + i * 400;
    struct reader_file file = file_of(LIBRARY, library);
    char *text;
    file.debug_fd = file_reader_open_debug_file(image.build_id, image.build_id_length, 0, NULL);
    assert_int_equal(0, file_reader_names(&file, addresses, ADDRESSES, names, &text));
    /* The reader has the file now, so the question needs no descriptor. */
    const char *again;
    char *more;
    file.fd = -1;
    assert_int_equal(0, file_reader_names(&file, addresses, 1, &again, &more));
    assert_true(again == NULL || strcmp(again, names[0]) == 0);
    free(more);
    file.number = file_reader_number();
    assert_int_equal(-EBADF, file_reader_names(&file, addresses, 1, &again, &more));
    struct symbol_file *symbols = symbol_file_open(LIBRARY, NULL, 0, NULL);
    assert_non_null(symbols);
    const char *expected[ADDRESSES];
    assert_int_equal(0, symbol_file_names(symbols, addresses, ADDRESSES, expected));
    for (unsigned i = 0; i < ADDRESSES; i++) {
        assert_int_equal(expected[i] == NULL, names[i] == NULL);
        if (expected[i] != NULL)
            assert_string_equal(expected[i], names[i]);
        named += expected[i] != NULL;
    }
    /* Without its debug symbols only the exported functions have names. */
    assert_true(named > (file.debug_fd >= 0 ? ADDRESSES / 2 : ADDRESSES / 20));
    symbol_file_close(symbols);
    free(text);
    if (file.debug_fd >= 0)
        close(file.debug_fd);
}

static void test_other_questions(void **state)
{
    static const char wanted[] = "no_such_function\0main\0_start";
    struct reader_segment segment;
    struct program_file program;
    struct reader_function *functions;
    (void)state;
    struct reader_file file = file_of(LIBRARY, library);
    assert_int_equal(0, file_reader_segment(&file, image.code[0].offset, &segment));
    assert_int_equal(image.load_bias, segment.bias);
    assert_int_equal(image.build_id_length, segment.build_id_length);
    assert_memory_equal(image.build_id, segment.build_id, image.build_id_length);
    assert_true(file_reader_open_unwinding(&file) >= 0);
    const uint64_t addresses[] = {image.code[0].start + 0x10000, UINT64_MAX};
    struct reader_rules rules;
    size_t bytes;
    assert_int_equal(0, file_reader_rules(&file, addresses, 2, &rules));
    assert_non_null(reader_rules_next(&rules, &bytes));
    assert_null(reader_rules_next(&rules, &bytes));
    free(rules.bytes);
    file_reader_close_unwinding(file.number);
    assert_int_equal(-EBADF, file_reader_rules(&file, addresses, 2, &rules));

    int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    const struct reader_file own = {.path = "self", .fd = self, .debug_fd = -1};
    bool is_whole;
    assert_int_equal(0, file_reader_program(&own, FILE_READER_DEADLINE_MS, &program));
    assert_true(program.has_interpreter && program.has_symbols && !program.is_go);
    assert_int_equal(2,
                     file_reader_functions(&own, wanted, sizeof(wanted), 3, &functions, &is_whole));
    assert_true(is_whole);
    assert_true(functions[0].name != functions[1].name && functions[0].name > 0);
    free(functions);
    /* Endings of global names: test_other_questions() is not one. */
    static const char endings[] = "*_other_questions\0*_reader_names";
    assert_int_equal(
        1, file_reader_functions(&own, endings, sizeof(endings), 2, &functions, &is_whole));
    assert_int_equal(1, functions[0].name);
    assert_string_equal("file", functions[0].prefix);
    free(functions);
    close(self);
    int text = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    const struct reader_file no_program = {.path = "/etc/passwd", .fd = text, .debug_fd = -1};
    assert_int_equal(-ENOEXEC, file_reader_program(&no_program, FILE_READER_DEADLINE_MS, &program));
    close(text);
}

static void assert_status(pid_t pid, const char *line)
{
    char command[160];
    snprintf(command, sizeof(command), "grep -qE '^%s$' /proc/%d/status", line, (int)pid);
    assert_int_equal(0, system(command));
}

static void test_reader_has_no_rights(void **state)
{
    char path[64];
    (void)state;
    assert_int_equal(0, ask(LIBRARY));
    pid_t pid = reader_pid();
    assert_true(pid > 0);
    assert_status(pid, "NoNewPrivs:\t1");
    assert_status(pid, "Seccomp:\t2");
    assert_status(pid, "Cap(Prm|Eff|Inh|Amb):\t0+");
    if (geteuid() != 0)
        return;
    /* A uid that no other process has, so none can send it a signal. */
    char user[64];
    unsigned own = 0xFFB00000u + (unsigned)pid;
    snprintf(user, sizeof(user), "Uid:\t%u\t%u\t%u\t%u", own, own, own, own);
    assert_status(pid, user);
    assert_status(pid, "Gid:\t65534\t65534\t65534\t65534");
    assert_status(pid, "Groups:\t ");
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) /* only the socket */
        assert_true(entry->d_name[0] == '.' || strcmp(entry->d_name, "0") == 0);
    closedir(directory);
}

/* If no process can be started for a while, later questions are answered again. */
static void test_failed_start_is_retried(void **state)
{
    const struct timespec pause = {.tv_nsec = 150000000};
    (void)state;
    file_reader_close();
    may_not_fork = true;
    assert_int_equal(-EIO, ask(LIBRARY));
    assert_non_null(complaint(LIBRARY));
    may_not_fork = false;
    assert_int_equal(-EIO, ask(LIBRARY)); /* the retry is delayed */
    nanosleep(&pause, NULL);
    assert_null(complaint(LIBRARY));
    assert_int_equal(0, ask(LIBRARY));
}

/* A reader that dies while it is idle is replaced, and no file is lost. */
static void test_end_of_an_idle_reader_costs_nothing(void **state)
{
    const int signals[] = {SIGKILL, SIGSTOP};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        file_reader_start();
        pid_t pid = reader_pid();
        assert_true(pid > 0);
        kill(pid, signals[i]);
        siginfo_t info;
        assert_int_equal(0, waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT));
        assert_int_equal(0, ask(LIBRARY));
        assert_true(reader_pid() != pid && reader_pid() > 0);
        assert_null(complaint(LIBRARY));
    }
}

static time_t seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Send the signal while a request is in progress. */
static void end_in_the_middle(int number, const char *path)
{
    file_reader_start();
    pid_t reader = reader_pid(), killer;
    if (reader <= 0 || (killer = fork()) < 0)
        return; /* no reader is left */
    if (killer == 0) {
        usleep(20000);
        kill(reader, number);
        _exit(0);
    }
    int code = 0;
    bool has_ended = false;
    time_t begun = seconds();
    while (!has_ended && code == 0 && complaint(path) == NULL) {
        begun = seconds();
        code = ask(path);
        has_ended = waitpid(killer, NULL, WNOHANG) != 0;
    }
    /* It does not wait for the deadline of 10 s. */
    assert_true(seconds() - begun < 8);
    if (!has_ended)
        waitpid(killer, NULL, 0);
    assert_true(code == -EIO || code == 0);
}

static void test_end_in_the_middle_costs_that_file(void **state)
{
    (void)state;
    /* The signal can arrive between two requests, which has no effect. */
    for (int i = 0; i < 20 && complaint("stopped") == NULL; i++)
        end_in_the_middle(SIGSTOP, "stopped");
    assert_string_equal("the process that reads files was stopped", complaint("stopped"));
    assert_int_equal(-EIO, ask("stopped"));
    assert_int_equal(0, ask(LIBRARY));
    for (int i = 0; i < 20 && complaint("killed") == NULL; i++)
        end_in_the_middle(SIGKILL, "killed");
    assert_string_equal("the process that reads files was killed by signal 9", complaint("killed"));
    /* After two more deaths no reader is started. */
    for (int i = 0; i < 40; i++)
        end_in_the_middle(SIGKILL, i % 2 == 0 ? "third" : "fourth");
    assert_int_equal(-EIO, ask(LIBRARY));
    assert_non_null(strstr(complaint(LIBRARY), "is not started again"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_equal_the_symbol_tables),
        cmocka_unit_test(test_other_questions),
        cmocka_unit_test(test_reader_has_no_rights),
        cmocka_unit_test(test_failed_start_is_retried),
        cmocka_unit_test(test_end_of_an_idle_reader_costs_nothing),
        cmocka_unit_test(test_end_in_the_middle_costs_that_file),
    };
    library = open(LIBRARY, O_RDONLY | O_CLOEXEC);
    return library < 0 || elf_image_read(LIBRARY, &image) < 0
               ? 77
               : cmocka_run_group_tests(tests, NULL, NULL);
}
