/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a process names or maps: which file is opened, and which is never opened. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/reader/target_file.h"
#include "util/kernel_calls.h"
#include "util/regular_file.h"
#include "util/seccomp_program.h"

static char top[64], outside[96], root_path[96];
static int root;

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, text, 4096) == 4096);
    close(fd);
}

static void link_in_root(const char *name, const char *to)
{
    assert_int_equal(0, symlinkat(to, root, name));
}

static int set_up(void **state)
{
    char text[4096] = "outside", path[128];
    (void)state;
    snprintf(top, sizeof(top), "/tmp/test_target_file.XXXXXX");
    if (mkdtemp(top) == NULL)
        return -1;
    snprintf(outside, sizeof(outside), "%s/secret", top);
    snprintf(root_path, sizeof(root_path), "%s/root", top);
    write_file(outside, text);
    mkdir(root_path, 0700);
    root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/inside", root_path);
    strcpy(text, "inside");
    write_file(path, text);
    return root >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    close(root);
    snprintf(command, sizeof(command), "rm -rf %s", top);
    return system(command);
}

static int open_below(const char *path)
{
    struct stat status;
    int fd = regular_file_open_below(root, path, 0, &status);
    if (fd >= 0)
        close(fd);
    return fd;
}

static void assert_inside(const char *path)
{
    char text[8] = "";
    struct stat status;
    int fd = regular_file_open_below(root, path, 0, &status);
    assert_true(fd >= 0);
    assert_int_equal(sizeof(text) - 1, read(fd, text, sizeof(text) - 1));
    assert_string_equal("inside", text);
    close(fd);
}

static void test_links_and_dots_stay_below_the_root(void **state)
{
    char absolute[128];
    (void)state;
    assert_inside("/inside");
    link_in_root("good", "/inside");
    assert_inside("/good");
    link_in_root("absolute", outside);
    link_in_root("relative", "../secret");
    link_in_root("magic", "/proc/self/root");
    assert_int_equal(-ENOENT, open_below("/absolute"));
    assert_int_equal(-ENOENT, open_below("/relative"));
    assert_int_equal(-ENOENT, open_below("/../secret"));
    snprintf(absolute, sizeof(absolute), "/magic%s", outside);
    assert_int_equal(-ENOENT, open_below(absolute));
    assert_inside("/../inside");
    struct stat status;
    assert_int_equal(-ELOOP, regular_file_open_below(root, "/good", O_NOFOLLOW, &status));
}

