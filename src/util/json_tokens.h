/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as a sequence of tokens, for parsers that read straight down. yajl reads the text; its
 * callbacks put the tokens into a list, from which they are taken one by one. Feed text in pieces:
 * at JSON_MORE the list is empty.
 *
 * What follows the whole value is JSON_BROKEN, unless it is blank or only the beginning of a token.
 * Texts may have bytes that are not UTF-8, and zeros.
 */
#ifndef HEAPPROFD_UTIL_JSON_TOKENS_H
#define HEAPPROFD_UTIL_JSON_TOKENS_H

#include <stddef.h>
#include <stdint.h>

enum json_token {
    JSON_MORE,
    JSON_BROKEN, /* `error` says why; also of what is too deep or too long */
    JSON_NO_MEMORY,
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_TEXT,
    JSON_KEY,
    JSON_OBJECT, /* begins */
    JSON_LIST,   /* begins */
    JSON_CLOSE,  /* of an object or list */
};

/* Zeroed at the beginning. */
struct json_tokens {
    /* Of the token that was taken last. */
    const char *text; /* of a key or text, decoded; of a number as it is written; valid until the
                       * next piece is fed */
    size_t length;
    unsigned depth;  /* objects and lists around what follows */
    uint64_t offset; /* bytes of the text up to its end */
    char error[100]; /* of JSON_BROKEN */

    struct yajl_handle_t *parser;
    struct json_token_item {
        enum json_token token;
        unsigned depth;
        size_t text, length; /* in texts */
        uint64_t offset;
    } * items;
    size_t count, capacity, next;
    char *texts;
    size_t texts_length, texts_capacity;
    uint64_t fed;               /* bytes of the pieces before */
    uint64_t quiet;             /* bytes of pieces since the last callback */
    unsigned fed_depth;         /* at the end of the list */
    enum json_token has_failed; /* JSON_MORE: it has not */
};

/* Feed the next piece, after JSON_MORE. */
void json_tokens_feed(struct json_tokens *tokens, const char *bytes, size_t length);
/* Take the next token. */
enum json_token json_tokens_next(struct json_tokens *tokens);
void json_tokens_free(struct json_tokens *tokens);

#endif
