/* SPDX-License-Identifier: Apache-2.0 */
/* See filter_options.h. */
#include "cli/options/filter_options.h"

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
    format_printf(stderr, "%s: %s\n", program_invocation_short_name, error.message);
    return false;
}

struct filter_share filter_options_share(double part, double whole, bool counts)
{
    struct filter_share text;
    struct formatted of_part = counts ? format_count(part) : format_bytes(part);
    struct formatted of_whole = counts ? format_count(whole) : format_bytes(whole);
    snprintf(text.bytes, sizeof(text.bytes), "%s of %s (%.1f %%)", of_part.bytes, of_whole.bytes,
             whole > 0 ? 100 * part / whole : 0);
    return text;
}
