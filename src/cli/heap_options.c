/* See heap_options.h. */
#include "cli/heap_options.h"

#include <stdio.h>
#include <string.h>

#include "cli/parse.h"

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
    fprintf(stderr,
            "heap_profile: no stack mode '%s'; there are native, native-with-thread-names, pseudo "
            "and mixed\n",
            value);
    return false;
}

bool heap_option_take(int option, const char *value, struct heap_config *config)
{
    switch (option) {
    case HEAP_OPTION_HEAPS:
        return parse_names(value, &config->heaps);
    case HEAP_OPTION_ALL:
        config->all_heaps = true;
        return true;
    case HEAP_OPTION_EXCLUDE:
        return parse_names(value, &config->exclude_heaps);
    case HEAP_OPTION_INTERVALS:
        return parse_byte_list("--heap-intervals", value, &config->heap_sampling_intervals,
                               &config->heap_sampling_interval_count);
    case HEAP_OPTION_STACK_MODE:
        return take_stack_mode(value, &config->stack_mode);
    default:
        return false;
    }
}
