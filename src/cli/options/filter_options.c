/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the filter options' regular expressions, and formats the share that they leave out. */
#include "cli/options/filter_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool take_filter(void *member, const char *name, const char *value)
{
    struct error error = {0};
    int kind = 0;
    while (strcmp(profile_filter_names[kind], name) != 0)
        kind++;
    if (profile_filter_add(member, (enum profile_filter_kind)kind, value, &error) == 0)
        return true;
    format_printf(stderr, "%s: %s\n", program_invocation_short_name, error.message);
    return false;
}

struct filter_share filter_options_share(double part, double whole, bool counts)
{
    struct filter_share text;
    struct formatted of_part = format_amount(part, counts);
    struct formatted of_whole = format_amount(whole, counts);
    snprintf(text.bytes, sizeof(text.bytes), "%s of %s (%.1f %%)", of_part.bytes, of_whole.bytes,
             whole > 0 ? 100 * part / whole : 0);
    return text;
}
