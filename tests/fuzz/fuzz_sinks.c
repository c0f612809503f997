/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sinks read of others' making: a message's file in the spool (first byte 's'; 'S': with a
 * good checksum), an answer of an OpenTelemetry collector ('o'), and an answer that repeats a
 * secret
 * ('a').
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "fuzzing.h"
#include "production/sinks/credentials.h"
#include "production/sinks/kinds.h"
#include "production/sinks/spool_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECKSUM_AT 8u
#define CHECKED_FROM 16u

static void read_file(const uint8_t *data, size_t size, bool has_good_checksum)
{
    struct spool_file_head head;
    struct sink_message message;
    uint8_t *bytes = malloc(size + 1);
    check(bytes != NULL);
    memcpy(bytes, data, size);
    if (has_good_checksum && size > CHECKED_FROM) {
        uint64_t sum = XXH3_64bits(bytes + CHECKED_FROM, size - CHECKED_FROM);
        memcpy(bytes + CHECKSUM_AT, &sum, sizeof(sum));
    }
    int head_code = spool_file_read_head(bytes, size, size, &head);
    if (spool_file_read(bytes, size, &message) == 0) {
        const uint8_t *end = bytes + size;
        check(head_code == 0 && head.periods == message.periods);
        check((const uint8_t *)message.body + message.length == end);
        check(strlen(message.target) + strlen(message.content_type) +
                  strlen(message.content_encoding) + message.length <
              size);
        check(strpbrk(message.target, "\r\n") == NULL);
        check(spool_file_size(&message) == (int64_t)size);
    }
    free(bytes);
}

static void read_otlp_answer(const uint8_t *data, size_t size)
{
    for (long status = 200; status < 600; status += 100) {
        enum sink_verdict verdict = sink_otlp.judge(NULL, status, (const char *)data, size);
        check(status == 200 ? verdict != SINK_AGAIN : verdict != SINK_TAKEN);
    }
}

static void hide_secrets(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), secret[] = "ab", other[] = "cc";
    struct credentials_used used = {.secrets = {secret, other}, .count = 2};
    check(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    credentials_hide(&used, text);
    check(strstr(text, secret) == NULL && strstr(text, other) == NULL);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (data[0] == 's' || data[0] == 'S')
        read_file(data + 1, size - 1, data[0] == 'S');
    else if (data[0] == 'o')
        read_otlp_answer(data + 1, size - 1);
    else
        hide_secrets(data + 1, size - 1);
    return 0;
}
