/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes musl's loader ignore the preload library.
 *
 * musl's loader ends a program whose LD_PRELOAD names a library that needs glibc's symbols. So a
 * profiled shell would break the musl programs that it starts. But musl skips an object that
 * defines both `__libc_start_main` and `stdin`, which it takes for another C library. We define the
 * two under a version of our own. Programs linked to glibc ask for glibc's version and never find
 * ours. A request without a version (dlsym) may find them; they forward to glibc's.
 */
#if defined(__x86_64__)
#define OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST_GLIBC "GLIBC_2.17"
#else
#error "which was the first version of glibc here?"
#endif

#define VISIBLE __attribute__((visibility("default")))

typedef int main_function(int, char **, char **);

int glibc_start_main(main_function *main, int argc, char **argv, void (*init)(void),
                     void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
extern char glibc_stdin[]; /* the object that the pointer stdin leads to */

__asm__(".symver glibc_start_main, __libc_start_main@" OLDEST_GLIBC);
__asm__(".symver glibc_stdin, _IO_2_1_stdin_@" OLDEST_GLIBC);
__asm__(".symver foreign_loader_start_main, __libc_start_main@@@HEAPPROFD_1");
__asm__(".symver foreign_loader_stdin, stdin@@@HEAPPROFD_1");

/* The version that programs built since 2.34 ask for is the same function. */
VISIBLE int foreign_loader_start_main(main_function *main, int argc, char **argv,
                                      void (*init)(void), void (*fini)(void),
                                      void (*rtld_fini)(void), void *stack_end);
VISIBLE extern void *foreign_loader_stdin;

int foreign_loader_start_main(main_function *main, int argc, char **argv, void (*init)(void),
                              void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    return glibc_start_main(main, argc, argv, init, fini, rtld_fini, stack_end);
}

void *foreign_loader_stdin = glibc_stdin;
