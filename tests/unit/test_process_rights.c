/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a process names: which are opened with its rights, and which are never opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "util/heartbeat.h"
#include "util/pass_descriptor.h"
#include "util/process_rights.h"
#include "util/regular_file.h"

#define ANN 54501
#define BEN 54502
#define GROUP 54601

static char place[] = "/tmp/test_process_rights.XXXXXX";
static struct process_rights rights;
static pid_t process;
static int root;

/* Start a process of Ann's in the group, and read its rights. */
static void start(void)
{
    const gid_t groups[] = {GROUP};
    process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (setgroups(1, groups) < 0 || setresgid(ANN, ANN, ANN) < 0 ||
            setresuid(ANN, ANN, ANN) < 0)
            _exit(1);
        setenv("COLOUR", "green", 1);
        execl("/bin/sleep", "sleep", "60", NULL);
        _exit(1);
    }
}

static void make(const char *name, uid_t owner, gid_t group, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", place, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, "text", 4) == 4);
    assert_int_equal(0, fchown(fd, owner, group));
    assert_int_equal(0, fchmod(fd, mode));
    close(fd);
}

static int set_up(void **state)
{
    char path[128];
    (void)state;
    if (mkdtemp(place) == NULL || geteuid() != 0)
        return 0;
    chmod(place, 0755);
    make("own", ANN, ANN, 0600);
    make("of_root", 0, 0, 0600);
    make("of_ben", BEN, BEN, 0600);
    make("of_group", 0, GROUP, 0640);
    make("not_for_group", 0, GROUP, 0604);
    make("of_all", 0, 0, 0644);
    snprintf(path, sizeof(path), "%s/closed", place);
    mkdir(path, 0700);
    make("closed/of_all", 0, 0, 0644);
    snprintf(path, sizeof(path), "%s/fifo", place);
    mkfifo(path, 0666);
    snprintf(path, sizeof(path), "%s/link", place);
    if (symlink("of_root", path) < 0)
        return -1;
    start();
    for (int i = 0; i < 1000 && (!rights.is_known || rights.uid != ANN); i++) {
        process_rights_read(&rights, process);
        usleep(10000);
    }
    root = regular_file_root_of(process);
    return root >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    if (process > 0) {
        kill(process, SIGKILL);
        waitpid(process, NULL, 0);
    }
    snprintf(command, sizeof(command), "rm -rf %s", place);
    return system(command);
}

/* Open a file of the place, or a path. Return 0 or the error. */
static int outcome(const char *name)
{
    char path[128];
    struct stat status;
    snprintf(path, sizeof(path), "%s%s%s", *name == '/' ? "" : place, *name == '/' ? "" : "/",
             name);
    int fd = process_rights_open(&rights, root, path, 0, &status);
    if (fd < 0)
        return fd;
    char text[4] = "";
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(4, read(fd, text, 4));
    assert_memory_equal("text", text, 4);
    close(fd);
    return 0;
}

/* --- a file that is replaced as soon as it was looked at --- */

static const char *replaced, *replacement;

int __real_statx(int directory, const char *path, int flags, unsigned mask, struct statx *known);
int __wrap_statx(int directory, const char *path, int flags, unsigned mask, struct statx *known);

int __wrap_statx(int directory, const char *path, int flags, unsigned mask, struct statx *known)
{
    int code = __real_statx(directory, path, flags, mask, known);
    if (replaced != NULL)
        rename(replacement, replaced);
    replaced = NULL;
    return code;
}

/* --- a clock that a test can put forward --- */

static uint64_t forward_ms, clone_ms;
static unsigned clones;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = __real_clock_gettime(clock, now);
    now->tv_sec += (time_t)(forward_ms / 1000);
    return code;
}

long __wrap_syscall(long number, ...)
{
    /* No caller passes more. A sixth one would be read from the caller's frame. */
    long a[5];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 5; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    long result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
    if (number == SYS_clone && result > 0)
        forward_ms += clone_ms, clones++;
    return result;
}

/* --- a child that does not end when it is killed --- */

