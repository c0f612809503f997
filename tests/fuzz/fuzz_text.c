/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a message and as a text. A printed message reads back as the same bytes; an accepted
 * text becomes a message whose own text reads back the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/text_fixture.h"
#include "fuzzing.h"
#include "trace/text/text_print.h"

/* Return false if these bytes are not a message. */
static bool check_round_trip(const uint8_t *bytes, size_t length)
{
    struct proto_buffer text = {0}, again = {0};
    struct error error = {0};
    if (length == 0)
        return true;
    bool good = text_print_fields(TRACE, (struct proto_span){bytes, bytes + length}, &text);
    if (good) {
        struct dripping from = {(const char *)text.bytes, text.length, 1 + length % 100};
        check(read_text(from, &again, &error) == 0);
        check(again.length == length && memcmp(again.bytes, bytes, length) == 0);
    }
    proto_buffer_free(&text);
    proto_buffer_free(&again);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct proto_buffer message = {0};
    struct error error = {0};
    if (length == 0)
        return 0;
    if (bytes[0] & 1) {
        check_round_trip(bytes + 1, length - 1);
        return 0;
    }
    struct dripping from = {(const char *)bytes + 1, length - 1, 1 + bytes[0] % 64};
    int code = read_text(from, &message, &error);
    check(code == 0 || error.message[0] != '\0');
    if (code == 0)
        check(check_round_trip(message.bytes, message.length));
    proto_buffer_free(&message);
    return 0;
}
