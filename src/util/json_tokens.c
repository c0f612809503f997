/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the tokens of JSON in yajl's callbacks (json_tokens.h). */
#include "util/json_tokens.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "util/array.h"

#define DEPTH_MAX 512u
/* yajl keeps a value that spans pieces, however long it is. */
#define VALUE_MIB_MAX 16u

/* --- yajl's callbacks: they return 0 to stop --- */

static int stop(struct json_tokens *tokens, enum json_token why)
{
    tokens->has_failed = why;
    return 0;
}

static int stop_at(struct json_tokens *tokens, const char *why)
{
    snprintf(tokens->error, sizeof(tokens->error), "%s", why);
    return stop(tokens, JSON_BROKEN);
}

static int put(struct json_tokens *tokens, enum json_token token, const void *text, size_t length)
{
    const struct json_token_item item = {
        .token = token,
        .depth = tokens->fed_depth,
        .text = tokens->texts_length,
        .length = length,
        .offset = tokens->fed + yajl_get_bytes_consumed(tokens->parser),
    };
    tokens->quiet = 0;
    if (ARRAY_RESERVE(&tokens->texts, &tokens->texts_capacity, tokens->texts_length, length + 1) <
            0 ||
        ARRAY_ADD(&tokens->items, &tokens->count, &tokens->capacity, item) < 0)
        return stop(tokens, JSON_NO_MEMORY);
    if (length > 0)
        memcpy(tokens->texts + tokens->texts_length, text, length);
    tokens->texts_length += length;
    return 1;
}

static int on_null(void *context)
{
    return put(context, JSON_NULL, NULL, 0);
}

static int on_boolean(void *context, int yes)
{
    return put(context, yes ? JSON_TRUE : JSON_FALSE, NULL, 0);
}

static int on_number(void *context, const char *digits, size_t length)
{
    return put(context, JSON_NUMBER, digits, length);
}

static int on_text(void *context, const unsigned char *text, size_t length)
{
    return put(context, JSON_TEXT, text, length);
}

static int on_key(void *context, const unsigned char *text, size_t length)
{
    return put(context, JSON_KEY, text, length);
}

static int begin(struct json_tokens *tokens, enum json_token token)
{
    if (++tokens->fed_depth > DEPTH_MAX)
        return stop_at(tokens, "objects and lists are nested too deep");
    return put(tokens, token, NULL, 0);
}

static int on_object(void *context)
{
    return begin(context, JSON_OBJECT);
}

static int on_list(void *context)
{
    return begin(context, JSON_LIST);
}

static int on_close(void *context)
{
    ((struct json_tokens *)context)->fed_depth--;
    return put(context, JSON_CLOSE, NULL, 0);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_text,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_close,
    .yajl_start_array = on_list,
    .yajl_end_array = on_close,
};

/* --- feed, take --- */

/* Stop with the first line of yajl's message. */
static void stop_at_malformed(struct json_tokens *tokens)
{
    unsigned char *error = yajl_get_error(tokens->parser, 0, NULL, 0);
    const char *text = error == NULL ? "malformed" : (const char *)error;
    snprintf(tokens->error, sizeof(tokens->error), "%.*s", (int)strcspn(text, "\n"), text);
    yajl_free_error(tokens->parser, error);
    stop(tokens, JSON_BROKEN);
}

void json_tokens_feed(struct json_tokens *tokens, const char *bytes, size_t length)
{
    tokens->count = tokens->next = tokens->texts_length = 0;
    if (tokens->has_failed != JSON_MORE)
        return;
    if (tokens->parser == NULL) {
        tokens->parser = yajl_alloc(&callbacks, NULL, tokens);
        if (tokens->parser == NULL) {
            stop(tokens, JSON_NO_MEMORY);
            return;
        }
        yajl_config(tokens->parser, yajl_dont_validate_strings, 1);
    }
    tokens->quiet += length;
    bool is_read =
        yajl_parse(tokens->parser, (const unsigned char *)bytes, length) == yajl_status_ok;
    if (!is_read && tokens->has_failed == JSON_MORE)
        stop_at_malformed(tokens);
    tokens->fed += is_read ? length : yajl_get_bytes_consumed(tokens->parser);
    if (is_read && tokens->quiet > (uint64_t)VALUE_MIB_MAX << 20)
        stop_at(tokens, "a text or a number is too long");
}

enum json_token json_tokens_next(struct json_tokens *tokens)
{
    if (tokens->next == tokens->count) {
        tokens->offset = tokens->fed;
        return tokens->has_failed;
    }
    const struct json_token_item *item = &tokens->items[tokens->next++];
    tokens->text = tokens->texts + item->text;
    tokens->length = item->length;
    tokens->depth = item->depth;
    tokens->offset = item->offset;
    return item->token;
}

void json_tokens_free(struct json_tokens *tokens)
{
    if (tokens->parser != NULL)
        yajl_free(tokens->parser);
    free(tokens->items);
    free(tokens->texts);
    *tokens = (struct json_tokens){0};
}
