/* SPDX-License-Identifier: Apache-2.0 */
/* Counts for each argument the processes of a name that have it. */
#include "tools/view/model/apart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/intern.h"
#include "util/utf8.h"
#include "util/xmalloc.h"

#define ARGUMENT_BYTES_MAX 64u
#define APART_BYTES_MAX 192u /* of a text, before its last argument */

struct argument {
    size_t processes, last; /* how many have it; the last of them, from 1 */
};

struct apart {
    struct intern_table names, arguments; /* of texts; of pairs of a name and a text */
    size_t *of_names;                     /* processes of each name */
    struct argument *items;
    size_t name_capacity, name_count, capacity, count;
};

static uint64_t number_of(struct intern_table *table, const void *bytes, size_t length)
{
    bool added;
    return xmalloc_id(intern_bytes(table, bytes, length, &added));
}

/* Return an argument of a process, which is counted by name. */
static struct argument *argument_of(struct apart *apart, uint64_t name, const char *text,
                                    size_t length)
{
    const uint64_t key[] = {name, number_of(&apart->names, text, length)};
    uint64_t id = number_of(&apart->arguments, key, sizeof(key));
    if (id > apart->count) {
        const struct argument none = {0};
        XARRAY_ADD(&apart->items, &apart->count, &apart->capacity, none);
    }
    return &apart->items[id - 1];
}

/* Call a function for each argument of a process. */
typedef void take_argument(struct apart *apart, struct argument *argument, const char *text,
                           size_t length, size_t process, void *context);
static void each_argument(struct apart *apart, const struct profile *profile, size_t process,
                          take_argument *take, void *context)
{
    const struct profile_process *of = &profile->processes[process];
    uint64_t name = number_of(&apart->names, of->name, strlen(of->name));
    for (const char *at = of->command; *at != '\0';) {
        size_t length = strcspn(at, " ");
        if (length > 0)
            take(apart, argument_of(apart, name, at, length), at, length, process, context);
        at += length + strspn(at + length, " ");
    }
}

static void count_argument(struct apart *apart, struct argument *argument, const char *text,
                           size_t length, size_t process, void *context)
{
    (void)apart, (void)text, (void)length, (void)context;
    argument->processes += argument->last != process + 1;
    argument->last = process + 1;
}

struct writing {
    FILE *out;
    size_t of_name; /* processes */
    size_t bytes;
};

/* Write the end of an argument, which is a file's name in a long path. */
static void write_end(struct writing *writing, const char *text, size_t length)
{
    const char *end = text + length, *at = text;
    if (length > ARGUMENT_BYTES_MAX)
        at = end - ARGUMENT_BYTES_MAX;
    while (at > text && utf8_continues(*at))
        at++;
    fprintf(writing->out, "%s%s%.*s", writing->bytes > 0 ? " " : "", at > text ? "…" : "",
            (int)(end - at), at);
    writing->bytes += (size_t)(end - at) + 1;
}

/* Write an argument once, unless all have it. */
static void write_argument(struct apart *apart, struct argument *argument, const char *text,
                           size_t length, size_t process, void *context)
{
    struct writing *writing = context;
    (void)apart;
    if (argument->processes == writing->of_name || argument->last == process + 1 ||
        writing->bytes >= APART_BYTES_MAX)
        return;
    argument->last = process + 1;
    write_end(writing, text, length);
}

static void count_names(struct apart *apart, const struct profile *profile)
{
    for (size_t i = 0; i < profile->process_count; i++) {
        const char *name = profile->processes[i].name;
        uint64_t id = number_of(&apart->names, name, strlen(name));
        while (apart->name_count <= id)
            XARRAY_ADD(&apart->of_names, &apart->name_count, &apart->name_capacity, (size_t){0});
        apart->of_names[id]++;
    }
}

char **view_apart_make(const struct profile *profile)
{
    struct apart apart = {0};
    char **texts = xcalloc(profile->process_count + 1, sizeof(*texts));
    count_names(&apart, profile);
    for (size_t i = 0; i < profile->process_count; i++)
        each_argument(&apart, profile, i, count_argument, NULL);
    for (size_t i = 0; i < apart.count; i++)
        apart.items[i].last = 0;
    for (size_t i = 0; i < profile->process_count; i++) {
        const char *name = profile->processes[i].name;
        size_t length;
        struct writing writing = {.out = xopen_memstream(&texts[i], &length),
                                  .of_name =
                                      apart.of_names[number_of(&apart.names, name, strlen(name))]};
        if (writing.of_name > 1)
            each_argument(&apart, profile, i, write_argument, &writing);
        xclose_memstream(writing.out);
    }
    intern_free(&apart.names);
    intern_free(&apart.arguments);
    free(apart.of_names);
    free(apart.items);
    return texts;
}

void view_apart_free(char **texts, const struct profile *profile)
{
    for (size_t i = 0; i < profile->process_count; i++)
        free(texts[i]);
    free(texts);
}
