/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints figures as the program's reports format them, and the limits of estimates, as JSON. The
 * test of the page (figures.test.ts) compares its own results with these.
 */
#include <stdio.h>
#include <stdlib.h>

#include "profile/compare/estimate_change.h"
#include "profile/confidence_interval.h"
#include "tools/print/format.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const double amounts[] = {
    0,      0.3,    0.5,     1,      2.5,    9.99,    24,    99.4,   99.96,   512,    999,
    999.4,  999.6,  1000,    1024,   1234.5, 9994,    9996,  12345,  99949,   99951,  123456,
    999499, 999501, 1234567, 15.6e6, 151e6,  999.6e6, 1.2e9, 4.7e12, 9.99e14, 1.5e18,
};
static const double times[] = {0.0000004, 0.00095, 0.00172, 0.5,  0.9996, 1.25,  3.4,
                               59.4,      59.6,    61,      1719, 3599.7, 18120, 90000};
static const double parts[] = {0, 0.0001, 0.3, 0.81, 0.99, 1, 1.004, 1.3, 7};

static const char *separator(void)
{
    static int printed;
    return printed++ == 0 ? "" : ",\n";
}

static void print_amounts(void)
{
    for (size_t i = 0; i < COUNT(amounts); i++)
        for (int sign = 1; sign >= -1; sign -= 2) {
            double amount = sign * amounts[i];
            printf("%s{\"kind\": \"bytes\", \"value\": %.17g, \"text\": \"%s\"}", separator(),
                   amount, format_bytes(amount).bytes);
            printf("%s{\"kind\": \"signed bytes\", \"value\": %.17g, \"text\": \"%s\"}",
                   separator(), amount, format_signed(amount, false).bytes);
            printf("%s{\"kind\": \"signed count\", \"value\": %.17g, \"text\": \"%s\"}",
                   separator(), amount, format_signed(amount, true).bytes);
            if (sign > 0)
                printf("%s{\"kind\": \"count\", \"value\": %.17g, \"text\": \"%s\"}", separator(),
                       amount, format_count(amount).bytes);
        }
    for (size_t i = 0; i < COUNT(times); i++)
        printf("%s{\"kind\": \"time\", \"value\": %.17g, \"text\": \"%s\"}", separator(), times[i],
               format_time(times[i]).bytes);
}

static void print_margins(void)
{
    for (size_t i = 0; i < COUNT(amounts); i++)
        for (size_t low = 0; low < COUNT(parts); low++)
            for (size_t high = low + 1; high < COUNT(parts); high++)
                for (int counts = 0; counts < 2; counts++) {
                    if (counts && amounts[i] > 1e8)
                        continue; /* longer than a margin has room for */
                    double value = amounts[i], least = value * parts[low],
                           most = (value > 0 ? value : 1000) * parts[high];
                    printf("%s{\"kind\": \"margin\", \"value\": %.17g, \"low\": %.17g, \"high\": "
                           "%.17g, "
                           "\"counts\": %s, \"text\": \"%s\"}",
                           separator(), value, least, most, counts ? "true" : "false",
                           format_margin(value, least, most, counts).bytes);
                }
}

static void print_limits(const struct profile_estimate *sums, unsigned interval)
{
    struct profile_interval bytes = profile_interval_of_bytes(sums);
    struct profile_interval count = profile_interval_of_count(sums, interval);
    printf(
        "%s{\"kind\": \"limits\", \"sums\": [%.17g, %.17g, %.17g, %.17g, %.17g], \"interval\": %u, "
        "\"bytes\": [%.17g, %.17g], \"count\": [%.17g, %.17g]}",
        separator(), sums->bytes, sums->count, sums->bytes_variance, sums->count_variance,
        sums->samples, interval, bytes.low, bytes.high, count.low, count.high);
}

/* Print a change with the bounds of its parts: that of the gained one cuts its limits. */
static void print_change(const struct profile_estimate *gained, const struct profile_estimate *lost,
                         unsigned interval, bool counts)
{
    const struct change_parts both = {*gained, *lost};
    const struct change_sampling sampling = {.gained_interval_bytes = interval,
                                             .lost_interval_bytes = interval};
    const struct change_bounds bounds = {.gained_most = counts ? gained->count : gained->bytes,
                                         .lost_most = 0};
    struct change change = change_of_row(&both, counts, &sampling, &bounds);
    printf("%s{\"kind\": \"change\", \"sums\": [%.17g, %.17g, %.17g, %.17g, %.17g], "
           "\"lost\": [%.17g, %.17g, %.17g, %.17g, %.17g], \"interval\": %u, \"counts\": %s, "
           "\"most\": %.17g, \"low\": %.17g, \"high\": %.17g}",
           separator(), gained->bytes, gained->count, gained->bytes_variance,
           gained->count_variance, gained->samples, lost->bytes, lost->count, lost->bytes_variance,
           lost->count_variance, lost->samples, interval, counts ? "true" : "false",
           bounds.gained_most, change.interval.low, change.interval.high);
}

/* Sums of some samples of sizes that differ, as sampling makes them; and what each has more than
 * the one before. */
static void print_all_limits(void)
{
    static const unsigned intervals[] = {1, 64, 4096, 131072},
                          numbers[] = {0, 1, 2, 3, 10, 60, 500};
    static const double sizes[] = {16, 100, 4096, 70000};
    struct profile_estimate last = {0};
    for (size_t i = 0; i < COUNT(intervals); i++)
        for (size_t j = 0; j < COUNT(numbers); j++)
            for (size_t k = 0; k < COUNT(sizes); k++) {
                struct profile_estimate sums = {0};
                for (unsigned n = 0; n < numbers[j]; n++) {
                    double size = sizes[k] * (1 + n % 3);
                    double missed = intervals[i] == 1 ? 0 : __builtin_exp(-size / intervals[i]);
                    double p = 1 - missed;
                    sums.bytes += size / p;
                    sums.count += 1 / p;
                    sums.bytes_variance += size * size * missed / (p * p);
                    sums.count_variance += missed / (p * p);
                    sums.samples++;
                }
                print_limits(&sums, intervals[i]);
                print_change(&sums, &last, intervals[i], false);
                print_change(&sums, &last, intervals[i], true);
                last = sums;
            }
}

int main(void)
{
    puts("[");
    print_amounts();
    print_margins();
    print_all_limits();
    puts("]");
    return 0;
}
