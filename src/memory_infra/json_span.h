/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON in memory, taken apart as it stands: what is not changed keeps its bytes. For text that a
 * parser has been through already; what is wrong nevertheless is found, not crashed over.
 */
#ifndef HEAPPROFD_MEMORY_INFRA_JSON_SPAN_H
#define HEAPPROFD_MEMORY_INFRA_JSON_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value, or what is left of an object or list. */
struct json_span {
    const char *at, *end;
};

struct json_member {
    struct json_span key, value; /* the key with its quotes; in lists it is empty */
};

/* Whether *span begins with { or [ and ends with its like: then it is what is between them. */
bool json_span_open(struct json_span *span, char bracket);
/* 1: the next member of an object, or element of a list, out of *span; 0: there is none; -1: it is
 * no JSON. */
int json_span_next(struct json_span *span, bool of_list, struct json_member *member);

/* Whether the value is this text; escapes are understood. */
bool json_span_is(struct json_span value, const char *text);
/* The text of a value: malloc'd, UTF-8, zeros and what is no character as U+FFFD. NULL: it is no
 * text, or there is no memory. */
char *json_span_text(struct json_span value);
/* A whole number that is not negative, as 12, 12.0 or 1.2e1. */
bool json_span_number(struct json_span value, uint64_t *number);

#endif
