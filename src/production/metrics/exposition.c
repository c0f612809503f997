/* SPDX-License-Identifier: Apache-2.0 */
/* Writes heads, labels and values of metrics. */
#include "production/metrics/exposition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/json.h"
#include "util/utf8.h"

#define OPEN_METRICS "application/openmetrics-text"

void exposition_begin(struct exposition *exposition, const struct metric *metric)
{
    exposition->metric = metric;
    exposition->has_head = false;
}

/* In OpenMetrics, a counter's head has the name without "_total". */
static void write_head(struct exposition *exposition)
{
    const struct metric *metric = exposition->metric;
    FILE *out = exposition->out;
    bool has_suffix = metric->is_counter && !exposition->is_open_metrics;
    const char *suffix = has_suffix ? "_total" : "";
    fprintf(out, "# HELP %s%s %s\n", metric->name, suffix, metric->help);
    fprintf(out, "# TYPE %s%s %s\n", metric->name, suffix,
            metric->is_counter ? "counter" : "gauge");
    if (exposition->is_open_metrics && metric->unit[0] != '\0')
        fprintf(out, "# UNIT %s %s\n", metric->name, metric->unit);
    exposition->has_head = true;
}

/* Scrapers refuse the whole text for one byte that is not UTF-8. */
static void write_label_value(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        size_t length = utf8_length((const unsigned char *)at);
        if (length == 0)
            fputs("\xef\xbf\xbd", out);
        else if (*at == '\n')
            fputs("\\n", out);
        else if (*at == '\\' || *at == '"')
            fprintf(out, "\\%c", *at);
        else
            fwrite(at, 1, length, out);
        at += length > 0 ? length : 1;
    }
}

static void write_name(struct exposition *exposition, const struct metric_label *labels,
                       size_t count)
{
    FILE *out = exposition->out;
    if (!exposition->has_head)
        write_head(exposition);
    fprintf(out, "%s%s", exposition->metric->name, exposition->metric->is_counter ? "_total" : "");
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
        write_label_value(out, labels[i].value);
        fputc('"', out);
    }
    fputs(count > 0 ? "} " : " ", out);
}

void exposition_sample(struct exposition *exposition, const struct metric_label *labels,
                       size_t count, double value)
{
    if (!isfinite(value))
        return;
    write_name(exposition, labels, count);
    json_print_number(exposition->out, value);
    fputc('\n', exposition->out);
}

void exposition_unsigned(struct exposition *exposition, const struct metric_label *labels,
                         size_t count, uint64_t value)
{
    if (value == UINT64_MAX)
        return;
    write_name(exposition, labels, count);
    json_print_unsigned(exposition->out, value);
    fputc('\n', exposition->out);
}

void exposition_end(struct exposition *exposition)
{
    if (exposition->is_open_metrics)
        fputs("# EOF\n", exposition->out);
}

/* --- what a scraper wants --- */

/* Return the quality of a range of media types, "text/plain;version=0.0.4;q=0.5": 1 if it has
 * none, 0 if it asks for a version of OpenMetrics that is not ours. */
static double quality_of(const char *at, const char *end, bool is_open_metrics)
{
    double quality = 1;
    while ((at = memchr(at, ';', (size_t)(end - at))) != NULL) {
        at++;
        at += strspn(at, " \t");
        if (strncasecmp(at, "q=", 2) == 0)
            quality = strtod(at + 2, NULL);
        if (is_open_metrics && strncasecmp(at, "version=", 8) == 0 &&
            strncmp(at + 8, "1.0.0", 5) != 0)
            return 0;
    }
    return quality;
}

static bool begins_with(const char *at, const char *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && strncasecmp(at, word, length) == 0;
}

bool exposition_wants_open_metrics(const char *accept)
{
    double open_metrics = 0, text = 0;
    for (const char *at = accept; at != NULL && *at != '\0';) {
        at += strspn(at, " \t,");
        const char *end = at + strcspn(at, ",");
        if (begins_with(at, end, OPEN_METRICS))
            open_metrics = fmax(open_metrics, quality_of(at, end, true));
        else if (begins_with(at, end, "text/plain") || begins_with(at, end, "text/*"))
            text = fmax(text, quality_of(at, end, false));
        at = end;
    }
    return open_metrics > 0 && open_metrics >= text;
}
