/* SPDX-License-Identifier: Apache-2.0 */
/* Put commas, keys and brackets around the values that util/json.h prints. One thread writes a
 * document, so the stream needs no locks. */
#include "util/json_writer.h"

#include <inttypes.h>

#include "util/json.h"

struct json_writer json_begin(FILE *out)
{
    return (struct json_writer){.out = out};
}

void json_line(struct json_writer *json)
{
    json->new_line = true;
}

/* Begin a member, up to its value. */
static void begin_member(struct json_writer *json, const char *key)
{
    if (json->has_member)
        putc_unlocked(',', json->out);
    if (json->new_line)
        putc_unlocked('\n', json->out);
    if (key != NULL) {
        putc_unlocked('"', json->out);
        fputs_unlocked(key, json->out);
        fputs_unlocked("\":", json->out);
    }
    json->has_member = true;
    json->new_line = false;
}

static void open_bracket(struct json_writer *json, const char *key, char bracket)
{
    begin_member(json, key);
    putc_unlocked(bracket, json->out);
    json->has_member = false;
}

static void close_bracket(struct json_writer *json, char bracket)
{
    if (json->new_line)
        putc_unlocked('\n', json->out);
    json->new_line = false;
    putc_unlocked(bracket, json->out);
    json->has_member = true;
}

void json_object(struct json_writer *json, const char *key)
{
    open_bracket(json, key, '{');
}

void json_end_object(struct json_writer *json)
{
    close_bracket(json, '}');
}

void json_array(struct json_writer *json, const char *key)
{
    open_bracket(json, key, '[');
}

void json_end_array(struct json_writer *json)
{
    close_bracket(json, ']');
}

void json_string(struct json_writer *json, const char *key, const char *text)
{
    begin_member(json, key);
    if (text != NULL)
        json_print_string(json->out, text);
    else
        fputs("null", json->out);
}

void json_number(struct json_writer *json, const char *key, double value)
{
    begin_member(json, key);
    json_print_number(json->out, value);
}

void json_unsigned(struct json_writer *json, const char *key, uint64_t value)
{
    begin_member(json, key);
    json_print_unsigned(json->out, value);
}

void json_signed(struct json_writer *json, const char *key, int64_t value)
{
    begin_member(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_pid(struct json_writer *json, const char *key, int32_t pid)
{
    if (pid != 0)
        json_signed(json, key, pid);
    else
        json_null(json, key);
}

void json_bool(struct json_writer *json, const char *key, bool value)
{
    begin_member(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json_writer *json, const char *key)
{
    begin_member(json, key);
    fputs("null", json->out);
}

void json_named_number(struct json_writer *json, const char *name, double value)
{
    begin_member(json, NULL);
    json_print_string(json->out, name);
    putc_unlocked(':', json->out);
    json_print_number(json->out, value);
}

void json_raw(struct json_writer *json, const char *key, const char *text, size_t length)
{
    begin_member(json, key);
    fwrite(text, 1, length, json->out);
}
