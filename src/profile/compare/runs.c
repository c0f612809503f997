/* SPDX-License-Identifier: Apache-2.0 */
/* Welch's test, and Student's distribution by the continued fraction of the incomplete beta
 * function. */
#include "profile/compare/runs.h"

#include <math.h>

#define LEVEL 0.05
#define FRACTION_STEPS 500
#define HALVINGS 100
/* Of degrees of freedom: beyond it, Student's distribution is normal to more digits than are shown.
 */
#define DEGREES_MOST 1e6

/* Return the continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double result = d;
    for (int i = 1; i <= FRACTION_STEPS; i++) {
        double even = i * (b - i) * x / ((a + 2 * i - 1) * (a + 2 * i));
        double odd = -(a + i) * (a + b + i) * x / ((a + 2 * i) * (a + 2 * i + 1));
        const double terms[] = {even, odd};
        double step = 1;
        for (int j = 0; j < 2; j++) {
            d = 1 + terms[j] * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + terms[j] / c;
            c = fabs(c) < tiny ? tiny : c;
            step = c * d;
            result *= step;
        }
        if (fabs(step - 1) < 1e-14)
            break;
    }
    return result;
}

/* Return the regularized incomplete beta function. */
static double beta_part(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double runs_student_probability(double t, double degrees)
{
    degrees = fmin(degrees, DEGREES_MOST);
    return beta_part(degrees / 2, 0.5, degrees / (degrees + t * t));
}

/* Return the t that is exceeded, on either side, with the probability LEVEL. */
static double student_limit(double degrees)
{
    double low = 0, high = 1;
    while (runs_student_probability(high, degrees) > LEVEL)
        high *= 2;
    for (int i = 0; i < HALVINGS && high - low > 1e-12 * high; i++) {
        double middle = (low + high) / 2;
        if (runs_student_probability(middle, degrees) > LEVEL)
            low = middle;
        else
            high = middle;
    }
    return high;
}

struct runs_mean runs_mean_of(const struct runs_side *side)
{
    struct runs_mean mean = {0, NAN};
    double squares = 0;
    for (size_t i = 0; i < side->count; i++)
        mean.mean += side->values[i] / (double)side->count;
    for (size_t i = 0; i < side->count; i++)
        squares += (side->values[i] - mean.mean) * (side->values[i] - mean.mean);
    if (side->count > 1)
        mean.spread = sqrt(squares / (double)(side->count - 1));
    return mean;
}

/* Return the variance of the mean. */
static double variance_of(const struct runs_side *side, const struct runs_mean *mean)
{
    double count = (double)side->count, sampling = 0;
    for (size_t i = 0; i < side->count; i++)
        sampling += fmax(side->variances[i], 0);
    return fmax(mean->spread * mean->spread / count, sampling / (count * count));
}

struct change runs_compare(const struct runs_side *before, const struct runs_side *after)
{
    const struct runs_mean was = runs_mean_of(before), is = runs_mean_of(after);
    struct change change = {.value = is.mean - was.mean, .probability = NAN};
    if (before->count < 2 || after->count < 2) {
        change.interval = (struct profile_interval){NAN, NAN};
        change.uncertain = true;
        return change;
    }
    double early = variance_of(before, &was), late = variance_of(after, &is);
    double variance = early + late;
    if (variance <= 0) {
        change.interval = (struct profile_interval){change.value, change.value};
        change.probability = change.value == 0 ? 1 : 0;
        return change;
    }
    double degrees =
        variance * variance /
        (early * early / (double)(before->count - 1) + late * late / (double)(after->count - 1));
    double error = sqrt(variance), limit = student_limit(degrees) * error;
    change.interval = (struct profile_interval){change.value - limit, change.value + limit};
    change.probability = runs_student_probability(change.value / error, degrees);
    return change;
}
