/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine has of the page, or makes itself, instead of an operating system and libraries.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/symbols/demangle.h"
#include "util/keyed_hash.h"
#include "util/pattern.h"
#include "util/write_all.h"
#include "util/xmalloc.h"

#define IMPORT(name) __attribute__((import_module("page"), import_name(#name))) name

/* --- expressions: the browser's (page/saved/pattern.ts) --- */

/* Return a number, or 0: then `reason` says why. */
uint32_t IMPORT(page_pattern_new)(const char *text, char *reason, size_t reason_bytes);
int IMPORT(page_pattern_matches)(uint32_t pattern, const char *text);
void IMPORT(page_pattern_free)(uint32_t pattern);
_Noreturn void IMPORT(page_fail)(const char *message, size_t length);

struct pattern {
    uint32_t number;
};

int pattern_new(struct pattern **pattern, const char *text, enum pattern_place place,
                struct error *error)
{
    char reason[160];
    (void)place; /* anywhere: filters have no other */
    *pattern = NULL;
    uint32_t number = page_pattern_new(text, reason, sizeof(reason));
    if (number == 0)
        return error_set(error, -EINVAL, "%s", reason);
    *pattern = xmalloc(sizeof(**pattern));
    (*pattern)->number = number;
    return 0;
}

void pattern_free(struct pattern *pattern)
{
    if (pattern != NULL)
        page_pattern_free(pattern->number);
    free(pattern);
}

int pattern_matches(struct pattern *pattern, const char *text, struct error *error)
{
    (void)error;
    return page_pattern_matches(pattern->number, text);
}

/* --- names: the block has the simple ones in place of the mangled ones --- */

char *demangle_name_as(const char *name, enum demangle_mode mode)
{
    (void)mode;
    return strdup(name);
}

/* --- the system --- */

/* Who makes a page whose keys collide makes only that page slow. */
struct keyed_hash_key keyed_hash_key = {UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xd6e8feb86659fd93)};

/* xmalloc_fail() alone writes. */
int write_all(int fd, const void *bytes, size_t length)
{
    (void)fd;
    page_fail(bytes, length);
}

/* --- the C library: a stable sort, as glibc's, so that equal items keep the server's order --- */

struct sorting {
    const char **items, **room;
    int (*compare)(const void *, const void *, void *);
    void *context;
};

static void merge(const struct sorting *sorting, size_t first, size_t count)
{
    const char **items = sorting->items + first, **room = sorting->room;
    size_t half = count / 2, left = 0, right = half;
    if (count < 2)
        return;
    merge(sorting, first, half);
    merge(sorting, first + half, count - half);
    memcpy(room, items, half * sizeof(*items));
    for (size_t to = 0; left < half; to++) {
        bool takes_right =
            right < count && sorting->compare(room[left], items[right], sorting->context) > 0;
        items[to] = takes_right ? items[right++] : room[left++];
    }
}

void qsort_r(void *items, size_t count, size_t bytes,
             int (*compare)(const void *, const void *, void *), void *context)
{
    struct sorting sorting = {xcalloc(count + 1, sizeof(char *)),
                              xcalloc(count + 1, sizeof(char *)), compare, context};
    for (size_t i = 0; i < count; i++)
        sorting.items[i] = (const char *)items + i * bytes;
    merge(&sorting, 0, count);
    char *sorted = xcalloc(count + 1, bytes);
    for (size_t i = 0; i < count; i++)
        memcpy(sorted + i * bytes, sorting.items[i], bytes);
    memcpy(items, sorted, count * bytes);
    free(sorted);
    free(sorting.items);
    free(sorting.room);
}

static int compare_plainly(const void *one, const void *other, void *context)
{
    int (*const *compare)(const void *, const void *) = context;
    return (*compare)(one, other);
}

void qsort(void *items, size_t count, size_t bytes, int (*compare)(const void *, const void *))
{
    qsort_r(items, count, bytes, compare_plainly, &compare);
}
