/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from elsewhere that a terminal would obey instead of showing: control characters, bytes that
 * are no UTF-8 (some terminals take 0x80 to 0x9f as controls), line separators, and marks that
 * change the direction of text, by which a name can look like another one.
 */
#ifndef HEAPPROFD_UTIL_TERMINAL_TEXT_H
#define HEAPPROFD_UTIL_TERMINAL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* "\u202e" and its zero byte. */
#define TERMINAL_TEXT_ESCAPE_BYTES 8

/* Whether the character of `length` bytes, as utf8_length() returns it, must be escaped. */
bool terminal_text_commands(const unsigned char *at, size_t length);

/* Copy the next character of `at`, or its escape ("\x1b", "\u202e"), to `shown`. Return the bytes
 * of the text that it takes. At the text's end return 0. */
size_t terminal_text_next(const unsigned char *at, char shown[TERMINAL_TEXT_ESCAPE_BYTES]);

/* Escape a whole text, but for newlines if they are kept, and cut it to `room` bytes with the zero
 * byte at its end. */
void terminal_text_escape(const char *text, bool keep_newlines, char *shown, size_t room);

#endif
