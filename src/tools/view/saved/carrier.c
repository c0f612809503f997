/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads columns. */
#include "tools/view/saved/carrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile/merge_samples.h"
#include "util/xmalloc.h"

void carrier_fail(struct carrier *carrier, const char *reason)
{
    if (!carrier->failed)
        error_set(carrier->error, -EBADMSG, "the data of the page are damaged at byte %zu: %s",
                  (size_t)(carrier->at - carrier->bytes), reason);
    carrier->failed = true;
}

void *carrier_keep(struct carrier *carrier, size_t count, size_t bytes)
{
    return xmalloc_made(profile_merge_memory(carrier->profile, count + 1, bytes));
}

const unsigned char *carrier_take(struct carrier *carrier, size_t count)
{
    const unsigned char *at = carrier->at;
    if (carrier->failed)
        return NULL;
    if (count > (size_t)(carrier->end - at)) {
        carrier_fail(carrier, "it ends too early");
        return NULL;
    }
    carrier->at += count;
    return at;
}

void carry_number(struct carrier *carrier, uint32_t *number)
{
    unsigned char bytes[4];
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(*number >> 8 * i);
    if (!carrier->reads)
        fwrite(bytes, 1, sizeof(bytes), carrier->out);
    const unsigned char *taken = carrier->reads ? carrier_take(carrier, sizeof(bytes)) : bytes;
    *number = taken == NULL ? 0
                            : (uint32_t)taken[0] | (uint32_t)taken[1] << 8 |
                                  (uint32_t)taken[2] << 16 | (uint32_t)taken[3] << 24;
}

void carry_count(struct carrier *carrier, size_t *count)
{
    uint32_t number = (uint32_t)*count;
    if (!carrier->reads && *count > UINT32_MAX)
        xmalloc_fail(*count);
    carry_number(carrier, &number);
    if (carrier->reads && number > (size_t)(carrier->end - carrier->bytes)) {
        carrier_fail(carrier, "it has more items than bytes");
        number = 0;
    }
    *count = number;
}

/* --- columns --- */

static void write_column(FILE *out, const uint64_t *values, size_t count)
{
    uint64_t all = 0;
    unsigned char *plane = xmalloc(count + 1);
    for (size_t i = 0; i < count; i++)
        all |= values[i];
    unsigned planes = 0;
    for (; planes < 8 && all >> 8 * planes != 0; planes++)
        ;
    fputc((int)planes, out);
    for (unsigned i = 0; i < planes; i++) {
        for (size_t j = 0; j < count; j++)
            plane[j] = (unsigned char)(values[j] >> 8 * i);
        fwrite(plane, 1, count, out);
    }
    free(plane);
}

static void read_column(struct carrier *carrier, uint64_t *values, size_t count)
{
    const unsigned char *planes = carrier_take(carrier, 1);
    if (planes != NULL && *planes > 8)
        carrier_fail(carrier, "a number has more than 8 bytes");
    for (unsigned i = 0; !carrier->failed && i < *planes; i++) {
        const unsigned char *plane = carrier_take(carrier, count);
        if (plane == NULL)
            return;
        for (size_t j = 0; j < count; j++)
            values[j] |= (uint64_t)plane[j] << 8 * i;
    }
}

static void to_differences(uint64_t *values, size_t count)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t difference = values[i] - last;
        last = values[i];
        values[i] = difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
    }
}

static void from_differences(uint64_t *values, size_t count)
{
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++) {
        last += values[i] >> 1 ^ -(values[i] & 1);
        values[i] = last;
    }
}

static uint64_t text_number(struct carrier *carrier, const char *text)
{
    bool added;
    if (text == NULL)
        return 0;
    if (text == carrier->last_text)
        return carrier->last_number;
    carrier->last_text = text;
    carrier->last_number = xmalloc_id(intern_bytes(&carrier->text_ids, text, strlen(text), &added));
    if (added)
        fwrite(text, 1, strlen(text) + 1, carrier->texts_out);
    return carrier->last_number;
}

static uint64_t load(struct carrier *carrier, const struct member *member, const char *at)
{
    uint32_t number;
    uint64_t value = 0;
    switch ((enum member_type)member->type) {
    case BOOL:
        return *(const bool *)at;
    case NUMBER32:
        memcpy(&number, at, sizeof(number));
        return number;
    case SIZE:
        return *(const size_t *)at;
    case TEXT:
    case TEXT_OR_NULL:
        return text_number(carrier, *(const char *const *)at);
    case NUMBER64:
    case DOUBLE:
        break;
    }
    memcpy(&value, at, sizeof(value));
    return value;
}

/* Store a column's values in the items. */
static void store(struct carrier *carrier, const struct member *member, char *items, size_t bytes,
                  const uint64_t *values, size_t count)
{
    enum member_type type = member->type;
    uint64_t most = type == BOOL                                    ? 1
                    : type == TEXT || type == TEXT_OR_NULL          ? carrier->text_count
                    : type == NUMBER32 && member->array != NO_ARRAY ? carrier->counts[member->array]
                    : type == NUMBER32                              ? UINT32_MAX
                    : type == SIZE                                  ? SIZE_MAX
                                                                    : UINT64_MAX;
    /* Numbers of texts begin at 1. */
    bool excludes_most = type == NUMBER32 && member->array != NO_ARRAY;
    for (size_t i = 0; i < count; i++) {
        char *at = items + i * bytes + member->offset;
        uint64_t value = values[i];
        bool is_none = member->may_be_none && value == PROFILE_NONE;
        if ((value > most - excludes_most || most < excludes_most) && !is_none)
            return carrier_fail(carrier, "a number is too large");
        if (type == TEXT && value == 0)
            return carrier_fail(carrier, "a text is missing");
        uint32_t number = (uint32_t)value;
        if (type == BOOL)
            *(bool *)at = value != 0;
        else if (type == NUMBER32)
            memcpy(at, &number, sizeof(number));
        else if (type == SIZE)
            *(size_t *)at = (size_t)value;
        else if (type == TEXT || type == TEXT_OR_NULL)
            *(const char **)at = value == 0 ? NULL : carrier->texts[value - 1];
        else
            memcpy(at, &value, sizeof(value));
    }
}

