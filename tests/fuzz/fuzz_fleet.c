/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as ClickHouse's answers: the input is taken apart into the answers of successive
 * queries (two bytes of length before each). Questions end with a profile that can be walked, or an
 * error with a message.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzzing.h"
#include "production/fleet/fleet_profile.h"
#include "production/fleet/growth.h"
#include "profile_checks.h"

static const uint8_t *input;
static size_t left;

/* In place of the HTTP client: the next answer of the input. */
int clickhouse_run(struct clickhouse *server, const char *query, const void *body, size_t length,
                   struct clickhouse_answer *answer, struct error *error)
{
    (void)server;
    (void)body;
    (void)length;
    check(strstr(query, "SELECT") != NULL && answer != NULL);
    if (left < 2)
        return error_set(error, -EIO, "no more answers");
    size_t wanted = (size_t)(input[0] | input[1] << 8);
    input += 2;
    left -= 2;
    wanted = wanted < left ? wanted : left;
    *answer = (struct clickhouse_answer){.bytes = malloc(wanted + 1), .length = wanted};
    check(answer->bytes != NULL);
    memcpy(answer->bytes, input, wanted);
    input += wanted;
    left -= wanted;
    return 0;
}

void clickhouse_answer_clear(struct clickhouse_answer *answer)
{
    free(answer->bytes);
    *answer = (struct clickhouse_answer){0};
}

static void ask_profile(const struct fleet_selection *selection, bool per_process)
{
    const struct fleet_profile_options options = {.title = "fuzz", .per_process = per_process};
    struct fleet_facts facts;
    struct error error = {0};
    struct profile *profile = fleet_profile_read(NULL, selection, &options, &facts, &error);
    if (profile == NULL)
        check(error.code < 0 && *error.message != '\0');
    else
        check_profile(profile);
    profile_free(profile);
}

static void ask_growth(const struct fleet_selection *selection)
{
    struct fleet_growth growth;
    struct error error = {0};
    int code = fleet_growth_read(&growth, NULL, selection, 100 * INT64_C(86400), &error);
    if (code < 0)
        check(*error.message != '\0');
    for (size_t i = 0; i < growth.count && code == 0; i++) {
        const struct fleet_growth_row *row = &growth.rows[i];
        check(row->p >= 0 && row->p <= 1 && row->worst_host != NULL);
        check(row->callsite == PROFILE_NONE || row->callsite < growth.profile->callsite_count);
    }
    fleet_growth_clear(&growth);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    const struct fleet_selection selection = {.since_s = 90 * INT64_C(86400),
                                              .until_s = 100 * INT64_C(86400)};
    for (int question = 0; question < 3; question++) {
        input = bytes;
        left = length;
        if (question < 2)
            ask_profile(&selection, question == 1);
        else
            ask_growth(&selection);
    }
    return 0;
}
