/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the loader of another C library ignore the preload library.
 *
 * musl's loader ends a program whose LD_PRELOAD names a library that needs glibc's own symbols. A
 * profiled shell that starts a program of musl's would thereby break it. But musl takes an object
 * that defines both `__libc_start_main` and `stdin` for another C library and passes it over. So we
 * define the two, under a version of our own: programs linked to glibc ask for glibc's version and
 * never find them. Only a request without a version (dlsym) may, and it gets what glibc has.
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