void carry_items(struct carrier *carrier, const struct structure *structure, void *items,
                 size_t count)
{
    uint64_t *values = xcalloc(count + 1, sizeof(*values));
    for (size_t i = 0; i < structure->count && !carrier->failed; i++) {
        const struct member *member = &structure->members[i];
        if (carrier->reads) {
            memset(values, 0, count * sizeof(*values));
            read_column(carrier, values, count);
            if (carrier->failed)
                break;
            if (member->type != DOUBLE)
                from_differences(values, count);
            store(carrier, member, items, structure->bytes, values, count);
            continue;
        }
        for (size_t j = 0; j < count; j++)
            values[j] =
                load(carrier, member, (const char *)items + j * structure->bytes + member->offset);
        if (member->type != DOUBLE)
            to_differences(values, count);
        write_column(carrier->out, values, count);
    }
    free(values);
}

void carry_fixed(struct carrier *carrier, const struct structure *structure, void *items,
                 size_t count)
{
    void **array = items;
    if (carrier->reads)
        *array = xcalloc(count + 1, structure->bytes);
    carry_items(carrier, structure, *array, count);
}

void carry_array(struct carrier *carrier, const struct structure *structure, void *items,
                 size_t *count)
{
    carry_count(carrier, count);
    carry_fixed(carrier, structure, items, *count);
}

static size_t nested_count(const struct nesting *nesting, const char *outer)
{
    uint32_t number;
    if (nesting->count.type == SIZE)
        return *(const size_t *)(outer + nesting->count.offset);
    memcpy(&number, outer + nesting->count.offset, sizeof(number));
    return number;
}

/* Put the inner arrays one after the other. */
static char *gather_nested(const struct nesting *nesting, const char *outer, size_t outer_bytes,
                           size_t outer_count, size_t all)
{
    size_t bytes = nesting->structure->bytes;
    char *inner = xcalloc(all + 1, bytes), *to = inner;
    for (size_t i = 0; i < outer_count; i++, outer += outer_bytes) {
        size_t count = nested_count(nesting, outer);
        if (count > 0)
            memcpy(to, *(void *const *)(outer + nesting->items), count * bytes);
        to += count * bytes;
    }
    return inner;
}

/* Give each outer item its array. */
static void spread_nested(const struct nesting *nesting, char *outer, size_t outer_bytes,
                          size_t outer_count, char *inner)
{
    size_t bytes = nesting->structure->bytes;
    for (size_t i = 0; i < outer_count; i++, outer += outer_bytes) {
        size_t count = nested_count(nesting, outer);
        void *items = nesting->owned ? memcpy(xcalloc(count + 1, bytes), inner, count * bytes)
                                     : (void *)inner;
        memcpy(outer + nesting->items, &items, sizeof(items));
        inner += count * bytes;
    }
}

/* After a failure, no outer item has an array. */
static void forget_nested(const struct nesting *nesting, char *outer, size_t outer_bytes,
                          size_t outer_count)
{
    size_t bytes = nesting->count.type == SIZE ? sizeof(size_t) : sizeof(uint32_t);
    for (size_t i = 0; i < outer_count; i++, outer += outer_bytes)
        memset(outer + nesting->count.offset, 0, bytes);
}

void carry_nested(struct carrier *carrier, const struct nesting *nesting, void *outer,
                  size_t outer_bytes, size_t outer_count)
{
    const struct structure counts = {outer_bytes, &nesting->count, 1};
    size_t bytes = nesting->structure->bytes, all = 0, sum = 0;
    for (size_t i = 0; i < outer_count && !carrier->reads; i++)
        all += nested_count(nesting, (char *)outer + i * outer_bytes);
    carry_count(carrier, &all);
    carry_items(carrier, &counts, outer, outer_count);
    for (size_t i = 0; i < outer_count; i++) {
        size_t count = nested_count(nesting, (char *)outer + i * outer_bytes);
        sum = count <= all - sum ? sum + count : all + 1;
        if (sum > all)
            break;
    }
    if (sum != all && !carrier->failed)
        carrier_fail(carrier, "arrays are not as long as together");
    if (carrier->failed)
        return forget_nested(nesting, outer, outer_bytes, outer_count);
    char *inner = !carrier->reads  ? gather_nested(nesting, outer, outer_bytes, outer_count, all)
                  : nesting->owned ? xcalloc(all + 1, bytes)
                                   : carrier_keep(carrier, all, bytes);
    carry_items(carrier, nesting->structure, inner, all);
    if (carrier->reads)
        spread_nested(nesting, outer, outer_bytes, outer_count, inner);
    if (!carrier->reads || nesting->owned)
        free(inner);
}
