/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A preloaded library for tests: at some allocations of the program it walks the stack with this
 * project's unwinder and with libunwind, both from the same registers, and compares frame by frame.
 *
 * Figures and the first differences go to UNWIND_CHECK_DIR/<pid>.<start>, a mapped file, so that
 * they survive however the process ends. On average every UNWIND_CHECK_EVERY-th allocation is
 * checked. With UNWIND_CHECK_LIBGCC the reference is the compiler's own unwinder: libunwind 1.6
 * does not know signed return addresses (aarch64).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#if __has_include(<libunwind.h>)
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#else
#include <ucontext.h>
#define unw_context_t ucontext_t
#define unw_getcontext getcontext
#endif

#include "client/arch/unwind.h"
#include "client/libc/libc.h"
#include "client/modules/module.h"
#include "client/unwind/unwind.h"
#include "client/unwind/unwind_memory.h"
#include "wire/barrier.h"

#define FRAMES_MAX 512u
#define TEXT_BYTES (256u << 10)
#define EXPORT __attribute__((visibility("default")))

/* The file's content; the script depends on this layout. */
struct results {
    uint64_t stacks, identical, frames;
    uint64_t stops[8];       /* by enum unwind_stop */
    uint64_t ours_shorter;   /* a prefix of theirs */
    uint64_t theirs_shorter; /* theirs is a prefix of ours */
    uint64_t differ;         /* a frame differs */
    uint64_t text_used;
    char command[64];
    char text[TEXT_BYTES];
};

struct scratch {
    struct unwind_memory memory;
    uint64_t ours[FRAMES_MAX], theirs[FRAMES_MAX];
};

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static char early[65536];
static size_t early_used;

static struct results *results;
static int results_pid, resolving;
static uint64_t every = 100;
static bool with_libgcc;

static __thread __attribute__((tls_model("initial-exec"))) int inside;
static __thread __attribute__((tls_model("initial-exec"))) uint64_t random_state;
static __thread __attribute__((tls_model("initial-exec"))) struct unwind_stack_bounds bounds;
static __thread __attribute__((tls_model("initial-exec"))) struct scratch *scratch;

static void *early_allocate(size_t size)
{
    size_t at = (early_used + 15) & ~(size_t)15;
    if (size > sizeof(early) - at)
        return NULL;
    early_used = at + size;
    return early + at;
}

static void resolve(void)
{
    resolving = 1;
    real_calloc = dlsym(RTLD_NEXT, "calloc");
    real_realloc = dlsym(RTLD_NEXT, "realloc");
    real_malloc = dlsym(RTLD_NEXT, "malloc");
    resolving = 0;
}

static void results_open(void)
{
    char path[512];
    const char *directory = getenv("UNWIND_CHECK_DIR");
    if (getenv("UNWIND_CHECK_EVERY") != NULL)
        every = strtoull(getenv("UNWIND_CHECK_EVERY"), NULL, 10);
    with_libgcc = getenv("UNWIND_CHECK_LIBGCC") != NULL;
    results_pid = getpid();
    results = NULL;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (directory == NULL || every == 0)
        return;
    snprintf(path, sizeof(path), "%s/%d.%ld", directory, results_pid, now.tv_nsec);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (ftruncate(fd, sizeof(struct results)) == 0) {
        void *mapped =
            mmap(NULL, sizeof(struct results), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED &&
            unwind_init(&(struct unwind_process){.stack_end = libc_stack_end()}) == 0)
            results = mapped;
    }
    close(fd);
    int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (comm >= 0) {
        if (results != NULL && read(comm, results->command, sizeof(results->command) - 1) < 0)
            results->command[0] = 0;
        close(comm);
    }
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    uint64_t used = results->text_used;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(results->text + used, TEXT_BYTES - used, format, arguments);
    va_end(arguments);
    if (length > 0 && used + (uint64_t)length < TEXT_BYTES)
        results->text_used = used + (uint64_t)length;
}

static void say_frame(uint64_t pc)
{
    char path[256] = "?";
    const struct module *module = module_find(pc, true);
    if (module != NULL)
        module_path(module, true, path, sizeof(path));
    say(" %s+%#lx", path,
        module ? (unsigned long)(pc - module->start + module->file_offset + module->load_bias)
               : (unsigned long)pc);
}

static void say_difference(const struct unwind_walk *walk, unsigned theirs, unsigned at,
                           int their_stop)
{
    if (results->text_used > TEXT_BYTES - 8192)
        return;
    say("ours %u frames (stop %d), theirs %u (%d), differ at %u\n", walk->count, walk->stop, theirs,
        their_stop, at);
    for (unsigned i = at > 3 ? at - 3 : 0; i < at + 3; i++) {
        say("  %u", i);
        if (i < walk->count)
            say_frame(scratch->ours[i]);
        else
            say(" -");
        say(" |");
        if (i < theirs)
            say_frame(scratch->theirs[i]);
        else
            say(" -");
        say("\n");
    }
}

#ifdef UNW_LOCAL_ONLY
/* Walk with libunwind. Frames have our form: inside the call instruction, or exact above a
 * signal. */
