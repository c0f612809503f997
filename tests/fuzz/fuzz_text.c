/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a message and as a text. A printed message reads back as one in canonical encoding;
 * so does an accepted text. Such a message has a text that reads back as the same bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/text_fixture.h"
#include "fuzzing.h"
#include "trace/text/text_print.h"

/* Append the message that the text of these bytes describes. Return false if they are not a
 * message. */
static bool print_and_read(const uint8_t *bytes, size_t length, struct proto_buffer *again)
{
    struct proto_buffer text = {0};
    struct error error = {0};
    if (length == 0)
        return true;
    bool good = text_print_fields(TRACE, (struct proto_span){bytes, bytes + length}, &text);
    if (good) {
        struct dripping from = {(const char *)text.bytes, text.length, 1 + length % 100};
        check(read_text(from, again, &error) == 0);
    }
    proto_buffer_free(&text);
    return good;
}

static void check_round_trip(const struct proto_buffer *message)
{
    struct proto_buffer again = {0};
    check(print_and_read(message->bytes, message->length, &again));
    check(again.length == message->length);
    check(again.length == 0 || memcmp(again.bytes, message->bytes, again.length) == 0);
    proto_buffer_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct proto_buffer message = {0};
    struct error error = {0};
    if (length == 0)
        return 0;
    if (bytes[0] & 1) {
        if (print_and_read(bytes + 1, length - 1, &message))
            check_round_trip(&message);
    } else {
        struct dripping from = {(const char *)bytes + 1, length - 1, 1 + bytes[0] % 64};
        int code = read_text(from, &message, &error);
        check(code == 0 || error.message[0] != '\0');
        if (code == 0)
            check_round_trip(&message);
    }
    proto_buffer_free(&message);
    return 0;
}
