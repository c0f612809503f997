/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `type = gigapipe`: Pyroscope's older /ingest, which gigapipe speaks: a request for each period,
 * whose body is the pprof file itself. (As a part of a form, gigapipe takes no file of more than
 * 100,000 bytes.) The name in the query has the labels: web{host=a,heap=libc.malloc}.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "production/sinks/encode_each.h"
#include "production/sinks/kinds.h"
#include "production/sinks/label_choice.h"
#include "production/sinks/period_pprof.h"
#include "production/sinks/target.h"

/* What separates labels cannot be inside of one. */
#define SEPARATORS "{}=,\""

static char *make_target(const struct label_choice *choice, const struct period *period)
{
    char *target = NULL, value[LABEL_CHOICE_VALUE_BYTES_MAX + 1];
    const char *separator = "%7B"; /* { */
    size_t length;
    FILE *out = open_memstream(&target, &length);
    if (out == NULL)
        return NULL;
    fputs("/ingest?name=", out);
    target_print(out, period_label(period, "service_name", "unknown"), SEPARATORS);
    for (size_t i = 0; i < period->label_count; i++) {
        const struct period_label *label = &period->labels[i];
        if (strcmp(label->name, "service_name") == 0 || !label_choice_keeps(choice, label))
            continue;
        fprintf(out, "%s%s%%3D", separator, label->name);
        target_print(out, label_choice_value(label, value), SEPARATORS);
        separator = "%2C"; /* , */
    }
    if (*separator == '%' && separator[1] == '2')
        fputs("%7D", out);
    fprintf(out, "&from=%" PRId64 "&until=%" PRId64 "&format=pprof&spyName=heapprofd",
            period->start_ns, period->end_ns);
    if (fclose(out) == 0)
        return target;
    free(target);
    return NULL;
}

static int put_period(void *state, const struct period *period, const struct sink_output *output,
                      struct error *error)
{
    static const struct pprof_period file = {.types = PERIOD_PPROF_TYPES, .for_others = true};
    struct period_pprof pprof;
    int code = period_pprof_make(&pprof, period, file, error);
    if (code < 0)
        return code;
    char *target = make_target(state, period);
    const struct sink_message message = {.target = target,
                                         .content_type = "binary/octet-stream",
                                         .content_encoding = "",
                                         .body = pprof.bytes,
                                         .length = pprof.length,
                                         .periods = 1};
    code = target == NULL ? error_set(error, -ENOMEM, "no memory for a request")
                          : output->put(output->context, &message, error);
    free(target);
    period_pprof_free(&pprof);
    return code;
}

static int gigapipe_encode(void *state, const struct period *periods, size_t count,
                           const struct sink_output *output, struct error *error)
{
    return encode_each(state, periods, count, output, error, put_period);
}

const struct sink_kind sink_gigapipe = {
    .name = "gigapipe",
    .open = label_choice_open,
    .close = label_choice_close,
    .encode = gigapipe_encode,
};
