/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits JSON into tokens, in place and without callbacks: the caller points `at` and `end` to the
 * next bytes and asks for token after token. Texts without escapes are not copied.
 *
 * Text may be fed in pieces. At JSON_MORE the bytes from `at` on are the begin of a token, or none:
 * call again with the same bytes and those that follow them.
 *
 * Grammar of RFC 8259, with two exceptions: form feed and vertical tab are blanks, too, and texts
 * may have bytes that are not UTF-8.
 */
#ifndef HEAPPROFD_UTIL_JSON_SCANNER_H
#define HEAPPROFD_UTIL_JSON_SCANNER_H

#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 512u
#define JSON_TEXT_BYTES_MAX (16u << 20)
#define JSON_NUMBER_BYTES_MAX (64u << 10)

enum json_token {
    JSON_MORE,
    JSON_BROKEN,    /* `error` says why */
    JSON_TOO_DEEP,  /* more than JSON_DEPTH_MAX objects and lists */
    JSON_TOO_LONG,  /* a text or number beyond its maximum */
    JSON_NO_MEMORY, /* for a text with escapes */
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

/* What may come next. */
enum json_expected {
    JSON_EXPECT_VALUE,
    JSON_EXPECT_FIRST_VALUE, /* or the end of the list */
    JSON_EXPECT_KEY,
    JSON_EXPECT_FIRST_KEY, /* or the end of the object */
    JSON_EXPECT_COLON,
    JSON_EXPECT_COMMA, /* or the end */
    JSON_EXPECT_NOTHING,
};

/* Zeroed at the beginning. */
struct json_scanner {
    const char *at, *end;
    /* Of a key, a text or a number, valid until the next call and as long as the bytes. Escapes are
     * decoded; zero and half surrogate pairs become U+FFFD. A number is as it is written. */
    const char *text;
    size_t length;
    const char *error;
    enum json_expected expected;
    unsigned depth;
    uint64_t lists[JSON_DEPTH_MAX / 64]; /* bits by depth: a list, else an object */
    size_t known;                        /* bytes of an unfinished text that have no quote */
    char *decoded;
    size_t decoded_capacity;
};

/* Return the next token, after which `at` points. */
enum json_token json_scan(struct json_scanner *scanner);

void json_scanner_free(struct json_scanner *scanner);

#endif
