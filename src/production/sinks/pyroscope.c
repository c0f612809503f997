/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `type = pyroscope`: Grafana Pyroscope's push API, in its Protobuf form. A request has a series
 * for each period: labels, and a gzipped pprof file with an id, by which a repeated request is
 * known.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "production/sinks/kinds.h"
#include "production/sinks/label_choice.h"
#include "production/sinks/period_pprof.h"
#include "trace/proto_buffer.h"

#define TARGET "/push.v1.PusherService/Push"
/* A request is sent when it has this size. Servers take at least 4 MB. */
#define REQUEST_BYTES (2u << 20)

/* Numbers of fields in api/push/v1/push.proto and api/types/v1/types.proto. */
enum {
    PUSH_REQUEST_SERIES = 1,
    SERIES_LABELS = 1,
    SERIES_SAMPLES = 2,
    SAMPLE_RAW_PROFILE = 1,
    SAMPLE_ID = 2,
    LABEL_NAME = 1,
    LABEL_VALUE = 2,
};

#define UUID_BYTES 37

/* Write a random UUID (RFC 4122, version 4). */
static void make_uuid(char uuid[UUID_BYTES])
{
    uint8_t bytes[16];
    while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        ; /* interrupted before the kernel's first random number */
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *uuid++ = '-';
        *uuid++ = "0123456789abcdef"[bytes[i] >> 4];
        *uuid++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *uuid = '\0';
}

static void put_label(struct proto_buffer *series, const char *name, const char *value)
{
    struct proto_buffer label = {0};
    proto_put_string(&label, LABEL_NAME, name);
    proto_put_string(&label, LABEL_VALUE, value);
    proto_put_bytes(series, SERIES_LABELS, label.bytes, label.length);
    series->failed |= label.failed;
    proto_buffer_free(&label);
}

static void put_series(struct proto_buffer *request, const struct label_choice *choice,
                       const struct period *period, const struct period_pprof *pprof)
{
    struct proto_buffer series = {0}, sample = {0};
    char id[UUID_BYTES], value[LABEL_CHOICE_VALUE_BYTES_MAX + 1];
    make_uuid(id);
    put_label(&series, "__name__", "memory");
    /* The server would take alloc_* for totals since the start, and subtract again. */
    put_label(&series, "__delta__", "false");
    for (size_t i = 0; i < period->label_count; i++) {
        if (label_choice_keeps(choice, &period->labels[i]))
            put_label(&series, period->labels[i].name,
                      label_choice_value(&period->labels[i], value));
    }
    proto_put_bytes(&sample, SAMPLE_RAW_PROFILE, pprof->bytes, pprof->length);
    proto_put_string(&sample, SAMPLE_ID, id);
    proto_put_bytes(&series, SERIES_SAMPLES, sample.bytes, sample.length);
    proto_put_bytes(request, PUSH_REQUEST_SERIES, series.bytes, series.length);
    request->failed |= series.failed || sample.failed;
    proto_buffer_free(&series);
    proto_buffer_free(&sample);
}

static int put_request(struct proto_buffer *request, uint64_t periods,
                       const struct sink_output *output, struct error *error)
{
    const struct sink_message message = {.target = TARGET,
                                         .content_type = "application/proto",
                                         .content_encoding = "",
                                         .body = request->bytes,
                                         .length = request->length,
                                         .periods = periods};
    if (request->failed)
        return error_set(error, -ENOMEM, "no memory for a request");
    int code = periods == 0 ? 0 : output->put(output->context, &message, error);
    request->length = 0;
    return code;
}

static int pyroscope_encode(void *state, const struct period *periods, size_t count,
                            const struct sink_output *output, struct error *error)
{
    static const struct pprof_period file = {.types = PERIOD_PPROF_TYPES, .for_others = true};
    struct proto_buffer request = {0};
    uint64_t waiting = 0;
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        struct period_pprof pprof;
        int code = period_pprof_make(&pprof, &periods[i], file, error);
        if (code == 0) {
            put_series(&request, state, &periods[i], &pprof);
            period_pprof_free(&pprof);
            waiting++;
        }
        if (code == 0 && request.length >= REQUEST_BYTES) {
            code = put_request(&request, waiting, output, error);
            waiting = 0;
        }
        result = result == 0 ? code : result;
    }
    int code = put_request(&request, waiting, output, error);
    proto_buffer_free(&request);
    return result == 0 ? code : result;
}

const struct sink_kind sink_pyroscope = {
    .name = "pyroscope",
    .open = label_choice_open,
    .close = label_choice_close,
    .encode = pyroscope_encode,
    .compressions = SINK_GZIP,
};
