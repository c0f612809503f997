/* SPDX-License-Identifier: Apache-2.0 */
/* The spool of a sink: order, bound, restart, and files that are no messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "production/sinks/spool.h"
#include "production/sinks/spool_file.h"
#include "util/write_all.h"

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/test-spool-XXXXXX");
    return mkdtemp(path) == NULL ? -1 : 0;
}

static int remove_path(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", path);
    return system(command);
}

static struct sink_message message_of(const char *body, size_t length)
{
    return (struct sink_message){.target = "/push?a=b",
                                 .content_type = "text/plain",
                                 .content_encoding = "",
                                 .body = body,
                                 .length = length,
                                 .periods = 3};
}

static void add(struct spool *spool, const char *body)
{
    struct sink_message message = message_of(body, strlen(body));
    assert_int_equal(spool_add(spool, &message, NULL), 0);
}

static void check_body(struct spool *spool, uint64_t sequence, const char *body)
{
    struct spool_message read;
    assert_int_equal(spool_read(spool, sequence, &read), 0);
    assert_int_equal(read.message.length, strlen(body));
    assert_memory_equal(read.message.body, body, strlen(body));
    assert_string_equal(read.message.target, "/push?a=b");
    assert_string_equal(read.message.content_type, "text/plain");
    assert_string_equal(read.message.content_encoding, "");
    assert_int_equal(read.message.periods, 3);
    spool_message_free(&read);
}

static void keeps_the_order(void **state)
{
    struct spool spool;
    struct error error;
    (void)state;
    assert_int_equal(spool_open(&spool, path, 1 << 20, &error), 0);
    assert_null(spool_next(&spool, 0));
    add(&spool, "one");
    add(&spool, "two");
    add(&spool, "three");
    uint64_t one = spool_next(&spool, 0)->sequence, two = spool_next(&spool, one)->sequence;
    uint64_t three = spool_next(&spool, two)->sequence;
    assert_int_equal(spool_next(&spool, three)->sequence, one);
    check_body(&spool, one, "one");
    check_body(&spool, two, "two");
    spool_remove(&spool, two, false);
    assert_int_equal(spool_next(&spool, one)->sequence, three);
    assert_int_equal(spool.dropped_messages, 0);
    spool_close(&spool);
}

static void outlives_a_restart(void **state)
{
    struct spool spool, second;
    struct error error;
    (void)state;
    assert_int_equal(spool_open(&spool, path, 1 << 20, &error), 0);
    add(&spool, "one");
    add(&spool, "two");
    int64_t created_ns = spool.entries[0].created_ns;
    assert_int_equal(spool_open(&second, path, 1 << 20, &error), -EBUSY);
    spool_close(&spool);

    assert_int_equal(spool_open(&spool, path, 1 << 20, &error), 0);
    assert_int_equal(spool.count, 2);
    assert_int_equal(spool.entries[0].created_ns, created_ns);
    assert_int_equal(spool.entries[0].periods, 3);
    assert_int_equal(spool.bytes, 2 * SPOOL_BLOCK_BYTES);
    add(&spool, "three");
    assert_true(spool.entries[2].sequence > spool.entries[1].sequence);
    check_body(&spool, spool.entries[0].sequence, "one");
    spool_close(&spool);
}

static void drops_the_oldest(void **state)
{
    struct spool spool;
    struct error error;
    (void)state;
    assert_int_equal(spool_open(&spool, path, 3 * SPOOL_BLOCK_BYTES, &error), 0);
    add(&spool, "one");
    add(&spool, "two");
    add(&spool, "three");
    assert_int_equal(spool.dropped_messages, 0); /* the bound is reached, not exceeded */
    add(&spool, "four");
    assert_int_equal(spool.count, 3);
    assert_int_equal(spool.dropped_messages, 1);
    assert_int_equal(spool.dropped_periods, 3);
    check_body(&spool, spool_next(&spool, 0)->sequence, "two");
    /* The one that is being sent stays. */
    spool.held = spool_next(&spool, 0)->sequence;
    add(&spool, "five");
    check_body(&spool, spool.held, "two");
    check_body(&spool, spool_next(&spool, spool.held)->sequence, "four");
    spool_close(&spool);

    /* A smaller bound at the next start. */
    assert_int_equal(spool_open(&spool, path, SPOOL_BLOCK_BYTES, &error), 0);
    assert_int_equal(spool.count, 1);
    assert_int_equal(spool.dropped_messages, 2);
    check_body(&spool, spool_next(&spool, 0)->sequence, "five");
    spool_close(&spool);
}

static void refuses_what_never_fits(void **state)
{
    static char body[3 * SPOOL_BLOCK_BYTES];
    static char target[SPOOL_FILE_TEXT_BYTES_MAX + 2];
    struct sink_message large = message_of(body, sizeof(body)), long_target = message_of("x", 1);
    struct spool spool;
    struct error error;
    (void)state;
    memset(target, 'x', sizeof(target) - 1);
    long_target.target = target;
    assert_int_equal(spool_open(&spool, path, 2 * SPOOL_BLOCK_BYTES, &error), 0);
    add(&spool, "one");
    assert_int_equal(spool_add(&spool, &large, &error), -EMSGSIZE);
    assert_int_equal(spool_add(&spool, &long_target, &error), -EMSGSIZE);
    assert_int_equal(spool.count, 1); /* it drops nothing for what does not fit anyway */
    assert_int_equal(spool.dropped_messages, 2);
    assert_int_equal(spool.dropped_periods, 6);
    spool_close(&spool);
}

/* Write the file of a message and return its bytes. */
static size_t make_file(uint8_t *bytes, size_t room)
{
    struct sink_message message = message_of("the body", 8);
    int fd = memfd_create("message", MFD_CLOEXEC);
    assert_int_equal(spool_file_write(fd, &message, 42), 0);
    off_t size = lseek(fd, 0, SEEK_END);
    assert_int_equal(size, spool_file_size(&message));
    assert_true((size_t)size <= room);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(read_all(fd, bytes, (size_t)size), 0);
    close(fd);
    return (size_t)size;
}

static void finds_every_damage(void **state)
{
    uint8_t bytes[512];
    struct sink_message message;
    struct spool_file_head head;
    (void)state;
    size_t size = make_file(bytes, sizeof(bytes));
    assert_int_equal(spool_file_read(bytes, size, &message), 0);
    assert_int_equal(spool_file_read_head(bytes, SPOOL_FILE_HEAD_BYTES, size, &head), 0);
    assert_int_equal(head.created_ns, 42);
    assert_int_equal(head.periods, 3);
    for (size_t i = 0; i < size * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(spool_file_read(bytes, size, &message), -EBADMSG);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t length = 0; length < size; length++)
        assert_int_equal(spool_file_read(bytes, length, &message), -EBADMSG);
    assert_int_equal(spool_file_read_head(bytes, SPOOL_FILE_HEAD_BYTES, size + 1, &head), -EBADMSG);
    assert_int_equal(spool_file_read_head(bytes, SPOOL_FILE_HEAD_BYTES - 1, size, &head), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_the_order, make_path, remove_path),
        cmocka_unit_test_setup_teardown(outlives_a_restart, make_path, remove_path),
        cmocka_unit_test_setup_teardown(drops_the_oldest, make_path, remove_path),
        cmocka_unit_test_setup_teardown(refuses_what_never_fits, make_path, remove_path),
        cmocka_unit_test(finds_every_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
