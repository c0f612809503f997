/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes as slices: what is written for each sequence of records, whatever a client may send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pb_field_numbers.h"
#include "recorder/session/slices.h"
#include "trace/proto_cursor.h"
#include "trace_fixture.h"
#include "util/clock.h"

enum { PID = 77, LETTERS_MAX = 4096 };

static struct slices *slices;
static struct trace_writer *writer;
static int fd;
static uint64_t start_ns;
static const struct ledger_thread threads[] = {{0, "(others)"}, {77, "main"}, {78, "worker"}};

static int open_slices(void **state)
{
    (void)state;
    fd = memfd_create("trace", 0);
    writer = trace_writer_open(fd);
    start_ns = clock_read_ns(CLOCK_MONOTONIC) - 1000000;
    slices = slices_open(writer, PID, 1, start_ns, 0);
    return slices == NULL;
}

static int close_slices(void **state)
{
    (void)state;
    slices_close(slices);
    return 0;
}

static void take(uint16_t slot, unsigned thread, uint64_t scope, uint64_t outer, const char *name,
                 uint32_t flags, uint64_t time_ns)
{
    const struct record_scope record = {
        .time_ns = time_ns,
        .scope = scope,
        .outer = outer,
        .flags = flags | (name != NULL ? (uint32_t)RECORD_SCOPE_BEGINS : 0),
    };
    slices_take(slices, &(struct ledger_scope){&record, slot, &threads[thread], name});
}

/* Each record of these is a microsecond after the one before. */
static uint64_t next_ns(void)
{
    return start_ns += 1000;
}

static void begin(uint64_t scope, uint64_t outer, const char *name)
{
    take(0, 1, scope, outer, name, 0, next_ns());
}

static void end(uint64_t scope, uint64_t outer)
{
    take(0, 1, scope, outer, NULL, 0, next_ns());
}

static struct proto_span member(struct proto_span message, uint32_t number, uint64_t *value)
{
    struct proto_field field;
    while (proto_next(&message, &field) > 0) {
        if (field.number != number)
            continue;
        if (value != NULL)
            *value = field.value;
        return field.span;
    }
    return (struct proto_span){0};
}

static void append_event(char *letters, struct proto_span event)
{
    uint64_t type = 0, name = 0;
    member(event, PB_TRACK_EVENT_TYPE, &type);
    member(event, PB_TRACK_EVENT_NAME_IID, &name);
    struct proto_span doubt = member(event, PB_TRACK_EVENT_DEBUG_ANNOTATIONS, NULL);
    size_t length = strlen(letters);
    assert_true(length + 2 < LETTERS_MAX);
    /* Names are interned in the order of their first use: "a", "b", ... */
    letters[length] = type == 1 ? (char)('a' + name - 1) : doubt.at != NULL ? '?' : '-';
    letters[length + 1] = 0;
}

/* End the trace, and check its events: a letter for each begin, - for an end, ? for an end in
 * doubt; | for a new track. Times of a track never decrease. */
static void expect(const char *wanted)
{
    char letters[LETTERS_MAX] = "";
    uint64_t last_ns = 0, last_track = 0;
    trace_writer_close(writer);
    struct fixture_trace trace = fixture_take(fd);
    struct proto_span rest = {trace.bytes, trace.bytes + trace.length};
    struct proto_field packet;
    while (proto_next(&rest, &packet) > 0) {
        uint64_t at_ns = 0, track = 0;
        struct proto_span event = member(packet.span, PB_TRACE_PACKET_TRACK_EVENT, NULL);
        if (member(packet.span, PB_TRACE_PACKET_TRACK_DESCRIPTOR, NULL).at != NULL)
            strcat(letters, "|");
        if (event.at == NULL)
            continue;
        member(packet.span, PB_TRACE_PACKET_TIMESTAMP, &at_ns);
        member(event, PB_TRACK_EVENT_TRACK_UUID, &track);
        assert_true(track != last_track || at_ns >= last_ns);
        last_track = track;
        last_ns = at_ns;
        append_event(letters, event);
    }
    free(trace.bytes);
    assert_string_equal(letters, wanted);
}

