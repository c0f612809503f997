/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads answers in ClickHouse's RowBinary: values without names or separators. The bytes are
 * untrusted: every read is bounded, and after the first one that does not fit all others return 0
 * and "", and answer_is_bad() is true.
 */
#ifndef HEAPPROFD_PRODUCTION_FLEET_ANSWER_H
#define HEAPPROFD_PRODUCTION_FLEET_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Longer texts and arrays are damage. */
#define ANSWER_TEXT_BYTES_MAX (64u * 1024u)
#define ANSWER_ITEMS_MAX (64u * 1024u)

struct answer {
    const uint8_t *begin, *at, *end;
    bool is_bad;
};

struct answer_text {
    const char *bytes; /* not terminated */
    size_t length;
};

static inline struct answer answer_begin(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    return (struct answer){at, at, length == 0 ? at : at + length, false};
}

/* Return whether there is another row. */
static inline bool answer_has_more(const struct answer *answer)
{
    return !answer->is_bad && answer->at < answer->end;
}

static inline void answer_take(struct answer *answer, void *to, size_t length)
{
    if (answer->is_bad || (size_t)(answer->end - answer->at) < length) {
        answer->is_bad = true;
        memset(to, 0, length);
        return;
    }
    memcpy(to, answer->at, length);
    answer->at += length;
}

#define ANSWER_NUMBER(name, type)                                                                  \
    static inline type answer_##name(struct answer *answer)                                        \
    {                                                                                              \
        type value;                                                                                \
        answer_take(answer, &value, sizeof(value));                                                \
        return value;                                                                              \
    }
ANSWER_NUMBER(u8, uint8_t)
ANSWER_NUMBER(u32, uint32_t)
ANSWER_NUMBER(u64, uint64_t)
ANSWER_NUMBER(double, double)
#undef ANSWER_NUMBER

/* Sums beyond are damage: variances of bytes, times seconds, stay far below. So products of a few
 * figures are finite. */
#define ANSWER_FIGURE_MAX 1e60

/* Return a double that must be a figure. */
static inline double answer_figure(struct answer *answer)
{
    double value = answer_double(answer);
    if (value >= -ANSWER_FIGURE_MAX && value <= ANSWER_FIGURE_MAX)
        return value;
    answer->is_bad = true;
    return 0;
}

static inline uint64_t answer_varint(struct answer *answer, uint64_t most)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        uint8_t byte = answer_u8(answer);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            answer->is_bad |= value > most;
            return answer->is_bad ? 0 : value;
        }
    }
    answer->is_bad = true;
    return 0;
}

/* The text points into the answer. */
static inline struct answer_text answer_text(struct answer *answer)
{
    uint64_t length = answer_varint(answer, ANSWER_TEXT_BYTES_MAX);
    if (length > (size_t)(answer->end - answer->at))
        answer->is_bad = true;
    if (answer->is_bad)
        return (struct answer_text){"", 0};
    struct answer_text text = {(const char *)answer->at, length};
    answer->at += length;
    return text;
}

/* Return the number of an array's items, which follow. */
static inline size_t answer_items(struct answer *answer)
{
    return answer_varint(answer, ANSWER_ITEMS_MAX);
}

#endif
