/* SPDX-License-Identifier: Apache-2.0 */
/* The questions about recordings: each takes the request's body apart, and asks recordings.h. */
#include <string.h>

#include "tools/cli/view/machine.h"
#include "tools/view/server/json_parse.h"

int machine_recordings(void *context, const struct view_parameters *parameters, const char *body,
                       FILE *out, struct error *error)
{
    struct machine *machine = context;
    (void)parameters;
    (void)body;
    (void)error;
    recordings_list(&machine->recordings, out);
    return 0;
}

/* Parse the body and answer. */
static int machine_recordings_answer(recordings_answer *of_request, void *context, const char *body,
                                     FILE *out, struct error *error)
{
    struct machine *machine = context;
    struct json_document document;
    int code = json_parse(&document, body, strlen(body), error);
    if (code == 0)
        code = of_request(&machine->recordings, document.root, out, error);
    json_document_clear(&document);
    return code;
}

int machine_start_recording(void *context, const struct view_parameters *parameters,
                            const char *body, FILE *out, struct error *error)
{
    (void)parameters;
    return machine_recordings_answer(recordings_start, context, body, out, error);
}

int machine_end_recording(void *context, const struct view_parameters *parameters, const char *body,
                          FILE *out, struct error *error)
{
    (void)parameters;
    return machine_recordings_answer(recordings_finish, context, body, out, error);
}

int machine_stop_session(void *context, const struct view_parameters *parameters, const char *body,
                         FILE *out, struct error *error)
{
    (void)parameters;
    return machine_recordings_answer(recordings_stop_session, context, body, out, error);
}

int machine_snapshot_session(void *context, const struct view_parameters *parameters,
                             const char *body, FILE *out, struct error *error)
{
    (void)parameters;
    return machine_recordings_answer(recordings_snapshot_session, context, body, out, error);
}

int machine_configure(void *context, const struct view_parameters *parameters, const char *body,
                      FILE *out, struct error *error)
{
    (void)parameters;
    return machine_recordings_answer(recordings_configure, context, body, out, error);
}

int machine_examine(void *context, const struct view_parameters *parameters, const char *body,
                    FILE *out, struct error *error)
{
    (void)parameters;
    return machine_recordings_answer(recordings_examine, context, body, out, error);
}
