/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes that are used incorrectly, or left in every way that the language allows. Each allocation
 * has a unique size; standard output has its expected context, in lines
 *
 *   BYTES NAME;NAME
 *
 * outermost first. "BYTES ?" accepts any context: a jump left a scope whose memory is in use again.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap_profile.h"
#include "truth.h"

typedef struct HeapProfileScope scope;

static uint32_t heap;
static uint64_t next_bytes = 1;

static CALLSITE void allocate_in(const char *context)
{
    uint64_t bytes = next_bytes++;
    AHeapProfile_reportAllocation(heap, bytes, bytes);
    free(kept(malloc(bytes)));
    printf("%llu %s\n", (unsigned long long)bytes, context);
}

static CALLSITE void use_stack_again(void)
{
    char memory[4096];
    memset(memory, 0x5a, sizeof(memory));
    kept(memory);
}

static void in_turn(void)
{
    scope a, b;
    HeapProfile_pushContext(&a, "a");
    allocate_in("a");
    HeapProfile_pushContext(&b, "b");
    allocate_in("a;b");
    HeapProfile_popContext(&b);
    allocate_in("a");
    HeapProfile_popContext(&a);
    allocate_in("");
}

/* The outer scope first: this pops the inner one, too, whose own pop then has no effect. */
static void crossed(void)
{
    scope a, b, c;
    HeapProfile_pushContext(&a, "a");
    HeapProfile_pushContext(&b, "b");
    HeapProfile_pushContext(&c, "c");
    HeapProfile_popContext(&b);
    allocate_in("a");
    HeapProfile_popContext(&c);
    allocate_in("a");
    HeapProfile_popContext(&b);
    allocate_in("a");
    HeapProfile_pushContext(&c, "c");
    allocate_in("a;c");
    HeapProfile_popContext(&a);
    allocate_in("");
    HeapProfile_popContext(&c);
    HeapProfile_popContext(&a);
    allocate_in("");
}

static void never_pushed(void)
{
    scope a, zeros = {0}, garbage;
    memset(&garbage, 0xa5, sizeof(garbage));
    HeapProfile_popContext(&zeros);
    HeapProfile_popContext(&garbage);
    allocate_in("");
    HeapProfile_pushContext(&a, "a");
    memset(&garbage, 0xa5, sizeof(garbage));
    HeapProfile_popContext(&garbage);
    HeapProfile_popContext(&zeros);
    allocate_in("a");
    HeapProfile_popContext(&a);
}

static CALLSITE void jump_out(jmp_buf *back, const char *context)
{
    HEAP_PROFILE_SCOPE("inner");
    HEAP_PROFILE_SCOPE("innermost");
    allocate_in(context);
    longjmp(*back, 1);
}

/* Repeatedly from the same place, so that the same storage is pushed. */
static void by_longjmp(void)
{
    HEAP_PROFILE_SCOPE("outer");
    for (volatile int i = 0; i < 3; i++) {
        jmp_buf back;
        if (setjmp(back) == 0)
            jump_out(&back, i == 0 ? "outer;inner;innermost" : "?");
        use_stack_again();
        allocate_in("?");
    }
}

static CALLSITE void jump_out_at_once(jmp_buf *back, const char *context)
{
    HEAP_PROFILE_SCOPE("left");
    allocate_in(context);
    longjmp(*back, 1);
}

/* Only the next scope overwrites the abandoned one. */
static void by_longjmp_at_once(void)
{
    jmp_buf back;
    volatile int rounds = 0;
    setjmp(back);
    if (rounds++ < 3)
        jump_out_at_once(&back, "left");
}

static void ended_by_the_outer_one(void)
{
    scope outer;
    HeapProfile_pushContext(&outer, "outer");
    jmp_buf back;
    if (setjmp(back) == 0)
        jump_out(&back, "outer;inner;innermost");
    use_stack_again();
    HeapProfile_popContext(&outer);
    allocate_in("");
}

/* The storage is unmapped now. */
static void unmapped(void)
{
    scope *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(gone != MAP_FAILED);
    scope outer, inner;
    HeapProfile_pushContext(&outer, "outer");
    HeapProfile_pushContext(gone, "gone");
    HeapProfile_pushContext(&inner, "inner");
    munmap(gone, 4096);
    allocate_in("inner");
    HeapProfile_popContext(&inner);
    allocate_in("");
    HeapProfile_popContext(&outer);
    allocate_in("");
}

static void *end_inside(void *unused)
{
    scope outer, inner;
    HeapProfile_pushContext(&outer, "thread");
    HeapProfile_pushContext(&inner, "ended");
    allocate_in("thread;ended");
    pthread_exit(unused);
}

static void *begin_again(void *unused)
{
    scope outer, inner;
    allocate_in("");
    HeapProfile_pushContext(&outer, "next");
    HeapProfile_pushContext(&inner, "thread");
    allocate_in("next;thread");
    HeapProfile_popContext(&outer);
    allocate_in("");
    return unused;
}

static void on_thread(void *(*what)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, what, NULL) == 0);
    pthread_join(thread, NULL);
}

static void threads(void)
{
    HEAP_PROFILE_SCOPE("main");
    on_thread(end_inside);
    on_thread(begin_again); /* in the same memory */
    allocate_in("main");
}

static void of_long_names(void)
{
    static char name[5000];
    memset(name, 'x', sizeof(name) - 1);
    HEAP_PROFILE_SCOPE(name);
    allocate_in("?");
    HEAP_PROFILE_SCOPE("");
    allocate_in("?");
    HEAP_PROFILE_SCOPE(NULL);
    allocate_in("?");
}

int main(void)
{
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    heap = AHeapProfile_registerHeap(AHeapInfo_create("scopes"));
    in_turn();
    crossed();
    never_pushed();
    by_longjmp_at_once();
    unmapped();
    threads();
    ended_by_the_outer_one();
    by_longjmp();
    allocate_in("");
    of_long_names();
    allocate_in("");
    return 0;
}
