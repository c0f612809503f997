/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches functions of its own process as attaching does, and calls them: real functions of the C
 * library, and some that begin with each instruction that has to be rewritten. They return the same
 * as before, and the hook has counted each call. The hook is near (one branch) or far (16 bytes).
 * Run on aarch64 or under qemu-user.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "recorder/attach/trampoline.h"

#define AREA_BYTES 65536u
#define TRAMPOLINE_AT 4096u
#define FUNCTION_BYTES 256u

/* The functions in trampolines_aarch64.S. */
#define OWN_FUNCTIONS(X)                                                                           \
    X(adr)                                                                                         \
    X(adrp) X(ldr) X(vector) X(prfm) X(cbz) X(cbnz) X(tbz) X(tbnz) X(condition) X(jump) X(sign)    \
        X(landing) X(leave)

#define DECLARE(name) extern long f_##name(long);
OWN_FUNCTIONS(DECLARE)

/* The hook: counts, and continues at the trampoline. */
struct hook {
    uint32_t code[8];
    uint64_t calls, trampoline;
};

static const uint32_t hook_code[] = {
    0x10000110, /* adr x16, calls */
    0xf9400211, /* ldr x17, [x16] */
    0x91000631, /* add x17, x17, 1 */
    0xf9000211, /* str x17, [x16] */
    0xf9400611, /* ldr x17, [x16, 8] */
    0xd61f0220, /* br x17 */
};

static int failures;

static void fail(const char *name, const char *what)
{
    fprintf(stderr, "%s: %s\n", name, what);
    failures++;
}

/* Map memory for the hook and the trampoline within reach of one branch, or far away. */
static uint8_t *map_area(const void *near, bool is_far)
{
    uintptr_t place = ((uintptr_t)near & ~(uintptr_t)0xffff) + (is_far ? 0 : 0x1000000);
    for (int i = 0; i < 100; i++) {
        place = is_far ? UINT64_C(0x10000000) + (uintptr_t)i * AREA_BYTES : place + 0x100000;
        void *area = mmap((void *)place, AREA_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (area == (void *)place)
            return area;
        if (area != MAP_FAILED)
            munmap(area, AREA_BYTES);
    }
    fprintf(stderr, "no memory for the hook\n");
    exit(1);
}

static void write_code(uint64_t address, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)address, from, bytes);
    __builtin___clear_cache((char *)(uintptr_t)address, (char *)(uintptr_t)address + bytes);
}

/* Patch a function, run the check, and restore it. */
static void check(const char *name, void *function, bool is_far, uint64_t (*run)(void))
{
    struct trampoline trampoline;
    const char *why = "";
    uint64_t before = run();
    uint8_t *area = map_area(function, is_far);
    struct hook *hook = (struct hook *)area;
    uint64_t at = (uintptr_t)area + TRAMPOLINE_AT;
    if (trampoline_make(&trampoline, (uintptr_t)function, function, FUNCTION_BYTES,
                        (uintptr_t)hook->code, at, &why) < 0) {
        if (!is_far)
            fail(name, why);
        munmap(area, AREA_BYTES);
        return;
    }
    const struct attached_site *site = &trampoline.site;
    uintptr_t page = site->address & ~(uintptr_t)4095;
    memcpy(hook->code, hook_code, sizeof(hook_code));
    hook->trampoline = at;
    write_code((uintptr_t)hook->code, hook_code, sizeof(hook_code));
    write_code(at, trampoline.code, trampoline.code_bytes);
    mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    write_code(site->address, site->patched, site->length);
    uint64_t after = run();
    write_code(site->address, site->original, site->length);
    if (after != before)
        fail(name, "returns something else");
    if (hook->calls == 0)
        fail(name, "its hook was not called");
    if (is_far == (site->length < 16))
        fail(name, "has the wrong form of jump");
    munmap(area, AREA_BYTES);
}

#define RUN_OWN(name)                                                                              \
    static uint64_t run_##name(void)                                                               \
    {                                                                                              \
        static const long arguments[] = {0, 1, 2, 3, 1000, -1, -1000, 1L << 40};                   \
        uint64_t sum = 0;                                                                          \
        for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)                      \
            sum = sum * 31 + (uint64_t)f_##name(arguments[i]);                                     \
        return sum;                                                                                \
    }
OWN_FUNCTIONS(RUN_OWN)

/* Real functions. Build with -fno-builtin: the compiler would replace some calls. */

static uint64_t run_malloc(void)
{
    char *memory = malloc(1000);
    memset(memory, 7, 1000);
    uint64_t sum = (uint64_t)memory[999];
    free(memory);
    return sum;
}

static uint64_t run_calloc(void)
{
    char *memory = calloc(10, 100);
    uint64_t sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += (uint64_t)memory[i];
    free(memory);
    return sum;
}

static uint64_t run_realloc(void)
{
    char *memory = realloc(strdup("text"), 100000);
    uint64_t sum = (uint64_t)strlen(memory);
    free(memory);
    return sum;
}

static uint64_t run_free(void)
{
    free(malloc(10));
    free(NULL);
    return 1;
}

static uint64_t run_posix_memalign(void)
{
    void *memory = NULL;
    int result = posix_memalign(&memory, 256, 10);
    uint64_t sum = (uint64_t)result + (uintptr_t)memory % 256;
    free(memory);
    return sum;
}

static uint64_t run_aligned_alloc(void)
{
    void *memory = aligned_alloc(4096, 4096);
    uint64_t sum = (uintptr_t)memory % 4096;
    free(memory);
    return sum;
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static uint64_t run_qsort(void)
{
    int numbers[] = {5, 3, 9, 1, 7};
    qsort(numbers, 5, sizeof(int), compare_ints);
    return (uint64_t)(numbers[0] * 10000 + numbers[1] * 1000 + numbers[2] * 100 + numbers[3] * 10 +
                      numbers[4]);
}

static uint64_t run_strtol(void)
{
    return (uint64_t)strtol("-12345", NULL, 10);
}

static uint64_t run_snprintf(void)
{
    char text[100];
    int length = snprintf(text, sizeof(text), "%d %s %.3f", 7, "x", 1.5);
    return (uint64_t)length * 1000 + (uint64_t)text[4];
}

static uint64_t run_gmtime_r(void)
{
    const time_t time = 1000000000;
    struct tm tm;
    return (uint64_t)gmtime_r(&time, &tm)->tm_year;
}

#define LIBC_FUNCTIONS(X)                                                                          \
    X(malloc)                                                                                      \
    X(calloc)                                                                                      \
    X(realloc) X(free) X(posix_memalign) X(aligned_alloc) X(qsort) X(strtol) X(snprintf)           \
        X(gmtime_r)

int main(void)
{
#define CHECK_OWN(name)                                                                            \
    check(#name, (void *)f_##name, false, run_##name);                                             \
    check(#name " far", (void *)f_##name, true, run_##name);
#define CHECK_LIBC(name)                                                                           \
    check(#name, (void *)name, false, run_##name);                                                 \
    check(#name " far", (void *)name, true, run_##name);
    OWN_FUNCTIONS(CHECK_OWN)
    LIBC_FUNCTIONS(CHECK_LIBC)
    return failures != 0;
}
