/* SPDX-License-Identifier: Apache-2.0 */
#include "production/fleet/trend.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAIRS_MAX (TREND_MOMENTS_MAX * (TREND_MOMENTS_MAX - 1) / 2)

static int compare_doubles(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return count == 0       ? 0
           : count % 2 == 1 ? values[count / 2]
                            : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Return the variance of S, and whether any values are equal. */
static double variance_of(const double *values, size_t n, bool *ties)
{
    double sorted[TREND_MOMENTS_MAX];
    double variance = (double)n * ((double)n - 1) * (2 * (double)n + 5);
    for (size_t i = 0; i < n; i++)
        sorted[i] = values[i];
    qsort(sorted, n, sizeof(*sorted), compare_doubles);
    *ties = false;
    for (size_t first = 0, next; first < n; first = next) {
        for (next = first + 1; next < n && sorted[next] == sorted[first]; next++)
            ;
        double t = (double)(next - first);
        *ties |= next - first > 1;
        variance -= t * (t - 1) * (2 * t + 5);
    }
    return variance / 18;
}

/* Return the probability that S is at least s without a trend. The number of orders of n values
 * with k falling pairs is the sum of those of n - 1 values with k-n+1 ... k (Mann, 1945). */
static double exact_p(size_t n, double s)
{
    size_t pairs = n * (n - 1) / 2;
    double chances[PAIRS_MAX + 1] = {1}, next[PAIRS_MAX + 1];
    for (size_t m = 2; m <= n; m++) {
        double window = 0;
        for (size_t k = 0; k <= m * (m - 1) / 2; k++) {
            window += k <= (m - 1) * (m - 2) / 2 ? chances[k] : 0;
            if (k >= m)
                window -= k - m <= (m - 1) * (m - 2) / 2 ? chances[k - m] : 0;
            next[k] = window / (double)m;
        }
        for (size_t k = 0; k <= m * (m - 1) / 2; k++)
            chances[k] = next[k];
    }
    double p = 0;
    size_t falling = (size_t)(((double)pairs - s) / 2); /* S = pairs - 2 falling */
    for (size_t k = 0; k <= falling; k++)
        p += chances[k];
    return p < 1 ? p : 1;
}

/* With the correction for continuity: S goes in steps of 2. */
static double normal_p(double s, double variance)
{
    if (!(variance > 0))
        return 1;
    double z = (s - (s > 0 ? 1 : s < 0 ? -1 : 0)) / sqrt(variance);
    return 0.5 * erfc(z / sqrt(2));
}

struct trend trend_of(const double *values, size_t count)
{
    double known[TREND_MOMENTS_MAX], slopes[PAIRS_MAX];
    size_t at[TREND_MOMENTS_MAX], n = 0, pairs = 0;
    struct trend trend = {.p = 1};
    for (size_t i = 0; i < count && i < TREND_MOMENTS_MAX; i++)
        if (!isnan(values[i])) {
            at[n] = i;
            known[n++] = values[i];
        }
    trend.moments = n;
    if (n < TREND_MOMENTS_MIN)
        return trend;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            trend.s += (known[j] > known[i]) - (known[j] < known[i]);
            slopes[pairs++] = (known[j] - known[i]) / (double)(at[j] - at[i]);
        }
    bool ties;
    trend.variance = variance_of(known, n, &ties);
    trend.slope = median(slopes, pairs);
    trend.p = ties ? normal_p(trend.s, trend.variance) : exact_p(n, trend.s);
    return trend;
}

void trend_add_host(struct trend_of_hosts *sum, const struct trend *host)
{
    if (host->moments < TREND_MOMENTS_MIN)
        return;
    sum->hosts++;
    sum->rising += host->s > 0;
    sum->falling += host->s < 0;
    sum->s += host->s;
    sum->variance += host->variance;
    sum->p_best = host->p < sum->p_best ? host->p : sum->p_best;
}

double trend_p(const struct trend_of_hosts *sum, size_t callsites)
{
    double regional = normal_p(sum->s, sum->variance), single = sum->p_best * (double)sum->hosts;
    double p = 2 * (regional < single ? regional : single) * (double)callsites;
    if (sum->hosts == 0 || p > 1)
        return 1;
    return p;
}
