/* SPDX-License-Identifier: Apache-2.0 */
/* See heap_options.h. */
#include "cli/options/heap_options.h"

#include <stdio.h>
#include <string.h>

#include "cli/options/parse.h"
#include "cli/options/suggest.h"
#include "cli/print/format.h"

static bool take_stack_mode(const char *value, enum heap_stack_mode *mode)
{
    static const char *const names[HEAP_STACK_MODES] = {"native", "native-with-thread-names",
                                                        "pseudo", "mixed"};
    for (int i = 0; i < HEAP_STACK_MODES; i++) {
        if (strcmp(value, names[i]) == 0) {
            *mode = (enum heap_stack_mode)i;
            return true;
        }
    }
    format_printf(
        stderr,
        "heap_profile: no stack mode '%s'; there are native, native-with-thread-names, pseudo "
        "and mixed\n",
        value);
    return false;
}

/* Whether a heap of that name is there is seen in the processes. The C library's two are known, and
 * are what is easily named wrongly: "malloc". */
static void warn_of_names(const char *option, char *const *names)
{
    static const char *const known[] = {HEAP_CONFIG_MALLOC, HEAP_CONFIG_MMAP};
    for (; *names != NULL; names++) {
        const char *meant = suggest_nearest(*names, known, 2, sizeof(known[0]));
        for (size_t i = 0; i < 2; i++)
            if (strcmp(strchr(known[i], '.') + 1, *names) == 0)
                meant = known[i];
        if (meant != NULL && strcmp(meant, *names) != 0)
            format_printf(stderr,
                          "heap_profile: warning: %s %s names a heap of the program's own; did you "
                          "mean %s?\n",
                          option, *names, meant);
    }
}

static bool take_heaps(const char *option, const char *value, char ***names)
{
    if (!parse_names(value, names))
        return false;
    warn_of_names(option, *names);
    return true;
}

bool heap_option_take(int option, const char *value, struct heap_config *config)
{
    switch (option) {
    case HEAP_OPTION_HEAPS:
        return take_heaps("--heaps", value, &config->heaps);
    case HEAP_OPTION_ALL:
        config->all_heaps = true;
        return true;
    case HEAP_OPTION_EXCLUDE:
        return take_heaps("--exclude-heaps", value, &config->exclude_heaps);
    case HEAP_OPTION_INTERVALS:
        return parse_byte_list("--heap-intervals", value, &config->heap_sampling_intervals,
                               &config->heap_sampling_interval_count);
    case HEAP_OPTION_STACK_MODE:
        return take_stack_mode(value, &config->stack_mode);
    default:
        return false;
    }
}

static bool is_listed(char *const *names, const char *name)
{
    for (; names != NULL && *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

void heap_options_warn(const struct heap_config *config)
{
    bool named = config->heaps != NULL && config->heaps[0] != NULL;
    for (char **name = config->exclude_heaps; name != NULL && *name != NULL; name++) {
        bool wanted = is_listed(config->heaps, *name) ||
                      (config->all_heaps ? strcmp(*name, HEAP_CONFIG_MMAP) != 0
                                         : !named && strcmp(*name, HEAP_CONFIG_MALLOC) == 0);
        if (!wanted)
            format_printf(
                stderr, "heap_profile: warning: --exclude-heaps %s changes nothing: %s\n", *name,
                config->all_heaps ? "of all heaps it is the one that --heaps has to name"
                : named           ? "--heaps does not name it"
                        : "without --heaps and --all-heaps, libc.malloc alone is profiled");
    }
}
