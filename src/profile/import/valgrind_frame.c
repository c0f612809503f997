/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a frame into address, function, and source or file. */
#include "profile/import/valgrind_frame.h"

#include <ctype.h>
#include <string.h>

#include "util/hex.h"

/* Read "0x1234: ". Return the bytes that it has. */
static size_t read_address(const char *text, size_t length, uint64_t *address)
{
    size_t at = 2;
    if (length < 3 || text[0] != '0' || text[1] != 'x')
        return 0;
    for (; at < length && at < 18 && hex_digit(text[at]) < 16; at++)
        *address = *address << 4 | hex_digit(text[at]);
    if (length - at < 2 || text[at] != ':' || text[at + 1] != ' ')
        return 0;
    return at + 2;
}

/* Read "a.c:12" or "in /usr/lib/libfoo.so". */
static void read_place(struct builder *builder, const char *at, const char *end,
                       struct builder_frame_key *key)
{
    if (end - at > 3 && memcmp(at, "in ", 3) == 0) {
        const struct profile_mapping mapping = {0};
        uint32_t path = builder_string(builder, at + 3, (size_t)(end - at - 3));
        key->mapping = builder_mapping(builder, &mapping, path, 0);
        return;
    }
    const char *digits = end;
    while (digits > at && isdigit((unsigned char)digits[-1]))
        digits--;
    uint64_t line = 0;
    for (const char *next = digits; next < end && line <= UINT32_MAX; next++)
        line = 10 * line + (uint64_t)(*next - '0');
    bool has_line = digits < end && digits > at + 1 && digits[-1] == ':' && line <= UINT32_MAX;
    key->line = has_line ? (uint32_t)line : 0;
    key->source_file = builder_string(builder, at, (size_t)((has_line ? digits - 1 : end) - at));
}

uint32_t valgrind_frame(struct builder *builder, const char *text, size_t length)
{
    struct builder_frame_key key = {.mapping = PROFILE_NONE};
    size_t skipped = read_address(text, length, &key.rel_pc);
    const char *at = text + skipped, *end = text + length;
    if (skipped == 0)
        key.rel_pc = 0;
    const char *open = length - skipped > 3 && end[-1] == ')' ? end - 1 : NULL;
    /* A path may have parentheses, but hardly with a blank before them. */
    while (open != NULL && open > at + 1 && !(*open == '(' && open[-1] == ' '))
        open--;
    if (open != NULL && open > at + 1) {
        read_place(builder, open + 1, end - 1, &key);
        end = open - 1;
    }
    if (end > at && !(end - at == 3 && memcmp(at, "???", 3) == 0))
        key.name = builder_string(builder, at, (size_t)(end - at));
    return builder->error < 0 ? PROFILE_NONE : builder_frame_of(builder, &key);
}
