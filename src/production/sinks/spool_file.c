/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout, in the machine's byte order, because a spool never leaves its machine:
 *
 *     magic (8) | checksum (8) | created_ns (8) | periods (8) | lengths of the texts (3 * 4) |
 *     zero (4) | length of the body (8) | texts, each with a zero byte | body
 *
 * The checksum is XXH3 over everything after itself.
 */
#include "production/sinks/spool_file.h"

#include <string.h>
#include <sys/uio.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "util/write_all.h"

#define MAGIC UINT64_C(0x316c6f6f70735048) /* "HPspool1" */
#define CHECKED_FROM 16u
#define TEXTS 3

struct layout {
    uint64_t magic, checksum;
    int64_t created_ns;
    uint64_t periods;
    uint32_t text_lengths[TEXTS], zero; /* without the zero bytes */
    uint64_t body_length;
};

_Static_assert(sizeof(struct layout) == SPOOL_FILE_HEAD_BYTES, "no padding");

static void texts_of(const struct sink_message *message, const char *texts[TEXTS])
{
    texts[0] = message->target;
    texts[1] = message->content_type;
    texts[2] = message->content_encoding;
}

int64_t spool_file_size(const struct sink_message *message)
{
    const char *texts[TEXTS];
    uint64_t size = sizeof(struct layout) + message->length;
    texts_of(message, texts);
    for (int i = 0; i < TEXTS; i++) {
        size_t length = strlen(texts[i]);
        if (length > SPOOL_FILE_TEXT_BYTES_MAX)
            return -EMSGSIZE;
        size += length + 1;
    }
    return message->length > SPOOL_FILE_BODY_BYTES_MAX ? -EMSGSIZE : (int64_t)size;
}

int spool_file_write(int fd, const struct sink_message *message, int64_t created_ns)
{
    const char *texts[TEXTS];
    struct layout head = {.magic = MAGIC,
                          .created_ns = created_ns,
                          .periods = message->periods,
                          .body_length = message->length};
    struct iovec parts[TEXTS + 2] = {{&head, sizeof(head)}};
    texts_of(message, texts);
    for (int i = 0; i < TEXTS; i++) {
        head.text_lengths[i] = (uint32_t)strlen(texts[i]);
        parts[i + 1] = (struct iovec){(void *)texts[i], head.text_lengths[i] + 1};
    }
    parts[TEXTS + 1] = (struct iovec){(void *)message->body, message->length};

    XXH3_state_t *state = XXH3_createState();
    if (state == NULL)
        return -ENOMEM;
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, (const uint8_t *)&head + CHECKED_FROM, sizeof(head) - CHECKED_FROM);
    for (int i = 1; i < TEXTS + 2; i++)
        XXH3_64bits_update(state, parts[i].iov_base, parts[i].iov_len);
    head.checksum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return write_all_parts(fd, parts, TEXTS + 2);
}

/* Copy the head and check every length in it against the file's size. */
static int read_layout(const uint8_t *bytes, size_t length, uint64_t size, struct layout *head)
{
    if (length < sizeof(*head) || size > SPOOL_FILE_BYTES_MAX)
        return -EBADMSG;
    memcpy(head, bytes, sizeof(*head));
    uint64_t expected = sizeof(*head) + TEXTS;
    for (int i = 0; i < TEXTS; i++) {
        if (head->text_lengths[i] > SPOOL_FILE_TEXT_BYTES_MAX)
            return -EBADMSG;
        expected += head->text_lengths[i];
    }
    if (head->magic != MAGIC || head->zero != 0 || head->body_length > SPOOL_FILE_BODY_BYTES_MAX ||
        expected + head->body_length != size)
        return -EBADMSG;
    return 0;
}

int spool_file_read_head(const uint8_t *bytes, size_t length, uint64_t size,
                         struct spool_file_head *head)
{
    struct layout layout;
    if (read_layout(bytes, length, size, &layout) < 0)
        return -EBADMSG;
    *head = (struct spool_file_head){.created_ns = layout.created_ns, .periods = layout.periods};
    return 0;
}

/* A text goes into the head of a request. */
static bool is_plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e)
            return false;
    }
    return true;
}

int spool_file_read(const uint8_t *bytes, size_t size, struct sink_message *message)
{
    struct layout head;
    const char *texts[TEXTS];
    if (read_layout(bytes, size, size, &head) < 0 ||
        XXH3_64bits(bytes + CHECKED_FROM, size - CHECKED_FROM) != head.checksum)
        return -EBADMSG;
    const char *at = (const char *)bytes + sizeof(head);
    for (int i = 0; i < TEXTS; i++) {
        texts[i] = at;
        if (at[head.text_lengths[i]] != '\0' || !is_plain(at, head.text_lengths[i]))
            return -EBADMSG;
        at += head.text_lengths[i] + 1;
    }
    *message = (struct sink_message){.target = texts[0],
                                     .content_type = texts[1],
                                     .content_encoding = texts[2],
                                     .body = at,
                                     .length = head.body_length,
                                     .periods = head.periods};
    return 0;
}
