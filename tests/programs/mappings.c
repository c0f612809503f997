/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps memory in every way, each in its own function, so that the remaining memory of each is
 * known. It checks errno and results itself, and prints them.
 *
 *   mappings ways          one thread, known figures (tests/e2e/mmap_heap.py has them)
 *   mappings threads       threads that take each other's addresses at once
 *   mappings signals       a handler that maps, in the middle of a program that maps
 *   mappings children      a fork child's mappings are its own, a vfork child's are the parent's
 *   mappings full          an munmap that fails, because it would make too many mappings
 *   mappings restricted    a filter forbids all other system calls
 *   mappings told          map on the command "map", unmap half of that on "halve"
 */
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define NOINLINE __attribute__((noinline))

enum { KIND = MAP_PRIVATE | MAP_ANONYMOUS, ACCESS = PROT_READ | PROT_WRITE };

static size_t page;

/* Map pages. A macro, so that the caller is the innermost frame. */
#define TAKE(pages) mmap(NULL, (pages)*page, ACCESS, KIND, -1, 0)

static void *sure(void *memory)
{
    assert(memory != MAP_FAILED);
    return memory;
}

/* --- ways --- */

NOINLINE static void kept_whole(void)
{
    memset(sure(TAKE(7)), 1, 7 * page);
    sure(mmap(NULL, page + 1, ACCESS, KIND, -1, 0)); /* 2 pages */
}

NOINLINE static void unmapped_whole(void)
{
    char *memory = sure(TAKE(100));
    assert(munmap(memory, 99 * page + 1) == 0);
}

NOINLINE static void cut_at_both_ends(void)
{
    char *memory = sure(TAKE(100));
    assert(munmap(memory, 10 * page) == 0);
    assert(munmap(memory + 95 * page, 5 * page) == 0);
}

NOINLINE static void split(void)
{
    char *memory = sure(TAKE(50));
    for (int i = 1; i < 50; i += 2)
        assert(munmap(memory + i * page, page) == 0);
}

NOINLINE static char *spanned_first(char *at)
{
    return sure(mmap(at, 10 * page, ACCESS, KIND | MAP_FIXED, -1, 0));
}

NOINLINE static char *spanned_second(char *at)
{
    return sure(mmap(at, 10 * page, ACCESS, KIND | MAP_FIXED, -1, 0));
}

/* Two mappings in the middle of a reservation; one call unmaps the end of one and the beginning of
 * the other. */
NOINLINE static void reserved(void)
{
    char *memory = sure(mmap(NULL, 100 * page, PROT_NONE, KIND | MAP_NORESERVE, -1, 0));
    spanned_first(memory + 20 * page);
    spanned_second(memory + 30 * page);
    assert(munmap(memory + 26 * page, 7 * page) == 0);
}

NOINLINE static void grown(void)
{
    char *memory = sure(TAKE(3));
    memory[page] = 42;
    char *moved = sure(mremap(memory, 3 * page, 400 * page, MREMAP_MAYMOVE));
    assert(moved[page] == 42);
}

NOINLINE static void shrunk(void)
{
    char *memory = sure(TAKE(30));
    assert(mremap(memory, 30 * page, 4 * page, 0) == memory);
}

