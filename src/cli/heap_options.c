/* See heap_options.h. */
#include "cli/heap_options.h"

#include "cli/parse.h"

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
    default:
        return false;
    }
}
