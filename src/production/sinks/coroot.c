/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `type = coroot`: a request for each period, whose body is a pprof file and whose query has the
 * labels. Coroot shows only types of profiles that it knows: the names are those of a Go program's
 * heap. It takes the file's time for the end of the period.
 */
#include <stdlib.h>
#include <string.h>

#include "production/sinks/encode_each.h"
#include "production/sinks/kinds.h"
#include "production/sinks/label_choice.h"
#include "production/sinks/period_pprof.h"
#include "production/sinks/target.h"

#define PATH "/v1/profiles"

/* Return the name that Coroot has for a label. */
static const char *coroot_name_of(const char *label)
{
    return strcmp(label, "service_name") == 0 ? "service.name"
           : strcmp(label, "container") == 0  ? "container.id"
                                              : label;
}

/* Return the request's target, to be freed; NULL: no memory. */
static char *make_target(const struct label_choice *choice, const struct period *period)
{
    char *target = NULL, separator = '?', value[LABEL_CHOICE_VALUE_BYTES_MAX + 1];
    size_t length;
    FILE *out = open_memstream(&target, &length);
    if (out == NULL)
        return NULL;
    fputs(PATH, out);
    for (size_t i = 0; i < period->label_count; i++) {
        if (!label_choice_keeps(choice, &period->labels[i]))
            continue;
        fprintf(out, "%c%s=", separator, coroot_name_of(period->labels[i].name));
        target_print(out, label_choice_value(&period->labels[i], value), NULL);
        separator = '&';
    }
    if (fclose(out) == 0)
        return target;
    free(target);
    return NULL;
}

static int put_period(void *state, const struct period *period, const struct sink_output *output,
                      struct error *error)
{
    static const struct pprof_period file = {
        .types = {"go:heap_alloc_objects:count", "go:heap_alloc_space:bytes",
                  "go:heap_inuse_objects:count", "go:heap_inuse_space:bytes"},
        .time_is_end = true,
        .for_others = true,
    };
    struct period_pprof pprof;
    int code = period_pprof_make(&pprof, period, file, error);
    if (code < 0)
        return code;
    char *target = make_target(state, period);
    const struct sink_message message = {.target = target,
                                         .content_type = "application/octet-stream",
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

static int coroot_encode(void *state, const struct period *periods, size_t count,
                         const struct sink_output *output, struct error *error)
{
    return encode_each(state, periods, count, output, error, put_period);
}

const struct sink_kind sink_coroot = {
    .name = "coroot",
    .open = label_choice_open,
    .close = label_choice_close,
    .encode = coroot_encode,
};
