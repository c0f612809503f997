/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the values of the options that all verbs which read profiles share. */
#include "tools/cli/options/profile_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/options/parse.h"
#include "util/xmalloc.h"

const char *const view_option_names[] = {"space",         "objects", "alloc_space",
                                         "alloc_objects", "max",     NULL};
const char *const frames_option_names[] = {"own", "all", NULL};
const char *const demangle_option_names[] = {"full", "simple", "none", NULL};

enum demangle_mode demangling_of(int chosen, bool for_scripts)
{
    if (chosen != DEMANGLING_DEFAULT)
        return (enum demangle_mode)chosen;
    return for_scripts ? DEMANGLE_FULL : DEMANGLE_SIMPLE;
}

bool dump_choice_wants(const struct dump_choice *choice, const struct profile *profile,
                       const struct profile_heap *heap, size_t index)
{
    if (choice->pid != 0 && profile->processes[heap->process].pid != choice->pid)
        return false;
    if (choice->heap != NULL && strcmp(choice->heap, heap->name) != 0)
        return false;
    return choice->dump == DUMP_ALL ||
           index + 1 == (choice->dump == DUMP_LAST ? heap->dump_count : choice->dump);
}

const struct profile_dump *dump_choice_of(const struct dump_choice *choice,
                                          const struct profile *profile,
                                          const struct profile_heap *heap)
{
    size_t number = choice->dump == DUMP_LAST ? heap->dump_count : (size_t)choice->dump;
    if (number == 0 || number > heap->dump_count ||
        !dump_choice_wants(choice, profile, heap, number - 1))
        return NULL;
    return &heap->dumps[number - 1];
}

size_t dump_choice_list(const struct dump_choice *choice, const struct profile *profile,
                        struct export_dump **dumps)
{
    size_t most = 0, count = 0;
    for (size_t i = 0; i < profile->heap_count; i++)
        most += profile->heaps[i].dump_count;
    *dumps = xreallocarray(NULL, most + 1, sizeof(**dumps));
    for (size_t i = 0; i < profile->heap_count; i++) {
        const struct profile_heap *heap = &profile->heaps[i];
        for (size_t j = 0; j < heap->dump_count; j++)
            if (!heap->unseen && dump_choice_wants(choice, profile, heap, j))
                (*dumps)[count++] = (struct export_dump){heap, &heap->dumps[j]};
    }
    return count;
}

int profile_options_explain_empty(const struct profile *profile, const char *path,
                                  struct error *error)
{
    return error_set(error, -ENOENT, "%.150s: there is no heap profile in it%s%.200s", path,
                     profile->warning[0] != '\0' ? ": " : "", profile->warning);
}

static bool profile_options_take(uint64_t *dump, const char *value, bool or_all)
{
    if (strcmp(value, "last") == 0 || strcmp(value, "final") == 0) {
        *dump = DUMP_LAST;
        return true;
    }
    if (or_all && strcmp(value, "all") == 0) {
        *dump = DUMP_ALL;
        return true;
    }
    if (!parse_number("--dump", value, UINT32_MAX, dump))
        return false;
    if (*dump > 0)
        return true;
    format_printf(stderr, "%s: --dump counts from 1; 'last' is the last%s\n",
                  program_invocation_short_name, or_all ? ", 'all' is every dump" : "");
    return false;
}

bool take_dump(void *member, const char *name, const char *value)
{
    (void)name;
    return profile_options_take(member, value, false);
}

bool take_dump_or_all(void *member, const char *name, const char *value)
{
    (void)name;
    return profile_options_take(member, value, true);
}

bool take_filter(void *member, const char *name, const char *value)
{
    struct error error = {0};
    int kind = 0;
    while (strcmp(profile_filter_names[kind], name) != 0)
        kind++;
    return profile_filter_add(member, (enum profile_filter_kind)kind, value, &error) == 0 ||
           verb_fail(&error) == 0;
}

struct filter_share profile_options_share(double part, double whole, bool counts)
{
    struct filter_share text;
    struct formatted of_part = format_amount(part, counts);
    struct formatted of_whole = format_amount(whole, counts);
    snprintf(text.bytes, sizeof(text.bytes), "%s of %s (%.1f %%)", of_part.bytes, of_whole.bytes,
             whole > 0 ? 100 * part / whole : 0);
    return text;
}
