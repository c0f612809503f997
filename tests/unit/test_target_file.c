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
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "reader/target_file.h"
#include "util/regular_file.h"

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
    struct target_mapping mapping = {
        .pid = getpid(), .path = path, .start = (uintptr_t)memory, .end = (uintptr_t)memory + 4096};
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
    mapping = (struct target_mapping){.path = path};
    assert_int_equal(-1, target_file_open(&mapping, TARGET_FILE_BY_PATH, &status));
    mapping.shares_root = regular_file_shares_root(getpid());
    assert_true(mapping.shares_root);
    assert_int_equal('s', first_byte(target_file_open(&mapping, TARGET_FILE_BY_PATH, &status)));
    munmap(memory, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_and_dots_stay_below_the_root),
        cmocka_unit_test(test_nothing_but_regular_files_is_opened),
        cmocka_unit_test(test_the_mapped_file_is_opened),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
