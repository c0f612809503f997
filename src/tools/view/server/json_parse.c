/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the tree in the callbacks of yajl. Values and strings are stored in two blocks, which the
 * length of the text bounds: each value takes a byte of text at least, and no string grows by
 * decoding. */
#include "tools/view/server/json_parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "util/utf8.h"
#include "util/xmalloc.h"

struct builder {
    struct json_value *values;
    size_t count, capacity;
    char *texts;     /* the next free byte */
    const char *key; /* of the next value */
    struct {
        struct json_value *value, *last; /* last: its latest item */
    } open[JSON_DEPTH_MAX];              /* arrays and objects, from the outermost */
    unsigned depth;
    struct error *error;
};

/* The callbacks return 0 to stop, with the error set. */
static int refuse(const struct builder *builder, int code, const char *reason)
{
    error_set(builder->error, code, "the JSON is refused: %s", reason);
    return 0;
}

/* Copy a decoded string. Half of a surrogate pair ("\\ude00") is decoded to what is not UTF-8.
 * Return NULL with the error set: it is refused. */
static const char *copy(struct builder *builder, const unsigned char *text, size_t length)
{
    char *copied = builder->texts;
    memcpy(copied, text, length);
    copied[length] = '\0';
    builder->texts += length + 1;
    const unsigned char *at = (const unsigned char *)copied;
    while (*at != '\0' && utf8_length(at) > 0)
        at += utf8_length(at);
    if (at == (const unsigned char *)copied + length)
        return copied;
    refuse(builder, -EINVAL,
           *at == '\0' ? "a string has a zero character" : "a string is not UTF-8");
    return NULL;
}

/* Add a value where the text has it. Return NULL with the error set: there are too many. */
static struct json_value *add(struct builder *builder, enum json_kind kind)
{
    if (builder->count == builder->capacity) {
        refuse(builder, -E2BIG, "it has too many values");
        return NULL;
    }
    struct json_value *value = &builder->values[builder->count++];
    *value = (struct json_value){.kind = kind, .key = builder->key};
    builder->key = NULL;
    if (builder->depth > 0) {
        struct json_value *parent = builder->open[builder->depth - 1].value;
        struct json_value *last = builder->open[builder->depth - 1].last;
        *(last != NULL ? &last->next : &parent->first) = value;
        builder->open[builder->depth - 1].last = value;
        parent->count++;
    }
    return value;
}

static int on_null(void *context)
{
    return add(context, JSON_NULL) != NULL;
}

static int on_bool(void *context, int truth)
{
    struct json_value *value = add(context, JSON_BOOL);
    if (value != NULL)
        value->truth = truth != 0;
    return value != NULL;
}

static int on_number(void *context, const char *digits, size_t length)
{
    struct builder *builder = context;
    char text[64];
    struct json_value *value = add(builder, JSON_NUMBER);
    if (value == NULL)
        return 0;
    if (length >= sizeof(text))
        return refuse(builder, -E2BIG, "a number has too many digits");
    memcpy(text, digits, length);
    text[length] = '\0';
    value->number = strtod(text, NULL);
    return isfinite(value->number) || refuse(builder, -EINVAL, "a number is too large");
}

static int on_string(void *context, const unsigned char *text, size_t length)
{
    struct builder *builder = context;
    struct json_value *value = add(builder, JSON_STRING);
    if (value == NULL)
        return 0;
    value->text = copy(builder, text, length);
    return value->text != NULL;
}

static int on_key(void *context, const unsigned char *text, size_t length)
{
    struct builder *builder = context;
    builder->key = copy(builder, text, length);
    return builder->key != NULL;
}

static int begin(struct builder *builder, enum json_kind kind)
{
    struct json_value *value = add(builder, kind);
    if (value == NULL)
        return 0;
    if (builder->depth == JSON_DEPTH_MAX)
        return refuse(builder, -E2BIG, "it is nested too deep");
    builder->open[builder->depth].value = value;
    builder->open[builder->depth++].last = NULL;
    return 1;
}

static int on_object(void *context)
{
    return begin(context, JSON_OBJECT);
}

static int on_array(void *context)
{
    return begin(context, JSON_ARRAY);
}

static int on_end(void *context)
{
    ((struct builder *)context)->depth--;
    return 1;
}

static int build(struct builder *builder, yajl_handle parser, const char *text, size_t length)
{
    builder->error->code = 0;
    yajl_status status = yajl_parse(parser, (const unsigned char *)text, length);
    if (status == yajl_status_ok)
        status = yajl_complete_parse(parser);
    if (status == yajl_status_ok && builder->count > 0)
        return 0;
    if (builder->error->code == 0)
        error_set(builder->error, -EINVAL, "this is not JSON: it ends or goes wrong after byte %zu",
                  yajl_get_bytes_consumed(parser));
    return builder->error->code;
}

int json_parse(struct json_document *document, const char *text, size_t length, struct error *error)
{
    static const yajl_callbacks callbacks = {
        .yajl_null = on_null,
        .yajl_boolean = on_bool,
        .yajl_number = on_number,
        .yajl_string = on_string,
        .yajl_start_map = on_object,
        .yajl_map_key = on_key,
        .yajl_end_map = on_end,
        .yajl_start_array = on_array,
        .yajl_end_array = on_end,
    };
    size_t capacity = length < JSON_VALUES_MAX ? length + 1 : JSON_VALUES_MAX;
    *document = (struct json_document){
        .values = xcalloc(capacity, sizeof(*document->values)),
        .texts = xmalloc(length + 1),
    };
    struct builder builder = {
        .values = document->values, .capacity = capacity, .texts = document->texts, .error = error};
    yajl_handle parser = xmalloc_made(yajl_alloc(&callbacks, NULL, &builder));
    int code = build(&builder, parser, text, length);
    if (code == 0)
        document->root = document->values;
    yajl_free(parser);
    return code;
}

void json_document_clear(struct json_document *document)
{
    free(document->values);
    free(document->texts);
    *document = (struct json_document){0};
}

const struct json_value *json_member(const struct json_value *object, const char *key)
{
    const struct json_value *member =
        object != NULL && object->kind == JSON_OBJECT ? object->first : NULL;
    while (member != NULL && strcmp(member->key, key) != 0)
        member = member->next;
    return member;
}

const char *json_string_of(const struct json_value *value)
{
    return value != NULL && value->kind == JSON_STRING ? value->text : NULL;
}
