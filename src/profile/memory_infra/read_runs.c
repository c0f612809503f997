/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nearly all bytes of a file are nodes, {"id":3,"name_sid":1,"parent":2}, and columns of figures.
 * Take runs of them without tokens. Whatever is written in another way, or needs a message, is left
 * to the scanner: blanks, other keys, other numbers than whole ones of at most 16 digits, and the
 * last bytes of a piece.
 */
#include <endian.h>
#include <string.h>

#include "profile/memory_infra/read_private.h"
#include "util/array.h"

/* A node has at most this many members, of at most 12 bytes of key and 16 digits each. */
#define MEMBERS_MAX 8u
#define NODE_BYTES_MAX (MEMBERS_MAX * 32u)
/* A comma, a number, and what is read ahead. */
#define FIGURE_BYTES_MAX 32u

#define ALL_BYTES(byte) (UINT64_C(0x0101010101010101) * (byte))

/* --- numbers --- */

/* Return the value of eight digits, as values of 0 to 9, the first in the lowest byte. Add pairs of
 * digits, then pairs of these, then both halves. */
static inline uint64_t sum_digits(uint64_t digits)
{
    const uint64_t mask = UINT64_C(0x000000ff000000ff);
    digits = digits * 10 + (digits >> 8);
    return (uint32_t)(((digits & mask) * (100 + (UINT64_C(1000000) << 32)) +
                       (digits >> 16 & mask) * (1 + (UINT64_C(10000) << 32))) >>
                      32);
}

/* Read up to eight digits. Return their number. */
static inline unsigned read_eight(const char *at, uint64_t *value)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    word = le64toh(word) ^ ALL_BYTES('0');
    uint64_t others = (((word & ALL_BYTES(0x7f)) + ALL_BYTES(0x80 - 10)) | word) & ALL_BYTES(0x80);
    unsigned count = others == 0 ? 8 : (unsigned)__builtin_ctzll(others) / 8;
    *value = count == 0 ? 0 : sum_digits(word << (64 - 8 * count));
    return count;
}

/* Read a whole number of at most 16 digits, after which there is no further digit. Return the byte
 * after it, or NULL. 17 bytes are readable. */
static inline const char *read_whole(const char *at, uint64_t *value)
{
    static const uint32_t powers[] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
    unsigned count = read_eight(at, value);
    if (count == 0 || (*at == '0' && count > 1))
        return NULL;
    at += count;
    if (count == 8) {
        uint64_t more;
        count = read_eight(at, &more);
        *value = *value * powers[count] + more;
        at += count;
        if (count == 8 && *at >= '0' && *at <= '9')
            return NULL;
    }
    return at;
}

/* --- nodes --- */

static inline bool take_key(const char **at, const char *key, size_t length)
{
    if (memcmp(*at, key, length) != 0)
        return false;
    *at += length;
    return true;
}

#define TAKE_KEY(at, name) take_key(at, "\"" name "\":", sizeof("\"" name "\":") - 1)

/* Read a key and the colon. FIELD_NONE: another key. */
static inline enum field read_key(const char **at)
{
    return TAKE_KEY(at, "name_sid")   ? FIELD_NAME_SID
           : TAKE_KEY(at, "parent")   ? FIELD_PARENT
           : TAKE_KEY(at, "id")       ? FIELD_ID
           : TAKE_KEY(at, "file_sid") ? FIELD_FILE_SID
           : TAKE_KEY(at, "line")     ? FIELD_LINE
                                      : FIELD_NONE;
}

struct node_members {
    uint64_t values[FIELD_LINE - FIELD_ID + 1];
    unsigned present; /* bits */
};

/* Read a node that begins at `at`. Return the byte after it, or NULL: it has an unusual form. */
static inline const char *read_members(const char *at, struct node_members *members)
{
    members->present = 0;
    if (*at++ != '{')
        return NULL;
    for (unsigned i = 0; i < MEMBERS_MAX; i++) {
        enum field field = read_key(&at);
        if (field == FIELD_NONE)
            return NULL;
        unsigned index = field - FIELD_ID;
        at = read_whole(at, &members->values[index]);
        if (at == NULL || (*at != ',' && *at != '}'))
            return NULL;
        members->present |= 1u << index;
        if (*at++ == '}')
            return at;
    }
    return NULL;
}

static inline uint64_t member_of(const struct node_members *members, enum field field,
                                 uint64_t otherwise)
{
    return members->present >> (field - FIELD_ID) & 1 ? members->values[field - FIELD_ID]
                                                      : otherwise;
}

/* Return 1 to continue, or 0. */
static inline int report_node(struct memory_infra_reader *reader,
                              const struct node_members *members)
{
    uint64_t line = member_of(members, FIELD_LINE, 0);
    struct memory_infra_node node = {
        .id = member_of(members, FIELD_ID, 0),
        .name_sid = member_of(members, FIELD_NAME_SID, 0),
        .parent = member_of(members, FIELD_PARENT, MEMORY_INFRA_NONE),
        .file_sid = member_of(members, FIELD_FILE_SID, MEMORY_INFRA_NONE),
        .line = line <= UINT32_MAX ? (uint32_t)line : 0,
    };
    return reader_answer(reader, reader->visitor->node(reader->context, &node));
}

static int take_nodes(struct memory_infra_reader *reader)
{
    const unsigned needed = 1u << (FIELD_ID - FIELD_ID) | 1u << (FIELD_NAME_SID - FIELD_ID);
    struct json_scanner *json = &reader->json;
    struct node_members members;
    while (json->end - json->at > NODE_BYTES_MAX) {
        const char *at = json->at;
        if (json->expected == JSON_EXPECT_COMMA && *at++ != ',')
            return 1;
        at = read_members(at, &members);
        if (at == NULL || (members.present & needed) != needed)
            return 1;
        json->at = at;
        json->expected = JSON_EXPECT_COMMA;
        if (reader->visitor->node != NULL && !report_node(reader, &members))
            return 0;
    }
    return 1;
}

/* --- columns --- */

static int take_figures(struct memory_infra_reader *reader, enum place place)
{
    struct json_scanner *json = &reader->json;
    struct column *column = &reader->columns[place - PLACE_COLUMN_NODES];
    /* Wide enough for all ids, and for all whole numbers that a double has. */
    const uint64_t most = place <= PLACE_COLUMN_TYPES ? UINT64_MAX : UINT64_C(1) << 53;
    while (json->end - json->at > FIGURE_BYTES_MAX) {
        const char *at = json->at;
        uint64_t value;
        if (json->expected == JSON_EXPECT_COMMA && *at++ != ',')
            return 1;
        at = read_whole(at, &value);
        if (at == NULL || (*at != ',' && *at != ']') || value > most)
            return 1;
        if (ARRAY_RESERVE(&column->ids, &column->capacity, column->count, 1) < 0)
            return reader_out_of_memory(reader);
        if (place <= PLACE_COLUMN_TYPES)
            column->ids[column->count++] = value;
        else
            column->values[column->count++] = (double)value;
        json->at = at;
        json->expected = JSON_EXPECT_COMMA;
    }
    return 1;
}

int reader_take_runs(struct memory_infra_reader *reader)
{
    enum place place = reader->depth == 0 ? PLACE_NONE : reader->places[reader->depth - 1];
    bool column = place >= PLACE_COLUMN_NODES && place <= PLACE_COLUMN_SIZES;
    if ((!column && place != PLACE_NODES) || reader->skipped > 0 || reader->event.spoilt)
        return 1;
    return column ? take_figures(reader, place) : take_nodes(reader);
}