static unsigned walk_theirs(unw_context_t *context, int *stop)
{
    unw_cursor_t cursor;
    unsigned count = 0;
    bool exact = false;
    unw_init_local(&cursor, context);
    do {
        unw_word_t pc;
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        if (pc == 0)
            break;
        bool signal_frame = unw_is_signal_frame(&cursor) > 0;
        scratch->theirs[count++] = pc - (exact || signal_frame ? 0 : ARCH_CALL_BYTES);
        exact = signal_frame;
        *stop = count < FRAMES_MAX ? unw_step(&cursor) : 1;
    } while (count<FRAMES_MAX && * stop> 0);
    return count;
}
#else
static unsigned walk_theirs(const unw_context_t *context, int *stop)
{
    (void)context;
    (void)stop;
    return 0; /* only UNWIND_CHECK_LIBGCC compares anything */
}
#endif

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *count)
{
    unsigned *used = count;
    int exact = 0;
    uint64_t pc = _Unwind_GetIPInfo(context, &exact);
    if (pc == 0 || *used == FRAMES_MAX)
        return _URC_END_OF_STACK;
#ifdef ARCH_SIGNAL_RETURN
    /* Nobody called the signal trampoline. */
    exact |= memcmp((const void *)pc, &(uint64_t){ARCH_SIGNAL_RETURN}, 8) == 0;
#endif
    scratch->theirs[(*used)++] = pc - (exact ? 0 : ARCH_CALL_BYTES);
    return _URC_NO_REASON;
}

/* Walk with the compiler's unwinder. It begins in check(), at another instruction. */
static __attribute__((noinline)) unsigned walk_libgcc(void)
{
    unsigned count = 0;
    _Unwind_Backtrace(note_frame, &count);
    /* The first frame is this function's. */
    if (count > 0)
        memmove(scratch->theirs, scratch->theirs + 1, --count * sizeof(scratch->theirs[0]));
    if (count > 0)
        scratch->theirs[0] = scratch->ours[0];
    return count;
}

static void compare(const struct unwind_walk *walk, unsigned theirs, int their_stop)
{
    unsigned at = 0;
    while (at < walk->count && at < theirs && scratch->ours[at] == scratch->theirs[at])
        at++;
    add_relaxed(&results->stacks, 1);
    add_relaxed(&results->frames, theirs);
    add_relaxed(&results->stops[walk->stop & 7], 1);
    if (at == walk->count && at == theirs) {
        add_relaxed(&results->identical, 1);
        return;
    }
    uint64_t *kind = at == walk->count ? &results->ours_shorter
                     : at == theirs    ? &results->theirs_shorter
                                       : &results->differ;
    if (add_relaxed(kind, 1) < 20)
        say_difference(walk, theirs, at, their_stop);
}

static struct unwind_registers registers_of(const unw_context_t *context)
{
#if defined(__x86_64__)
    const greg_t *from = context->uc_mcontext.gregs;
    return (struct unwind_registers){
        .rbx = (uint64_t)from[REG_RBX],
        .rbp = (uint64_t)from[REG_RBP],
        .r12 = (uint64_t)from[REG_R12],
        .r13 = (uint64_t)from[REG_R13],
        .r14 = (uint64_t)from[REG_R14],
        .r15 = (uint64_t)from[REG_R15],
        .sp = (uint64_t)from[REG_RSP],
        .pc = (uint64_t)from[REG_RIP],
    };
#else
    struct unwind_registers registers = {
        .fp = context->uc_mcontext.regs[29],
        .sp = context->uc_mcontext.sp,
        .pc = context->uc_mcontext.pc,
    };
    memcpy(registers.x19_x28, &context->uc_mcontext.regs[19], sizeof(registers.x19_x28));
    return registers;
#endif
}

static __attribute__((noinline)) void check(void)
{
    int saved = errno;
    unw_context_t context;
    inside = 1;
    if (results_pid != getpid())
        results_open();
    if (results == NULL)
        goto out;
    if (scratch == NULL) {
        void *mapped = mmap(NULL, sizeof(*scratch), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            goto out;
        scratch = mapped;
    }
    unw_getcontext(&context);
    struct unwind_registers registers = registers_of(&context);
    int their_stop = 0;
    struct unwind_walk walk = unwind_callstack(&registers, &bounds, &scratch->memory, scratch->ours,
                                               NULL, FRAMES_MAX, NULL);
    unwind_write_recalled(&walk, &scratch->memory, scratch->ours);
    unsigned theirs = with_libgcc ? walk_libgcc() : walk_theirs(&context, &their_stop);
    compare(&walk, theirs, their_stop);
out:
    inside = 0;
    errno = saved;
}

static inline bool due(void)
{
    if (inside || resolving)
        return false;
    if (random_state == 0)
        random_state = (uint64_t)(uintptr_t)&random_state * UINT64_C(0x9e3779b97f4a7c15) | 1;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return results_pid == 0 || (random_state >> 11) % every == 0;
}

EXPORT void *malloc(size_t size)
{
    if (real_malloc == NULL) {
        if (resolving)
            return early_allocate(size);
        resolve();
    }
    if (due())
        check();
    return real_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
    if (real_malloc == NULL) {
        if (resolving)
            return early_allocate(count * size);
        resolve();
    }
    if (due())
        check();
    return real_calloc(count, size);
}

EXPORT void *realloc(void *old, size_t size)
{
    if (real_malloc == NULL)
        resolve();
    if (due())
        check();
    return real_realloc(old, size);
}
