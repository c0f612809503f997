/* SPDX-License-Identifier: Apache-2.0 */
/* Find lines by what they begin with: the printer writes one field a line, and no string of text
 * format holds a line break. */
#include "trace/config/config_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config.pb-c.h"
#include "trace/proto_buffer.h"

/* Perfetto's numbers are below; docs/trace-format.md. */
#define OWN_FIELD_FIRST 5000u

static const char mark[] = CONFIG_TEXT_MARK;

/* Return whether the line, without its indentation, is one of our fields. */
static bool is_own(const char *line, size_t length)
{
    const ProtobufCMessageDescriptor *message = &perfetto__protos__heapprofd_config__descriptor;
    size_t name = 0;
    while (name < length && line[name] != ':' && line[name] != ' ')
        name++;
    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];
        if (field->id >= OWN_FIELD_FIRST && strlen(field->name) == name &&
            memcmp(field->name, line, name) == 0)
            return true;
    }
    return false;
}

char *config_text_comment(const char *text)
{
    struct proto_buffer out = {0};
    size_t inside = 0; /* indentation of our message that the line is in, plus one; 0: in none */
    while (*text != '\0') {
        size_t indentation = strspn(text, " "), length = strcspn(text, "\n");
        const char *line = text + indentation;
        size_t rest = length - indentation;
        bool begins = inside == 0 && is_own(line, rest);
        bool ends = inside == indentation + 1 && rest == 1 && *line == '}';
        proto_put_raw(&out, text, indentation);
        if (begins || inside > 0)
            proto_put_raw(&out, mark, strlen(mark));
        proto_put_raw(&out, line, rest);
        if (begins && rest > 0 && line[rest - 1] == '{')
            inside = indentation + 1;
        else if (ends)
            inside = 0;
        text += length;
        if (*text == '\n')
            proto_put_raw(&out, text++, 1);
    }
    proto_put_raw(&out, "", 1);
    if (!out.failed)
        return (char *)out.bytes;
    proto_buffer_free(&out);
    return NULL;
}

char *config_text_uncomment(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    for (size_t at = 0; at < length; at++) {
        while (at < length && (copy[at] == ' ' || copy[at] == '\t'))
            at++;
        if (length - at >= strlen(mark) && memcmp(copy + at, mark, strlen(mark)) == 0)
            memset(copy + at, ' ', strlen(mark));
        while (at < length && copy[at] != '\n')
            at++;
    }
    return copy;
}
