/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes metrics in the two text forms that Prometheus reads: its own, version 0.0.4, and
 * OpenMetrics 1.0. (Sources: prometheus.io/docs/instrumenting/exposition_formats, and the
 * specification of OpenMetrics.)
 *
 *     exposition_begin(&exposition, &live_bytes);
 *     exposition_sample(&exposition, labels, 2, 1e6);
 *     exposition_end(&exposition);
 *
 * A metric without samples leaves no line. A value that is unknown is no sample.
 */
#ifndef HEAPPROFD_PRODUCTION_METRICS_EXPOSITION_H
#define HEAPPROFD_PRODUCTION_METRICS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPOSITION_TYPE_TEXT "text/plain; version=0.0.4; charset=utf-8"
#define EXPOSITION_TYPE_OPEN_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

struct metric {
    const char *name; /* without "_total", which counters get */
    const char *unit; /* "bytes", "seconds": the name ends in it; "": it has none */
    bool is_counter;  /* else a gauge */
    const char *help; /* a sentence of ours */
};

struct metric_label {
    const char *name;  /* ours */
    const char *value; /* untrusted */
};

struct exposition {
    FILE *out;
    bool is_open_metrics;
    const struct metric *metric;
    bool has_head; /* of this metric */
};

/* Begin a metric. All its samples follow. */
void exposition_begin(struct exposition *exposition, const struct metric *metric);

/* Write a sample. Nothing is written for a value that is not finite. */
void exposition_sample(struct exposition *exposition, const struct metric_label *labels,
                       size_t count, double value);

/* The same for a whole number; UINT64_MAX: unknown. */
void exposition_unsigned(struct exposition *exposition, const struct metric_label *labels,
                         size_t count, uint64_t value);

/* Write what ends the whole text. */
void exposition_end(struct exposition *exposition);

/* Return whether a scraper that sends this Accept header (NULL: none) would rather have
 * OpenMetrics. */
bool exposition_wants_open_metrics(const char *accept);

#endif
