/* SPDX-License-Identifier: Apache-2.0 */
/* The trace that a consumer writes from replies, and the configurations that it sends. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "recorder/tracing/consumer/packet_writer.h"
#include "recorder/tracing/consumer/session_config.h"

struct trace {
    int fd;
    struct packet_writer writer;
    struct error error;
    char bytes[64];
    size_t length;
};

static struct trace open_trace(void)
{
    struct trace trace = {.fd = memfd_create("trace", MFD_CLOEXEC)};
    assert_true(trace.fd >= 0);
    packet_writer_init(&trace.writer, trace.fd, UINT64_MAX);
    return trace;
}

static int add(struct trace *trace, const char *reply, size_t length)
{
    return packet_writer_add(&trace->writer, (const uint8_t *)reply, length, &trace->error);
}

static void close_trace(struct trace *trace)
{
    trace->length = (size_t)pread(trace->fd, trace->bytes, sizeof(trace->bytes), 0);
    packet_writer_clear(&trace->writer);
    close(trace->fd);
}

static void slices_become_packets(void **state)
{
    (void)state;
    struct trace trace = open_trace();
    /* "ab" whole; "c" and "d" over two replies; an empty packet. */
    assert_int_equal(add(&trace,
                         "\x12\x06\x0a\x02"
                         "ab"
                         "\x10\x01"
                         "\x12\x03\x0a\x01"
                         "c",
                         13),
                     0);
    assert_int_equal(trace.writer.packets, 1);
    assert_int_equal(add(&trace, NULL, 0), 0);
    assert_int_equal(add(&trace,
                         "\x12\x05\x0a\x01"
                         "d"
                         "\x10\x01"
                         "\x12\x02\x10\x01",
                         11),
                     0);
    close_trace(&trace);
    assert_int_equal(trace.length, 10);
    assert_memory_equal(trace.bytes,
                        "\x0a\x02"
                        "ab"
                        "\x0a\x02"
                        "cd"
                        "\x0a\x00",
                        10);
}

static void whole_packets_before_an_error_are_kept(void **state)
{
    (void)state;
    struct trace trace = open_trace();
    assert_int_equal(add(&trace,
                         "\x12\x05\x0a\x01"
                         "a"
                         "\x10\x01"
                         "\x12\x7f",
                         9),
                     -EPROTO);
    assert_non_null(strstr(trace.error.message, "malformed packets"));
    close_trace(&trace);
    assert_memory_equal(trace.bytes,
                        "\x0a\x01"
                        "a",
                        3);
}

static void a_packet_is_bounded(void **state)
{
    (void)state;
    struct trace trace = open_trace();
    const size_t part = (size_t)1 << 20, head = 8;
    char *reply = calloc(1, part + head);
    /* A slice of 1 MiB that is not the last one: {2: {1: bytes}}. */
    memcpy(reply, "\x12\x84\x80\x40\x0a\x80\x80\x40", head);
    size_t count = 0;
    int code = 0;
    for (; code == 0; count++)
        code = add(&trace, reply, part + head);
    assert_int_equal(code, -EPROTO);
    assert_int_equal(count, PACKET_WRITER_BYTES_MAX / part + 1);
    free(reply);
    close_trace(&trace);
    assert_int_equal(trace.length, 0);
}

static void a_trace_is_bounded(void **state)
{
    (void)state;
    struct trace trace = open_trace();
    trace.writer.bytes_max = 7;
    static const char reply[] = "\x12\x05\x0a\x01"
                                "a"
                                "\x10\x01";
    assert_int_equal(add(&trace, reply, 7), 0);
    assert_int_equal(add(&trace, reply, 7), 0);
    assert_int_equal(add(&trace, reply, 7), -EFBIG);
    assert_non_null(strstr(trace.error.message, "more than 7 bytes"));
    close_trace(&trace);
    assert_int_equal(trace.length, 6);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    struct trace trace = open_trace();
    trace.writer.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(add(&trace,
                         "\x12\x05\x0a\x01"
                         "a"
                         "\x10\x01",
                         7),
                     -ENOSPC);
    assert_non_null(strstr(trace.error.message, "cannot write the trace"));
    close(trace.writer.fd);
    close_trace(&trace);
}

static void read_text(struct session_config *config, const char *text)
{
    struct error error;
    if (session_config_read_text(config, text, strlen(text), &error) < 0)
        fail_msg("%s", error.message);
}

static void a_text_keeps_all_fields(void **state)
{
    (void)state;
    struct session_config config;
    struct error error;
    static const char text[] = "data_sources { config { name: \"linux.ftrace\" ftrace_config {"
                               " ftrace_events: \"a/b\" } 777 { 1: 5 } } } 3000: 7";
    read_text(&config, text);
    static const char bytes[] = "\x12\x1d\x0a\x1b\x0a\x0clinux.ftrace\xa2\x06\x05\x0a\x03"
                                "a/b\xca\x30\x02\x08\x05\xc0\xbb\x01\x07";
    assert_int_equal(config.length, sizeof(bytes) - 1);
    assert_memory_equal(config.bytes, bytes, config.length);
    assert_true(session_config_has_source(&config, "linux.ftrace"));
    assert_false(session_config_has_source(&config, "linux"));
    session_config_clear(&config);

    static const char unknown[] = "data_sources { config {\n  no_such: 1 } }";
    assert_true(session_config_read_text(&config, unknown, strlen(unknown), &error) < 0);
    assert_non_null(strstr(error.message, "2:3"));
    assert_non_null(strstr(error.message, "no_such"));
}

static void times_come_from_the_configuration(void **state)
{
    (void)state;
    struct session_config config;
    read_text(&config, "duration_ms: 70 flush_timeout_ms: 8");
    assert_int_equal(session_config_duration_ms(&config), 70);
    assert_int_equal(session_config_stop_ms(&config), 5008);
    assert_int_equal(session_config_trigger_mode(&config), 0);
    assert_int_equal(session_config_trace_bytes_max(&config), 64 << 20);
    session_config_clear(&config);
    read_text(&config, "trigger_config { trigger_mode: STOP_TRACING trigger_timeout_ms: 100"
                       " triggers { name: \"a\" stop_delay_ms: 5 } triggers { stop_delay_ms: 3 } }"
                       " data_source_stop_timeout_ms: 9");
    assert_int_equal(session_config_duration_ms(&config), 105);
    assert_int_equal(session_config_stop_ms(&config), 5009);
    assert_int_equal(session_config_trigger_mode(&config), 2);
    session_config_clear(&config);
}

static void a_configuration_fits_into_a_frame(void **state)
{
    (void)state;
    struct session_config config;
    struct error error;
    uint8_t *large = calloc(1, SESSION_CONFIG_BYTES_MAX + 1);
    assert_int_equal(
        session_config_read_binary(&config, large, SESSION_CONFIG_BYTES_MAX + 1, &error), -EFBIG);
    assert_int_equal(session_config_read_binary(&config, "\x0a\x05", 2, &error), -EINVAL);
    assert_int_equal(session_config_read_binary(&config, NULL, 0, &error), 0);
    assert_false(session_config_has_heaps(&config));
    session_config_clear(&config);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_become_packets),
        cmocka_unit_test(whole_packets_before_an_error_are_kept),
        cmocka_unit_test(a_packet_is_bounded),
        cmocka_unit_test(a_trace_is_bounded),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(a_text_keeps_all_fields),
        cmocka_unit_test(times_come_from_the_configuration),
        cmocka_unit_test(a_configuration_fits_into_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
