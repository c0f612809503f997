/* SPDX-License-Identifier: Apache-2.0 */
/* Look an instruction up in the index of a code object's entries (ruby_layout.h). */
#include "client/interp/ruby_lines.h"

#include <string.h>

#include "client/interp/interpreter.h"
#include "client/interp/ruby_layout.h"

/* Find how many entries begin at positions up to this one. */
static bool count_entries(bool direct, uintptr_t index, uint64_t position, uint64_t *count)
{
    uint64_t words[RUBY_INDEX_BLOCK_WORDS];
    if (position < RUBY_INDEX_DIRECT) {
        unsigned shift = RUBY_INDEX_DIRECT_BITS * (position % RUBY_INDEX_DIRECT_PER_WORD);
        index += position / RUBY_INDEX_DIRECT_PER_WORD * sizeof(*words);
        if (!interpreter_copy_words(direct, index, words, 1))
            return false;
        *count = words[0] >> shift & ((1u << RUBY_INDEX_DIRECT_BITS) - 1);
        return true;
    }
    position -= RUBY_INDEX_DIRECT;
    index += RUBY_INDEX_DIRECT_BYTES + position / RUBY_INDEX_BLOCK * RUBY_INDEX_BLOCK_BYTES;
    if (!interpreter_copy_words(direct, index, words, RUBY_INDEX_BLOCK_WORDS))
        return false;
    unsigned bit = position % RUBY_INDEX_BLOCK, group = bit / RUBY_INDEX_GROUP;
    *count = words[0] & UINT32_MAX;
    if (group != 0)
        *count +=
            words[1] >> RUBY_INDEX_GROUP_BITS * (group - 1) & ((1u << RUBY_INDEX_GROUP_BITS) - 1);
    uint64_t bits = words[2 + group] << (RUBY_INDEX_GROUP - 1 - bit % RUBY_INDEX_GROUP);
    for (; bits != 0; bits &= bits - 1)
        ++*count;
    return true;
}

bool ruby_lines_find(const struct ruby_layout *layout, bool direct, const uint64_t *body,
                     uintptr_t pc, uint64_t *line)
{
    uint64_t position = (pc - body[RUBY_BODY_CODE]) / sizeof(uint64_t);
    uint64_t entries = body[layout->body_entry_count] & UINT32_MAX, number = 1;
    if (pc % sizeof(uint64_t) != 0 || pc < body[RUBY_BODY_CODE] ||
        position > body[RUBY_BODY_SIZE] >> 32)
        return false;
    position -= position != 0;
    *line = 0;
    if (entries == 0)
        return true;
    if (entries > 1 && !count_entries(direct, body[layout->body_index], position, &number))
        return false;
    if (number == 0 || number > entries)
        return false;
    int32_t room;
    const uint8_t *view = interpreter_view(
        direct, body[layout->body_entries] + (number - 1) * RUBY_ENTRY_BYTES, &room, sizeof(room));
    if (view == NULL)
        return false;
    memcpy(&room, view, sizeof(room));
    *line = room > 0 ? (uint32_t)room : 0;
    return true;
}
