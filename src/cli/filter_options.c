/* See filter_options.h. */
#include "cli/filter_options.h"

#include <errno.h>
#include <stdio.h>

bool filter_options_has(int option)
{
    return option >= FILTER_OPTION_FIRST && option < FILTER_OPTION_FIRST + PROFILE_FILTER_KINDS;
}

bool filter_options_take(int option, const char *text, struct profile_filter *filter)
{
    struct error error = {0};
    enum profile_filter_kind kind = (enum profile_filter_kind)(option - FILTER_OPTION_FIRST);
    if (profile_filter_add(filter, kind, text, &error) == 0)
        return true;
    words_printf(stderr, "%s: %s\n", program_invocation_short_name, error.message);
    return false;
}

struct filter_share filter_options_share(double part, double whole, bool counts)
{
    struct filter_share text;
    struct words of_part = counts ? words_of_count(part) : words_of_bytes(part);
    struct words of_whole = counts ? words_of_count(whole) : words_of_bytes(whole);
    snprintf(text.bytes, sizeof(text.bytes), "%s of %s (%.1f %%)", of_part.bytes, of_whole.bytes,
             whole > 0 ? 100 * part / whole : 0);
    return text;
}