NOINLINE static void moved_over(void)
{
    char *place = sure(TAKE(9)), *memory = sure(TAKE(5));
    assert(mremap(memory, 5 * page, 5 * page, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
}

NOINLINE static void left_mapped(void)
{
    char *memory = sure(TAKE(6));
    if (mremap(memory, 6 * page, 6 * page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) == MAP_FAILED)
        sure(TAKE(6)); /* kernels before 5.7 */
}

NOINLINE static void mapped_twice(void)
{
    char *memory = sure(mmap(NULL, 8 * page, ACCESS, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    char *again = sure(mremap(memory, 0, 8 * page, MREMAP_MAYMOVE));
    memory[5] = 17;
    assert(again[5] == 17);
}

NOINLINE static void failed(void)
{
    char *memory = sure(TAKE(11));
    errno = 0;
    assert(mmap(NULL, 0, ACCESS, KIND, -1, 0) == MAP_FAILED && errno == EINVAL);
    assert(mmap(NULL, page, ACCESS, MAP_PRIVATE, -1, 0) == MAP_FAILED && errno == EBADF);
    errno = 0;
    assert(munmap(memory + 1, page) == -1 && errno == EINVAL);
    errno = 0;
    assert(munmap(memory, 0) == -1 && errno == EINVAL);
    assert(mremap(memory, page, SIZE_MAX / 2, MREMAP_MAYMOVE) == MAP_FAILED);
    errno = 0;
    assert(mremap(memory + 1, page, page, 0) == MAP_FAILED && errno == EINVAL);
    errno = 0;
    assert(brk((void *)-1) == -1 && errno == ENOMEM);
    errno = ERANGE; /* a successful call keeps errno */
    assert(munmap(sure(TAKE(1)), page) == 0 && errno == ERANGE);
}

NOINLINE static void of_file(void)
{
    FILE *file = tmpfile();
    assert(file != NULL && ftruncate(fileno(file), (off_t)(4 * page)) == 0);
    sure(mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, fileno(file), (off_t)page));
    sure(mmap64(NULL, 3 * page, PROT_READ, MAP_PRIVATE, fileno(file), (off64_t)page));
    fclose(file);
}

NOINLINE static void of_break(void)
{
    char *start = sbrk(0);
    assert(sbrk(100000) == start);
    memset(start, 1, 100000);
    assert(sbrk(-30000) == start + 100000);
    assert(brk(start + 90000) == 0 && sbrk(0) == start + 90000);
    assert(brk(start + 50000) == 0);
}

static void ways(void)
{
    kept_whole();
    unmapped_whole();
    cut_at_both_ends();
    split();
    reserved();
    grown();
    shrunk();
    moved_over();
    left_mapped();
    mapped_twice();
    failed();
    of_file();
    of_break();
}

/* --- threads --- */

enum { THREADS = 8, ROUNDS = 20000, KEPT = 16 };

NOINLINE static void *kept_by_thread(size_t pages)
{
    return sure(TAKE(pages));
}

NOINLINE static void *passing(size_t pages)
{
    return sure(TAKE(pages));
}

static void *run_thread(void *unused)
{
    (void)unused;
    void *kept[KEPT] = {NULL};
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t pages = 1 + i % 3;
        char *memory = passing(pages);
        memory[0] = 1;
        unsigned place = i * 7 % KEPT;
        if (kept[place] != NULL)
            assert(munmap(kept[place], page) == 0);
        assert(munmap(memory, pages * page) == 0);
        kept[place] = kept_by_thread(1);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t running[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert(pthread_create(&running[i], NULL, run_thread, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(running[i], NULL);
}

/* --- signals --- */

enum { HANDLED = 300, BESIDE = 50000 };

static volatile sig_atomic_t handled;

NOINLINE static void in_handler(int signal)
{
    (void)signal;
    int saved = errno;
    char *memory = TAKE(4);
    if (memory == MAP_FAILED || munmap(memory, 3 * page) != 0)
        abort();
    handled++;
    errno = saved;
}

NOINLINE static void beside_handler(void)
{
    char *memory = sure(TAKE(2));
    memory[0] = 1;
    assert(munmap(memory, 2 * page) == 0);
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = in_handler};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 500}, {0, 500}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < BESIDE || handled < HANDLED; i++)
        beside_handler();
    setitimer(ITIMER_REAL, &none, NULL);
    /* The number is known only at the end. */
    signal(SIGALRM, SIG_IGN);
    printf("%d\n", (int)handled);
}

/* --- children --- */

NOINLINE static char *of_parent(void)
{
    return sure(TAKE(20));
}

NOINLINE static char *of_child(void)
{
    return sure(TAKE(33));
}

static void children(void)
{
    char *volatile memory = of_parent();
    char *volatile of_vfork = NULL;
    pid_t child = fork();
    if (child == 0) {
        assert(munmap(memory, 20 * page) == 0);
        of_child();
        _exit(0);
    }
    assert(waitpid(child, NULL, 0) == child);
    child = vfork();
    if (child == 0) {
        of_vfork = of_child();
        munmap(memory, 5 * page);
        _exit(0);
    }
    assert(waitpid(child, NULL, 0) == child);
    of_vfork[0] = memory[5 * page];
}

/* --- full --- */

NOINLINE static char *as_many_as_can_be(size_t pages)
{
    return sure(mmap(NULL, pages * page, PROT_NONE, KIND | MAP_NORESERVE, -1, 0));
}

/* Neighbours of different access are separate mappings: a hole in one makes two. */
static void full(void)
{
    enum { PAGES = 400000 };
    char *memory = as_many_as_can_be(PAGES);
    size_t i = 1;
    while (i < PAGES - 4 && mprotect(memory + i * page, page, PROT_READ) == 0)
        i += 2;
    assert(i < PAGES - 4); /* the kernel reported too many mappings */
    char *last = memory + (PAGES - 3) * page;
    errno = 0;
    while (munmap(last, page) == 0 && last > memory + i * page) /* the limit is not reached yet */
        last -= 2 * page;
    int reason = errno;
    printf("%d %zu\n", reason, (size_t)(memory + (PAGES - 3) * page - last) / page / 2);
}

/* --- restricted --- */

NOINLINE static void before_filter(void)
{
    for (int i = 0; i < 10; i++)
        sure(TAKE(2));
}

NOINLINE static void behind_filter(void)
{
    for (int i = 0; i < 100; i++)
        assert(munmap(sure(TAKE(5)), 3 * page) == 0);
}

#define ALLOW(name)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void restricted(void)
{
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(mmap),
        ALLOW(munmap),
        ALLOW(write),
        ALLOW(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    before_filter();
    assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    behind_filter();
    assert(write(STDOUT_FILENO, "done\n", 5) == 5);
    _exit(0);
}

/* --- told --- */

NOINLINE static char *mapped_when_told(void)
{
    return sure(TAKE(64));
}

static void told(void)
{
    char line[16], *memory = of_parent();
    size_t pages = 20;
    do {
        puts("ready");
        fflush(stdout);
        if (fgets(line, sizeof(line), stdin) == NULL)
            return;
        if (strcmp(line, "map\n") == 0) {
            memory = mapped_when_told();
            pages = 64;
        } else if (strcmp(line, "halve\n") == 0) {
            pages /= 2;
            assert(munmap(memory + pages * page, pages * page) == 0);
        }
    } while (strcmp(line, "end\n") != 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"ways", ways}, {"threads", threads}, {"signals", signals},      {"children", children},
        {"full", full}, {"told", told},       {"restricted", restricted}};
    page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; argc == 2 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) != 0)
            continue;
        modes[i].run();
        puts("done");
        return 0;
    }
    fputs("usage: mappings ways|threads|signals|children|full|restricted|told\n", stderr);
    return 2;
}
