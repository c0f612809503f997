/* SPDX-License-Identifier: Apache-2.0 */
#include "util/units.h"

#include <string.h>

const struct unit size_units[] = {
    {"", 1},         {"B", 1},      {"k", 0x1p10},   {"K", 0x1p10}, {"KiB", 0x1p10}, {"M", 0x1p20},
    {"MiB", 0x1p20}, {"G", 0x1p30}, {"GiB", 0x1p30}, {"T", 0x1p40}, {"TiB", 0x1p40}, {"kB", 1e3},
    {"MB", 1e6},     {"GB", 1e9},   {"TB", 1e12},    {NULL, 0},
};

double size_unit_bytes(const char *name, size_t length)
{
    for (const struct unit *unit = size_units; unit->name != NULL; unit++)
        if (strlen(unit->name) == length && memcmp(unit->name, name, length) == 0)
            return unit->factor;
    return 0;
}

const struct unit time_units[] = {
    {"us", 1e-3},  {"ms", 1},      {"s", 1e3},         {"min", 60e3}, {"m", 60e3},
    {"h", 3600e3}, {"d", 86400e3}, {"w", 7 * 86400e3}, {NULL, 0},
};

double time_unit_ms(const char *name)
{
    for (const struct unit *unit = time_units; unit->name != NULL; unit++)
        if (strcmp(unit->name, name) == 0)
            return unit->factor;
    return 0;
}
