/* SPDX-License-Identifier: Apache-2.0 */
#include "util/format_bytes.h"

#include <math.h>
#include <stdio.h>

struct formatted format_bytes(double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    struct formatted text;
    unsigned unit = 0;
    double value = fabs(bytes);
    while (value >= 999.5 && unit < 4) {
        value /= 1000;
        unit++;
    }
    int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(text.bytes, sizeof(text.bytes), "%s%.*f %s", bytes <= -0.5 ? FORMAT_MINUS : "", digits,
             value, units[unit]);
    return text;
}