/* Refuse openat2(), as an old kernel does or a filter of system calls. */
static void refuse_openat2(unsigned error)
{
    struct sock_filter filter[] = {
        SECCOMP_LOAD(nr),
        SECCOMP_JUMP(BPF_JEQ, SYS_openat2, 0, 1),
        SECCOMP_RETURN(SECCOMP_RET_ERRNO | error),
        SECCOMP_RETURN(SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* Return the number of the first wrong answer, or 0. */
static int wrong_below(unsigned error)
{
    static const struct {
        const char *path;
        int flags, expected;
    } asked[] = {
        {"/good", 0, 0},
        {"good", 0, 0},
        {"/../inside", 0, 0},
        {"/./deep/../deep/.././inside", 0, 0},
        {"/deep/up", 0, 0},
        {"/absolute", 0, -ENOENT},
        {"/relative", 0, -ENOENT},
        {"/../secret", 0, -ENOENT},
        {"/good", O_NOFOLLOW, -ELOOP},
        {"/inside", O_NOFOLLOW, 0},
        {"/round", 0, -ELOOP},
        {"/inside/below", 0, -ENOTDIR},
        {"/deep", 0, -EINVAL},
        {"/", 0, -EINVAL},
    };
    char path[128];
    struct stat status;
    refuse_openat2(error);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        int fd = regular_file_open_below(root, asked[i].path, asked[i].flags, &status);
        if ((fd >= 0 ? 0 : fd) != asked[i].expected)
            return (int)i + 1;
        close(fd);
    }
    snprintf(path, sizeof(path), "/magic%s", outside);
    if (regular_file_open_below(root, path, 0, &status) != -ENOENT)
        return 100;
    /* Nothing stays open. */
    int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return lowest > root + 1 ? 101 : 0;
}

static void test_links_stay_below_the_root_without_openat2(void **state)
{
    static const unsigned errors[] = {EPERM, ENOSYS};
    (void)state;
    assert_int_equal(0, mkdirat(root, "deep", 0755));
    link_in_root("deep/up", "../../../inside");
    link_in_root("round", "round");
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(wrong_below(errors[i]));
        assert_int_equal(child, waitpid(child, &status, 0));
        assert_true(WIFEXITED(status));
        assert_int_equal(0, WEXITSTATUS(status));
    }
}

static void test_nothing_but_regular_files_is_opened(void **state)
{
    char fifo[128];
    struct stat status;
    (void)state;
    snprintf(fifo, sizeof(fifo), "%s/fifo", root_path);
    assert_int_equal(0, mkfifo(fifo, 0600));
    assert_int_equal(-EINVAL, regular_file_open(fifo, &status));
    assert_int_equal(-EINVAL, open_below("/fifo"));
    assert_int_equal(-EINVAL, regular_file_open("/dev/zero", &status));
    assert_int_equal(-EINVAL, regular_file_open("/tmp", &status));
    assert_int_equal(-ENOENT, regular_file_open("/nowhere/at/all", &status));
}

static char first_byte(int fd)
{
    char byte = 0;
    assert_true(fd >= 0 && pread(fd, &byte, 1, 0) == 1);
    close(fd);
    return byte;
}

/* The mapped file is opened, although its path is another file now. */
static void test_the_mapped_file_is_opened(void **state)
{
    char path[128], text[4096] = "first";
    struct stat status;
    (void)state;
    snprintf(path, sizeof(path), "%s/mapped", top);
    write_file(path, text);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_true(memory != MAP_FAILED);
    unlink(path);
    strcpy(text, "second");
    write_file(path, text);
    struct process_rights rights = {0};
    struct target_mapping mapping = {.pid = getpid(),
                                     .path = path,
                                     .start = (uintptr_t)memory,
                                     .end = (uintptr_t)memory + 4096,
                                     .rights = &rights};
    assert_int_equal('s', first_byte(target_file_open(&mapping, TARGET_FILE_IN_ROOT, &status)));
    /* The target's root is visible: our own view is not used. */
    assert_int_equal(-1, target_file_open(&mapping, TARGET_FILE_BY_PATH, &status));
    fd = target_file_open(&mapping, TARGET_FILE_MAPPED, &status);
    if (geteuid() == 0 && fd >= 0)
        assert_int_equal('f', first_byte(fd));
    /* The file has another name and no build id to compare: it may belong to a later program. */
    mapping.path = "/another/name";
    assert_int_equal(-1, target_file_open(&mapping, TARGET_FILE_MAPPED, &status));
    /* In a container the path leads elsewhere, and nothing shows whether the file is the same. */
    struct process_rights unknown = {.has_ours = true};
    mapping = (struct target_mapping){.path = path, .rights = &unknown};
    assert_int_equal(-1, target_file_open(&mapping, TARGET_FILE_BY_PATH, &status));
    mapping.rights = &rights;
    assert_true(rights.shares_root && rights.has_ours);
    assert_int_equal('s', first_byte(target_file_open(&mapping, TARGET_FILE_BY_PATH, &status)));
    munmap(memory, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_and_dots_stay_below_the_root),
        cmocka_unit_test(test_links_stay_below_the_root_without_openat2),
        cmocka_unit_test(test_nothing_but_regular_files_is_opened),
        cmocka_unit_test(test_the_mapped_file_is_opened),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