static void nests_as_scopes_do(void **state)
{
    (void)state;
    begin(10, 0, "a");
    begin(20, 10, "b");
    end(20, 10);
    begin(20, 10, "c");
    end(20, 10);
    end(10, 0);
    expect("|ab-c--");
}

static void ends_what_a_jump_left(void **state)
{
    (void)state;
    begin(10, 0, "a");
    begin(20, 10, "b");
    begin(30, 20, "c");
    end(10, 0); /* all three */
    begin(10, 0, "a");
    begin(20, 10, "b");
    begin(20, 10, "b"); /* its storage again */
    end(20, 10);
    begin(40, 10, "c");
    begin(50, 0, "a"); /* nothing else is open */
    expect("|abc---ab-b-c--a");
}

static void ignores_ends_without_begins(void **state)
{
    (void)state;
    end(30, 20); /* pushed before the session, like 20 and 10 */
    begin(40, 20, "a");
    end(20, 10);
    end(40, 10);
    end(10, 0);
    end(10, 0);
    expect("|a-");
}

static void ends_in_doubt_after_a_loss(void **state)
{
    (void)state;
    begin(10, 0, "a");
    begin(20, 10, "b");
    take(0, 1, 30, 20, "c", RECORD_SCOPE_AFTER_LOSS, next_ns());
    end(30, 20);
    end(20, 10);
    end(10, 0);
    expect("|ab??c-");
}

static void tells_threads_apart(void **state)
{
    (void)state;
    take(0, 1, 10, 0, "a", 0, next_ns());
    take(900, 2, 10, 0, "b", 0, next_ns());
    take(900, 2, 10, 0, NULL, 0, next_ns());
    take(0, 2, 20, 0, "b", 0, next_ns()); /* a new thread in the slot: "a" stays open */
    take(0, 2, 20, 0, NULL, 0, next_ns());
    expect("|a|b-|b-");
}

static void describes_tracks_again(void **state)
{
    (void)state;
    begin(10, 0, "a");
    slices_describe_again(slices);
    begin(20, 10, "b");
    end(20, 10);
    expect("|a|b-");
}

static void counts_what_it_does_not_write(void **state)
{
    (void)state;
    take(3, 0, 10, 0, "a", 0, next_ns()); /* a thread beyond the limit */
    take(3, 0, 10, 0, NULL, 0, next_ns());
    assert_int_equal(slices_lost(slices), 1);
    char wanted[600] = "|";
    for (uint64_t depth = 1; depth <= 300; depth++) {
        begin(depth, depth - 1, "a");
        if (depth <= 256)
            strcat(wanted, "a");
    }
    assert_int_equal(slices_lost(slices), 1 + 300 - 256);
    for (uint64_t depth = 300; depth > 0; depth--) {
        end(depth, depth - 1);
        if (depth <= 256)
            strcat(wanted, "-");
    }
    expect(wanted);
}

static void bounds_times(void **state)
{
    (void)state;
    take(0, 1, 10, 0, "a", 0, 0); /* before the session */
    take(0, 1, 20, 10, "b", 0, UINT64_MAX);
    take(0, 1, 20, 10, NULL, 0, start_ns); /* before its begin */
    take(0, 1, 10, 0, NULL, 0, UINT64_MAX);
    expect("|ab--");
}

#define SLICES_TEST(name) cmocka_unit_test_setup_teardown(name, open_slices, close_slices)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SLICES_TEST(nests_as_scopes_do),
        SLICES_TEST(ends_what_a_jump_left),
        SLICES_TEST(ignores_ends_without_begins),
        SLICES_TEST(ends_in_doubt_after_a_loss),
        SLICES_TEST(tells_threads_apart),
        SLICES_TEST(describes_tracks_again),
        SLICES_TEST(counts_what_it_does_not_write),
        SLICES_TEST(bounds_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