static bool is_stuck;

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    return is_stuck && (options & WNOHANG) != 0 ? 0 : __real_waitpid(pid, status, options);
}

static void wait_long(void)
{
    forward_ms += 3000;
}

static void need_root(void)
{
    if (geteuid() != 0)
        skip();
}

static void test_files_open_with_the_rights_of_the_process(void **state)
{
    (void)state;
    need_root();
    assert_true(rights.is_known && !rights.has_ours && rights.shares_root);
    assert_int_equal(ANN, rights.uid);
    assert_int_equal(0, outcome("own"));
    assert_int_equal(0, outcome("of_group"));
    assert_int_equal(0, outcome("of_all"));
    assert_int_equal(-EACCES, outcome("of_root"));
    assert_int_equal(-EACCES, outcome("link"));
    assert_int_equal(-EACCES, outcome("of_ben"));
    assert_int_equal(-EACCES, outcome("not_for_group"));
    assert_int_equal(-EACCES, outcome("closed/of_all"));
    assert_int_equal(-ENOENT, outcome("nothing"));
    assert_int_equal(-EINVAL, outcome("fifo"));
    assert_int_equal(-EINVAL, outcome("/dev/null"));
    /* The same below our own root, for a process that has ended. */
    struct stat status;
    char path[128];
    snprintf(path, sizeof(path), "%s/of_root", place);
    assert_int_equal(-EACCES, process_rights_open(&rights, -1, path, 0, &status));
}

static void test_files_of_proc_are_not_opened(void **state)
{
    char path[64];
    (void)state;
    need_root();
    /* It would be that of the child, a copy of this process. */
    assert_int_equal(-EINVAL, outcome("/proc/self/cmdline"));
    assert_int_equal(-EINVAL, outcome("/proc/self/maps"));
    /* Root's, which a capability would open whatever the user. */
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)getpid());
    assert_int_equal(-EINVAL, outcome(path));
    assert_int_equal(-EINVAL, outcome("/proc/sys/net/ipv4/tcp_fastopen_key"));
}

static void test_own_memory_is_read(void **state)
{
    static char text[1 << 16];
    (void)state;
    need_root();
    ssize_t length = process_rights_read_memory(&rights, process, "environ", text, sizeof(text));
    assert_true(length > 0 && text[length] == '\0');
    assert_non_null(memmem(text, (size_t)length, "COLOUR=green", 13));
    /* The pid's next process is another one. */
    struct process_rights last = rights;
    last.start_ticks--;
    assert_int_equal(-ESRCH,
                     process_rights_read_memory(&last, process, "environ", text, sizeof(text)));
}

