/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON member by member. The writer puts the commas; the caller closes what it opens.
 *
 *     struct json_writer json = json_begin(stdout);
 *     json_object(&json, NULL);
 *     json_string(&json, "name", "jq");
 *     json_end_object(&json);
 *
 * `key` is the member's name in an object, and NULL in an array or for the whole document. Keys are
 * plain words of ours; they are not escaped. Errors of the stream are the caller's to check.
 */
#ifndef HEAPPROFD_UTIL_JSON_WRITER_H
#define HEAPPROFD_UTIL_JSON_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json_writer {
    FILE *out;
    bool has_member; /* the next one follows a comma */
    bool new_line;   /* the next one begins a line */
};

struct json_writer json_begin(FILE *out);

void json_object(struct json_writer *json, const char *key);
void json_end_object(struct json_writer *json);
void json_array(struct json_writer *json, const char *key);
void json_end_array(struct json_writer *json);

/* Begin the next member on a line of its own. */
void json_line(struct json_writer *json);

void json_string(struct json_writer *json, const char *key, const char *text); /* NULL: null */
void json_number(struct json_writer *json, const char *key, double value); /* not finite: null */
void json_unsigned(struct json_writer *json, const char *key, uint64_t value);
void json_signed(struct json_writer *json, const char *key, int64_t value);
/* Print a process id; 0: unknown, null. */
void json_pid(struct json_writer *json, const char *key, int32_t pid);
void json_bool(struct json_writer *json, const char *key, bool value);
void json_null(struct json_writer *json, const char *key);

/* A number whose name is any text, such as that of a type. */
void json_named_number(struct json_writer *json, const char *name, double value);

/* A member whose value is JSON already. */
void json_raw(struct json_writer *json, const char *key, const char *text, size_t length);

#endif
