/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes processes that share its memory, as lines of standard input say:
 *
 *   vfork   a child of vfork(), which waits and then becomes `sleep 3600`; the parent waits for
 * that peer    a process by clone(CLONE_VM), which waits until it is killed
 *
 * Prints the pid of each. At the end of its input it prints whether the first bytes of malloc are
 * those of its beginning.
 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

enum { STACK = 64 << 10, ENTRY = 16 };

static int waits(void *unused)
{
    (void)unused;
    while (pause() < 0)
        ;
    return 0;
}

static pid_t make_peer(void)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stack != MAP_FAILED);
    return clone(waits, stack + STACK, CLONE_VM | SIGCHLD, NULL);
}

static void make_child(void)
{
    char *const command[] = {"sleep", "3600", NULL};
    if (vfork() != 0)
        return;
    char line[32], byte;
    /* Standard output's buffer is the parent's. */
    int length = snprintf(line, sizeof(line), "%d\n", getpid());
    if (write(STDOUT_FILENO, line, (size_t)length) == length && read(STDIN_FILENO, &byte, 1) == 1)
        execv("/bin/sleep", command);
    _exit(1);
}

int main(void)
{
    unsigned char begun[ENTRY];
    const void *entry = dlsym(RTLD_DEFAULT, "malloc");
    char word[16];
    memcpy(begun, entry, sizeof(begun));
    puts("ready");
    fflush(stdout);
    /* Unbuffered: the child of vfork() reads from it, too. */
    setvbuf(stdin, NULL, _IONBF, 0);
    while (scanf("%15s%*c", word) == 1) {
        if (strcmp(word, "vfork") == 0) {
            make_child();
            puts("on");
        } else {
            printf("%d\n", make_peer());
        }
        free(kept(malloc(100)));
        fflush(stdout);
    }
    puts(memcmp(begun, entry, sizeof(begun)) == 0 ? "unchanged" : "changed");
    return 0;
}
