/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes one character at a time and decides whether to escape it. */
#include "util/terminal_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "util/utf8.h"

static uint32_t code_of(const unsigned char *at, size_t length)
{
    uint32_t code = length == 1 ? *at : *at & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

static bool is_command(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x061c || code == 0x200e ||
           code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

bool terminal_text_commands(const unsigned char *at, size_t length)
{
    return length == 0 || (length < 4 && is_command(code_of(at, length)));
}

size_t terminal_text_next(const unsigned char *at, char shown[TERMINAL_TEXT_ESCAPE_BYTES])
{
    size_t length = utf8_length(at);
    if (*at == '\0') {
        *shown = '\0';
        return 0;
    }
    if (!terminal_text_commands(at, length)) {
        memcpy(shown, at, length);
        shown[length] = '\0';
        return length;
    }
    if (length > 1)
        snprintf(shown, TERMINAL_TEXT_ESCAPE_BYTES, "\\u%04x", code_of(at, length) & 0xffff);
    else
        snprintf(shown, TERMINAL_TEXT_ESCAPE_BYTES, "\\x%02x", *at);
    return length > 0 ? length : 1;
}

void terminal_text_escape(const char *text, bool keep_newlines, char *shown, size_t room)
{
    const unsigned char *at = (const unsigned char *)text;
    char next[TERMINAL_TEXT_ESCAPE_BYTES];
    size_t used = 0, taken, length;
    while ((taken = terminal_text_next(at, next)) > 0) {
        if (*at == '\n' && keep_newlines)
            strcpy(next, "\n");
        length = strlen(next);
        if (used + length >= room)
            break;
        memcpy(shown + used, next, length);
        used += length;
        at += taken;
    }
    shown[used] = '\0';
}
