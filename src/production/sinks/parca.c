/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `type = parca`: WriteRaw of Parca's profile store, through its HTTP gateway, as JSON. Addresses
 * are those of the process, with their mappings, and locations have names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "production/sinks/base64.h"
#include "production/sinks/kinds.h"
#include "production/sinks/label_choice.h"
#include "production/sinks/period_pprof.h"
#include "util/json_writer.h"

#define TARGET "/profiles/writeraw"
/* A request is sent when it has this size. gRPC servers take 4 MB by default. */
#define REQUEST_BYTES (2u << 20)

struct request {
    FILE *stream;
    char *text;
    size_t length;
    struct json_writer json;
    uint64_t periods;
};

static void put_label(struct json_writer *json, const char *name, const char *value)
{
    json_object(json, NULL);
    json_string(json, "name", name);
    json_string(json, "value", value);
    json_end_object(json);
}

static int put_series(struct json_writer *json, const struct label_choice *choice,
                      const struct period *period, const struct period_pprof *pprof)
{
    char value[LABEL_CHOICE_VALUE_BYTES_MAX + 1];
    char *base64 = malloc(base64_length(pprof->length) + 1);
    if (base64 == NULL)
        return -ENOMEM;
    *base64_write(base64, pprof->bytes, pprof->length) = '\0';
    json_object(json, NULL);
    json_object(json, "labels");
    json_array(json, "labels");
    put_label(json, "__name__", "memory");
    for (size_t i = 0; i < period->label_count; i++) {
        if (label_choice_keeps(choice, &period->labels[i]))
            put_label(json, period->labels[i].name, label_choice_value(&period->labels[i], value));
    }
    json_end_array(json);
    json_end_object(json);
    json_array(json, "samples");
    json_object(json, NULL);
    json_string(json, "raw_profile", base64);
    json_end_object(json);
    json_end_array(json);
    json_end_object(json);
    free(base64);
    return 0;
}

static int begin_request(struct request *request)
{
    *request = (struct request){0};
    request->stream = open_memstream(&request->text, &request->length);
    if (request->stream == NULL)
        return -ENOMEM;
    request->json = json_begin(request->stream);
    json_object(&request->json, NULL);
    json_array(&request->json, "series");
    return 0;
}

/* Finish the request and put it, unless it is empty. */
static int end_request(struct request *request, const struct sink_output *output,
                       struct error *error)
{
    int code = 0;
    if (request->stream == NULL)
        return 0;
    json_end_array(&request->json);
    json_bool(&request->json, "normalized", false);
    json_end_object(&request->json);
    if (fclose(request->stream) != 0)
        code = error_set(error, -ENOMEM, "no memory for a request");
    const struct sink_message message = {.target = TARGET,
                                         .content_type = "application/json",
                                         .content_encoding = "",
                                         .body = request->text,
                                         .length = request->length,
                                         .periods = request->periods};
    if (code == 0 && request->periods > 0)
        code = output->put(output->context, &message, error);
    free(request->text);
    *request = (struct request){0};
    return code;
}

static int put_period(struct request *request, const struct label_choice *choice,
                      const struct period *period, struct error *error)
{
    static const struct pprof_period file = {.types = PERIOD_PPROF_TYPES, .for_others = true};
    struct period_pprof pprof;
    int code = period_pprof_make(&pprof, period, file, error);
    if (code < 0)
        return code;
    code = request->stream == NULL ? begin_request(request) : 0;
    if (code == 0)
        code = put_series(&request->json, choice, period, &pprof);
    if (code < 0)
        error_set(error, code, "no memory for a request");
    else
        request->periods++;
    period_pprof_free(&pprof);
    return code;
}

static int parca_encode(void *state, const struct period *periods, size_t count,
                        const struct sink_output *output, struct error *error)
{
    struct request request = {0};
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        int code = put_period(&request, state, &periods[i], error);
        if (code == 0 && fflush(request.stream) == 0 && request.length >= REQUEST_BYTES)
            code = end_request(&request, output, error);
        result = result == 0 ? code : result;
    }
    int code = end_request(&request, output, error);
    return result == 0 ? code : result;
}

const struct sink_kind sink_parca = {
    .name = "parca",
    .open = label_choice_open,
    .close = label_choice_close,
    .encode = parca_encode,
};
