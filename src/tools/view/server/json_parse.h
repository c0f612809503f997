/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the body of a request, a small JSON document, into a tree. The text is untrusted:
 * documents with more than JSON_VALUES_MAX values, nested deeper than JSON_DEPTH_MAX, or that are
 * not UTF-8 are refused. Strings with zero characters are refused, too, because C would cut them.
 *
 *     struct json_document document;
 *     if (json_parse(&document, body, strlen(body), &error) == 0)
 *         const char *name = json_string_of(json_member(document.root, "name"));
 *     json_document_clear(&document);
 */
#ifndef HEAPPROFD_VIEW_JSON_PARSE_H
#define HEAPPROFD_VIEW_JSON_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "util/error.h"

#define JSON_VALUES_MAX 4096u
#define JSON_DEPTH_MAX 16u

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
    enum json_kind kind;
    const char *key;          /* in an object; else NULL */
    const char *text;         /* of a string, decoded */
    double number;            /* of a number: finite */
    bool truth;               /* of a bool */
    struct json_value *first; /* of an array or object; NULL: it is empty */
    struct json_value *next;  /* in the same array or object; NULL: the last */
    size_t count;             /* of an array or object */
};

struct json_document {
    struct json_value *root; /* NULL: the text is refused */
    struct json_value *values;
    char *texts;
};

/* Parse a text that ends in a zero byte. Return 0, or -EINVAL or -E2BIG with the reason.
 * json_document_clear() is needed in any case. */
int json_parse(struct json_document *document, const char *text, size_t length,
               struct error *error);
void json_document_clear(struct json_document *document);

/* Return the first member of an object with this key; NULL: it has none, or is no object. */
const struct json_value *json_member(const struct json_value *object, const char *key);
/* Return a string; NULL: the value is something else, or missing (NULL). */
const char *json_string_of(const struct json_value *value);

#endif
