/* SPDX-License-Identifier: Apache-2.0 */
/* The names of pprof files: readable, safe, and different for each dump of a profile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export/pprof.h"
#include "util/xmalloc.h"

/* Replace characters that could lead out of the directory or would need quotes in a shell: names
 * come from the trace. */
static char file_name_character(char character)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return character == '\0' || strchr(safe, character) != NULL ? character : '_';
}

/* Maximum length of a heap's name in a file's name. */
#define HEAP_NAME_BYTES 64

static int compare_in_file_name(const char *one, const char *two)
{
    for (size_t i = 0; i < HEAP_NAME_BYTES; i++) {
        int order = file_name_character(one[i]) - file_name_character(two[i]);
        if (order != 0 || one[i] == '\0')
            return order;
    }
    return 0;
}

/* Order heaps by the parts of their file names. */
static int compare_heaps(const struct profile *profile, uint32_t one, uint32_t two)
{
    const struct profile_heap *left = &profile->heaps[one], *right = &profile->heaps[two];
    const struct profile_process *of_left = &profile->processes[left->process];
    const struct profile_process *of_right = &profile->processes[right->process];
    if (of_left->pid != of_right->pid)
        return of_left->pid < of_right->pid ? -1 : 1;
    int order = compare_in_file_name(of_left->name, of_right->name);
    return order != 0 ? order : compare_in_file_name(left->name, right->name);
}

static int compare_indices(const void *left, const void *right, void *profile)
{
    uint32_t one = *(const uint32_t *)left, two = *(const uint32_t *)right;
    int order = compare_heaps(profile, one, two);
    return order != 0 ? order : (one > two) - (one < two);
}

void pprof_file_names_make(struct pprof_file_names *names, const struct profile *profile)
{
    uint32_t *order = xcalloc(profile->heap_count + 1, sizeof(*order));
    *names = (struct pprof_file_names){profile, xcalloc(profile->heap_count + 1, sizeof(uint32_t))};
    for (size_t i = 0; i < profile->heap_count; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, profile->heap_count, sizeof(*order), compare_indices, (void *)profile);
    for (size_t i = 1; i < profile->heap_count; i++) {
        uint32_t *before = &names->numbers[order[i - 1]];
        if (compare_heaps(profile, order[i - 1], order[i]) != 0)
            continue;
        if (*before == 0)
            *before = 1;
        names->numbers[order[i]] = *before + 1;
    }
    free(order);
}

void pprof_file_names_clear(struct pprof_file_names *names)
{
    free(names->numbers);
    names->numbers = NULL;
}

void pprof_file_name(const struct pprof_file_names *names, const struct profile_heap *heap,
                     const struct profile_dump *dump, char *buffer, size_t size)
{
    const struct profile_process *process = &names->profile->processes[heap->process];
    char part[32];
    size_t number = (size_t)(dump - heap->dumps) + 1;
    uint32_t among = names->numbers[heap - names->profile->heaps];
    if (dump->final)
        snprintf(part, sizeof(part), "final");
    else
        snprintf(part, sizeof(part), "%zu", number);
    if (among > 0)
        snprintf(buffer, size, "%.64s.%d-%u.%.64s.%s.pb.gz",
                 *process->name == '\0' ? "process" : process->name, process->pid, among,
                 heap->name, part);
    else
        snprintf(buffer, size, "%.64s.%d.%.64s.%s.pb.gz",
                 *process->name == '\0' ? "process" : process->name, process->pid, heap->name,
                 part);
    for (char *at = buffer; *at != '\0'; at++)
        *at = at == buffer && (*at == '.' || *at == '-') ? '_' : file_name_character(*at);
}
