/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Escapes untrusted text that a terminal would obey instead of showing: control characters, bytes
 * that are not UTF-8 (some terminals take 0x80 to 0x9f as controls), line separators, and marks
 * that change the direction of text, with which one name can look like another.
 */
#ifndef HEAPPROFD_UTIL_TERMINAL_TEXT_H
#define HEAPPROFD_UTIL_TERMINAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* "\u202e" and its zero byte. */
#define TERMINAL_TEXT_ESCAPE_BYTES 8

/* Return whether the character of `length` bytes, from utf8_length(), must be escaped. */
bool terminal_text_commands(const unsigned char *at, size_t length);

/* Copy the next character of `at`, or its escape ("\x1b", "\u202e"), to `shown`. Return the number
 * of its bytes in the text; 0 at the end of the text. */
size_t terminal_text_next(const unsigned char *at, char shown[TERMINAL_TEXT_ESCAPE_BYTES]);

/* Escape a whole text, except newlines if `keep_newlines`, and cut it to `room` bytes including the
 * zero byte. */
void terminal_text_escape(const char *text, bool keep_newlines, char *shown, size_t room);

#endif