/* Become a process of Ben's whose environment lies in memory that nobody ever fills. */
static _Noreturn void have_endless_environment(int ready)
{
    const struct uffdio_api api = {.api = UFFD_API};
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {.range = {(uintptr_t)page, 4096},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    bool is_made = fd >= 0 && page != MAP_FAILED && ioctl(fd, UFFDIO_API, &api) == 0 &&
                   ioctl(fd, UFFDIO_REGISTER, &range) == 0 &&
                   prctl(PR_SET_MM, PR_SET_MM_ENV_START, page, 0, 0) == 0 &&
                   prctl(PR_SET_MM, PR_SET_MM_ENV_END, page + 4096, 0, 0) == 0 &&
                   setgroups(0, NULL) == 0 && setresgid(BEN, BEN, BEN) == 0 &&
                   setresuid(BEN, BEN, BEN) == 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (write(ready, is_made ? "y" : "n", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void test_memory_that_never_comes_costs_its_user_a_budget(void **state)
{
    struct process_rights bens = {0};
    static char text[4096];
    int ready[2];
    char byte = 'n';
    (void)state;
    need_root();
    assert_int_equal(0, pipe(ready));
    pid_t child = fork();
    if (child == 0)
        have_endless_environment(ready[1]);
    assert_int_equal(1, read(ready[0], &byte, 1));
    close(ready[0]), close(ready[1]);
    if (byte == 'y') {
        process_rights_read(&bens, child);
        assert_int_equal(BEN, bens.uid);
        assert_int_equal(-ETIMEDOUT,
                         process_rights_read_memory(&bens, child, "environ", text, sizeof(text)));
        /* Nothing else of Ben's is tried for a while; others do not suffer. */
        struct stat status;
        char path[128];
        snprintf(path, sizeof(path), "%s/of_ben", place);
        assert_int_equal(-ETIMEDOUT, process_rights_open(&bens, root, path, 0, &status));
        assert_int_equal(0, outcome("own"));
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (byte != 'y')
        skip();
}

/* Return whether the process is a copy of this one that is not dead. */
static bool is_living_copy(pid_t pid)
{
    char path[64], name[32] = "", state = 'Z';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    int got = fscanf(file, "%*d (%31[^)]) %c", name, &state);
    fclose(file);
    return got == 2 && strncmp(name, "test_process", 12) == 0 && state != 'Z';
}

/* Wait until the copies that were killed are dead: they may need a processor for that. */
static void await_killed(void)
{
    for (bool any = true; any; usleep(1000)) {
        int pid;
        FILE *children = fopen("/proc/thread-self/children", "r");
        assert_non_null(children);
        any = false;
        while (fscanf(children, "%d", &pid) == 1)
            any |= is_living_copy(pid);
        fclose(children);
    }
}

static void test_what_waits_costs_its_user_a_budget(void **state)
{
    struct process_rights bens = rights;
    struct stat status;
    char path[128];
    (void)state;
    need_root();
    bens.uid = bens.gid = BEN;
    snprintf(path, sizeof(path), "%s/of_ben", place);
    heartbeat_set(wait_long); /* while it waits for the child */
    assert_int_equal(-ETIMEDOUT, process_rights_open(&bens, root, path, 0, &status));
    heartbeat_set(NULL);
    assert_int_equal(-ETIMEDOUT, process_rights_open(&bens, root, path, 0, &status));
    assert_int_equal(0, outcome("own"));
    forward_ms += 61000;
    await_killed();
    int fd = process_rights_open(&bens, root, path, 0, &status);
    assert_true(fd >= 0);
    close(fd);
}

/* Become a process of Ben's that is in too many groups for its rights to be known, and executes
 * a file that lies on no disk. */
static _Noreturn void have_many_groups(void)
{
    gid_t groups[PROCESS_RIGHTS_GROUPS_MAX + 1];
    char *const arguments[] = {(char *)"sleep", (char *)"60", NULL};
    int from = open("/bin/sleep", O_RDONLY | O_CLOEXEC);
    int to = memfd_create("program", MFD_CLOEXEC);
    for (int i = 0; i <= PROCESS_RIGHTS_GROUPS_MAX; i++)
        groups[i] = GROUP + (gid_t)i;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (sendfile(to, from, NULL, 1 << 20) > 0)
        ;
    if (setgroups(PROCESS_RIGHTS_GROUPS_MAX + 1, groups) == 0 && setresgid(BEN, BEN, BEN) == 0 &&
        setresuid(BEN, BEN, BEN) == 0)
        fexecve(to, arguments, environ);
    _exit(1);
}

static bool has_executed(pid_t pid)
{
    char link[32], found[64] = "";
    snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
    return readlink(link, found, sizeof(found) - 1) > 0 && strncmp(found, "/memfd:", 7) == 0;
}

/* Have somebody's files wait until the budget is used up. */
static void spend(uid_t uid)
{
    struct process_rights theirs = rights;
    struct stat status;
    char path[128];
    theirs.uid = uid;
    snprintf(path, sizeof(path), "%s/of_all", place);
    heartbeat_set(wait_long);
    assert_int_equal(-ETIMEDOUT, process_rights_open(&theirs, root, path, 0, &status));
    heartbeat_set(NULL);
}

static void test_a_process_of_unknown_rights_spends_its_users_budget(void **state)
{
    struct process_rights unknown = {0};
    struct stat status;
    char text[4096], link[32];
    (void)state;
    need_root();
    pid_t child = fork();
    if (child == 0)
        have_many_groups();
    for (int i = 0; i < 1000 && !has_executed(child); i++)
        usleep(10000);
    assert_true(has_executed(child));
    process_rights_read(&unknown, child);
    assert_false(unknown.is_known);
    assert_int_equal(BEN, unknown.uid);
    snprintf(link, sizeof(link), "/proc/%d/exe", (int)child);
    int fd = process_rights_open_mapped(link, &status);
    assert_true(fd >= 0);
    close(fd);
    spend(0); /* which is not theirs */
    await_killed();
    assert_true(process_rights_read_memory(&unknown, child, "environ", text, sizeof(text)) > 0);
    fd = process_rights_open_mapped(link, &status);
    assert_true(fd >= 0);
    close(fd);
    spend(BEN);
    assert_int_equal(-ETIMEDOUT,
                     process_rights_read_memory(&unknown, child, "environ", text, sizeof(text)));
    assert_int_equal(-ETIMEDOUT, process_rights_open_mapped(link, &status));
    forward_ms += 61000;
    await_killed();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void test_a_user_has_one_stuck_child(void **state)
{
    (void)state;
    need_root();
    struct process_rights bens = rights;
    struct stat status;
    char path[128];
    bens.uid = bens.gid = BEN;
    snprintf(path, sizeof(path), "%s/of_ben", place);
    is_stuck = true;
    spend(BEN);
    forward_ms += 61000;
    clones = 0;
    assert_int_equal(-ETIMEDOUT, process_rights_open(&bens, root, path, 0, &status));
    assert_int_equal(0, clones);
    assert_int_equal(0, outcome("own"));
    is_stuck = false;
    for (int fd = -1; fd < 0; usleep(1000)) {
        fd = process_rights_open(&bens, root, path, 0, &status);
        assert_true(fd >= 0 || fd == -ETIMEDOUT);
        if (fd >= 0)
            close(fd);
    }
}

/* To copy a large process takes long. */
static void test_the_start_of_a_child_costs_its_user_nothing(void **state)
{
    (void)state;
    need_root();
    clone_ms = 3000;
    for (int i = 0; i < 2; i++)
        assert_int_equal(0, outcome("own"));
    clone_ms = 0;
}

static void test_the_mapped_file_that_was_looked_at_is_opened(void **state)
{
    char path[128], other[128], link[192];
    struct stat seen, status;
    (void)state;
    need_root();
    make("mapped", 0, 0, 0600);
    make("other", 0, 0, 0600);
    snprintf(path, sizeof(path), "%s/mapped", place);
    snprintf(other, sizeof(other), "%s/other", place);
    snprintf(link, sizeof(link), "/proc/%d/root%s", (int)getpid(), path);
    assert_int_equal(0, stat(path, &seen));
    replaced = path;
    replacement = other;
    int fd = process_rights_open_mapped(link, &status);
    assert_true(fd >= 0);
    close(fd);
    assert_null(replaced);
    assert_int_equal(seen.st_ino, status.st_ino);
}

static void test_what_is_unknown_opens_nothing(void **state)
{
    struct process_rights unknown = {0};
    struct stat status;
    (void)state;
    need_root();
    assert_int_equal(-EACCES, process_rights_open(&unknown, root, "/etc/passwd", 0, &status));
    process_rights_read(&unknown, 0);
    assert_false(unknown.is_known);
    /* The last known rights stay, also if the pid is that of another process now, root's. */
    struct process_rights last = rights;
    last.start_ticks = 1; /* in no clock tick of a process that runs now */
    struct process_rights kept = last;
    process_rights_read(&kept, 1 << 30);
    assert_memory_equal(&last, &kept, sizeof(kept));
    process_rights_read(&kept, getpid());
    assert_memory_equal(&last, &kept, sizeof(kept));
}

/* Return the number of the first wrong answer of a profiler that cannot change its user, or 0. */
static int wrong_without_setuid(void)
{
    static const struct {
        const char *name;
        int expected;
    } asked[] = {
        {"own", 0},          {"of_all", 0},         {"of_root", -EACCES},        {"link", -EACCES},
        {"of_ben", -EACCES}, {"of_group", -EACCES}, {"/proc/self/maps", -EINVAL}};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, data) < 0)
        return 100;
    data[0].effective &= ~(UINT32_C(1) << CAP_SETUID);
    if (syscall(SYS_capset, &header, data) < 0)
        return 101;
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        if (outcome(asked[i].name) != asked[i].expected)
            return (int)i + 1;
    }
    return 0;
}

static void test_without_setuid_only_what_its_user_or_all_may_read(void **state)
{
    int status;
    (void)state;
    need_root();
    pid_t child = fork();
    if (child == 0)
        _exit(wrong_without_setuid());
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_true(WIFEXITED(status));
    assert_int_equal(0, WEXITSTATUS(status));
}

static int open_own(void)
{
    struct stat status;
    char path[128];
    snprintf(path, sizeof(path), "%s/own", place);
    return process_rights_open(&rights, root, path, 0, &status);
}

/* From now on this process can get no descriptor. */
static void use_up_descriptors(void)
{
    const struct rlimit none = {1, 1}; /* poll() needs one */
    setrlimit(RLIMIT_NOFILE, &none);
}

static int open_without_room(void)
{
    heartbeat_set(use_up_descriptors); /* while it waits for the child */
    return open_own();
}

/* Have Ann send more descriptors than processes of hers may have on their way. */
static bool fill_sockets(int entrance)
{
    char byte = 0;
    const struct iovec part = {&byte, 1};
    int status;
    pid_t ann = fork();
    if (ann == 0) {
        bool is_sent = setresuid(ANN, ANN, ANN) == 0;
        for (int i = 0; i < 40; i++)
            is_sent &= pass_descriptor(entrance, &part, 1, entrance, MSG_DONTWAIT) == 1;
        _exit(is_sent ? 0 : 1);
    }
    return waitpid(ann, &status, 0) == ann && status == 0;
}

static int open_of_user_with_full_sockets(void)
{
    const struct rlimit few = {32, 32};
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets) < 0 ||
        !fill_sockets(sockets[0]) || setrlimit(RLIMIT_NOFILE, &few) < 0)
        return 1;
    return open_own();
}

/* In a child, whose limits no other test has. Return the error, or 0 if it opened something. */
static int error_of(int (*open_file)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        int code = open_file();
        _exit(code < 0 ? -code : 0);
    }
    assert_int_equal(child, waitpid(child, &status, 0));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Descriptor 0 is a file, too. */
static void test_a_descriptor_that_does_not_arrive_is_an_error(void **state)
{
    (void)state;
    need_root();
    assert_int_equal(EMFILE, error_of(open_without_room));
    assert_int_equal(ETOOMANYREFS, error_of(open_of_user_with_full_sockets));
}

static void test_no_child_stays(void **state)
{
    (void)state;
    need_root();
    for (int i = 0; i < 20; i++)
        outcome("of_root");
    /* The one that waited for Ben's memory has ended with it, and is counted once more. */
    assert_int_equal(0, waitpid(-1, NULL, __WALL | WNOHANG));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_open_with_the_rights_of_the_process),
        cmocka_unit_test(test_files_of_proc_are_not_opened),
        cmocka_unit_test(test_own_memory_is_read),
        cmocka_unit_test(test_memory_that_never_comes_costs_its_user_a_budget),
        cmocka_unit_test(test_what_waits_costs_its_user_a_budget),
        cmocka_unit_test(test_a_process_of_unknown_rights_spends_its_users_budget),
        cmocka_unit_test(test_a_user_has_one_stuck_child),
        cmocka_unit_test(test_the_start_of_a_child_costs_its_user_nothing),
        cmocka_unit_test(test_the_mapped_file_that_was_looked_at_is_opened),
        cmocka_unit_test(test_what_is_unknown_opens_nothing),
        cmocka_unit_test(test_without_setuid_only_what_its_user_or_all_may_read),
        cmocka_unit_test(test_a_descriptor_that_does_not_arrive_is_an_error),
        cmocka_unit_test(test_no_child_stays),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
