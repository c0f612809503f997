#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The tests' tracing service does what traced does: a producer and a consumer try both, chunk by chunk.

Without Perfetto's traced (perfetto_programs.py), only the tests' service is tried. Each scenario says which packets a
consumer must get, and of which it must hear that some before them are lost.
"""

import os
import shutil

from harness import check, main, make_work_directory
from perfetto_programs import PATH, Background, Sockets
from tracing_service import Behaviour, TracingService, client
from tracing_service.client import (CLEAR_STATE, FLUSH, SETUP_SOURCE, START_SOURCE, STOP_SOURCE, ConsumerClient,
                                    ProducerClient, four_byte_size)
from tracing_service.wire import Malformed, message

FIRST_CONTINUES, LAST_CONTINUES, NEEDS_PATCHING = 1, 2, 4
TEST_PACKET, TRUSTED_UID, SEQUENCE, TRUSTED_PID, DROPPED = 900, 3, 10, 79, 42
BUFFER = ((1, message((1, 1024))),)
NOTIFIES = ((2, True), (3, True))  # of a data source: when it stopped, when it started
PATIENCE = client.TIMEOUT_S
WORK = make_work_directory("test-tracing-service-")


def packet(text):
    """Return a packet with this text."""
    return message((TEST_PACKET, message((1, text))))


def halves(data, parts=2):
    """Return a packet in fragments."""
    step = -(-len(data) // parts)
    return [data[at : at + step] for at in range(0, len(data), step)]


class Trial:
    """A session of one data source, with a producer and a consumer that the scenario drives."""

    def __init__(self, sockets, config=BUFFER, descriptor=(), wait_for=START_SOURCE, files=()):
        self.producer = ProducerClient(sockets.producer)
        self.producer.register("test.source", *descriptor)
        self.consumer = ConsumerClient(sockets.consumer)
        source = message((1, message((1, "test.source"), (2, 0))))
        self.disabled = self.consumer.enable(message(*config, (2, source)), files)
        self.producer.wait_command(wait_for)

    def read(self):
        """Return (text, whether packets before are lost) of each packet of the producer."""
        self.producer.call("Sync")
        packets = [p for p in self.consumer.read() if p.has(TEST_PACKET)]
        for found in packets:
            trusted = [found.number(field) for field in (TRUSTED_UID, TRUSTED_PID)]
            check(trusted == [os.getuid(), os.getpid()], f"trusted fields: {trusted}")
            check(found.number(SEQUENCE) > 1, f"sequence id {found.number(SEQUENCE)}")
        return [(p.message(TEST_PACKET).text(1), bool(p.number(DROPPED))) for p in packets]

    def close(self):
        self.producer.close()
        self.consumer.close()


    def flush_and_answer(self, text):
        """Answer the service's flush with a packet."""
        flush = self.producer.wait_command(FLUSH).number(2)
        self.producer.commit(self.producer.write_page([(1, 0, [packet(text)], 0)]), flush_id=flush)

    def check_disabled(self, what, error=""):
        """Wait until tracing is disabled."""
        success, more, reply = self.consumer.wait(self.disabled)
        told = success, more, reply.number(1), bool(reply.text(3))
        check(told == (True, False, 1, bool(error)), f"{what}: disabled {told} {reply.text(3)!r}")


def with_each_service(scenario):
    """Run a scenario on the tests' service, and on traced if there is one."""
    sockets = Sockets(WORK)
    with TracingService(sockets.producer, sockets.consumer):
        scenario("tests' service", sockets)
    traced = shutil.which("traced", path=PATH)
    if traced:
        with Background([traced], sockets.environment, os.path.join(WORK, "traced.log")):
            sockets.wait()
            scenario("traced", sockets)


def expect_packets(write, expected, **options):
    """Let a producer write, and compare what the consumer reads: one list for each call of write."""
    def scenario(name, sockets):
        trial = Trial(sockets, **options)
        for step, packets in enumerate(expected):
            write(trial.producer, step)
            found = trial.read()
            check(found == packets, f"{name}, step {step}: {found}, expected {packets}")
        trial.close()

    with_each_service(scenario)


def test_whole_packets():
    def write(producer, step):
        producer.write(1, step, [packet(f"a{step}"), packet(f"b{step}")])

    expect_packets(write, [[("a0", True), ("b0", False)], [("a1", False), ("b1", False)]])


def test_fragments():
    parts = halves(packet("x" * 9000), 3)

    def write(producer, _):
        producer.write(1, 0, [packet("before"), parts[0]], LAST_CONTINUES)
        producer.write(1, 1, [parts[1]], FIRST_CONTINUES | LAST_CONTINUES)
        producer.write(1, 2, [parts[2], packet("after")], FIRST_CONTINUES)

    expect_packets(write, [[("before", True), ("x" * 9000, False), ("after", False)]])


def test_out_of_order():
    first, last = halves(packet("split"))

    def write(producer, step):
        if step == 0:
            producer.write(1, 0, [packet("zero"), first], LAST_CONTINUES)
            producer.write(1, 2, [packet("two")])
        else:
            producer.write(1, 1, [last], FIRST_CONTINUES)

    expect_packets(write, [[("zero", True)], [("split", False), ("two", False)]])


def test_missing_beginning():
    _, last = halves(packet("split"))

    def write(producer, _):
        producer.write(1, 7, [last, packet("whole")], FIRST_CONTINUES)

    expect_packets(write, [[("whole", True)]])


def test_ids_wrap():
    def write(producer, _):
        for chunk_id in ((1 << 32) - 2, (1 << 32) - 1, 0, 1):
            producer.write(1, chunk_id, [packet(str(chunk_id))])

    expect_packets(write, [[(str((1 << 32) - 2), True), (str((1 << 32) - 1), False), ("0", False), ("1", False)]])


def test_patches():
    """A chunk with holes is held back until its last patch came, and with it what follows."""
    data = packet("patched")
    hole = 4 + len(packet("before")) + 4 + len(data) - 4

    def write(producer, step):
        if step == 0:
            producer.write(1, 0, [packet("before"), data[:-4] + b"\0\0\0\0"], NEEDS_PATCHING)
            producer.write(1, 1, [packet("after")])
        elif step == 1:
            producer.commit([], [(1, 0, [(hole, b"None")], True)])
        else:
            producer.commit([], [(1, 0, [(hole, data[-4:])], False)])

    expect_packets(write, [[], [], [("before", True), ("patched", False), ("after", False)]])


def test_page_layouts():
    def write(producer, _):
        for layout, count in ((2, 2), (3, 4), (4, 7), (5, 14)):
            chunks = [(layout, index, [packet(f"{layout}.{index}")], 0) for index in range(count)]
            producer.commit(producer.write_page(chunks, layout))

    expected = []
    for layout, count in ((2, 2), (3, 4), (4, 7), (5, 14)):
        expected += [(f"{layout}.{index}", index == 0) for index in range(count)]
    expect_packets(write, [expected])


def test_reserved_fields():
    """A producer cannot write what only the service may."""
    def write(producer, _):
        bad = [message((field, 1)) for field in (3, 10, 79)] + [message((field, b"x")) for field in (33, 35, 36, 50)]
        bad += [b"\x0f", b"\xff\xff", message((900, b"cut"))[:-1]]
        producer.write(1, 0, [packet("good")] + [packet("bad") + data for data in bad] + [packet("last")])

    # Packets that are refused are not marked as lost.
    expect_packets(write, [[("good", True), ("last", False)]])


def test_ring_overwrites():
    def write(producer, step):
        for chunk_id in range(5):
            producer.next_page %= 16
            producer.write(1, step * 5 + chunk_id, [packet(f"{step}.{chunk_id}" + "r" * 4000)])

    def scenario(name, sockets):
        trial = Trial(sockets, ((1, message((1, 16))),))
        for step in range(2):
            write(trial.producer, step)
        found = trial.read()
        check(found and found[0][1] and found[-1][0].startswith("1.4"), f"{name}: {len(found)} {found[:1]}")
        check(not any(dropped for _, dropped in found[1:]), f"{name}: {[dropped for _, dropped in found]}")
        write(trial.producer, 2)
        write(trial.producer, 3)
        found = trial.read()
        check(found and found[0][1], f"{name}: the loss is not marked")
        trial.close()

    with_each_service(scenario)


def test_discarding_buffer():
    def scenario(name, sockets):
        trial = Trial(sockets, ((1, message((1, 16), (4, 2))),))
        for chunk_id in range(8):
            trial.producer.write(1, chunk_id, [packet(f"{chunk_id}" + "d" * 4000)])
        found = [text[0] for text, _ in trial.read()]
        check(found in (["0", "1", "2"], ["0", "1", "2", "3"]), f"{name}: {found}")
        trial.close()

    with_each_service(scenario)


def test_invalid_sizes():
    """A fragment that ends after its chunk ends the chunk, not the sequence; a given up packet likewise."""
    def write(producer, _):
        for chunk_id, size in ((0, 5000), (1, (1 << 28) - 1)):
            pages = producer.write_page([(1, chunk_id, [packet("good"), packet("bad"), packet("lost")], 0)])
            at = pages[0][0] * producer.page_size + 16 + 4 + len(packet("good"))
            producer.shm[at : at + 4] = four_byte_size(size)
            producer.commit(pages)
        producer.write(1, 2, [packet("after")])

    expect_packets(write, [[("good", True), ("good", True), ("after", True)]])


def test_other_buffers():
    """A producer writes only into buffers of its own sessions, and a writer only into the one it is bound to."""
    def write(producer, _):
        producer.commit(producer.write_page([(1, 0, [packet("own")], 0)]))
        producer.commit(producer.write_page([(2, 0, [packet("foreign")], 0)]), buffer=producer.buffer + 1)
        producer.call("RegisterTraceWriter", message((1, 3), (2, producer.buffer + 1)))
        producer.commit(producer.write_page([(3, 0, [packet("bound elsewhere")], 0)]))
        producer.call("UnregisterTraceWriter", message((1, 3)))
        producer.commit(producer.write_page([(3, 0, [packet("unbound")], 0)]))

    expect_packets(write, [[("own", True), ("unbound", True)]])


def test_chunks_by_ipc():
    def write(producer, step):
        producer.by_ipc = True
        producer.write(1, step, [packet(f"sent{step}")])

    expect_packets(write, [[("sent0", True)], [("sent1", False)]])


def test_flush():
    def scenario(name, sockets):
        trial = Trial(sockets)
        request = trial.consumer.invoke("Flush", message((1, 10000)))
        trial.flush_and_answer("flushed")
        check(trial.consumer.wait(request)[0], f"{name}: the flush fails")
        check(trial.read() == [("flushed", True)], f"{name}: not flushed")
        request = trial.consumer.invoke("Flush", message((1, 1)))
        check(not trial.consumer.wait(request)[0], f"{name}: a flush without an answer succeeds")
        trial.close()

    with_each_service(scenario)


def test_duration():
    """At the end of its duration a session is flushed, then stopped; its consumer hears of it after the producer."""
    def scenario(name, sockets):
        trial = Trial(sockets, (*BUFFER, (3, 50)), NOTIFIES)
        trial.producer.call("NotifyDataSourceStarted", message((1, trial.producer.instance)))
        trial.flush_and_answer("last")
        stopped = trial.producer.wait_command(STOP_SOURCE).number(1)
        check(stopped == trial.producer.instance, f"{name}: stops instance {stopped}")
        trial.producer.commit(trial.producer.write_page([(1, 1, [packet("after the stop")], 0)]))
        trial.producer.call("NotifyDataSourceStopped", message((1, stopped)))
        trial.check_disabled(name)
        found = trial.read()
        check(found == [("last", True), ("after the stop", False)], f"{name}: {found}")
        trial.close()

    with_each_service(scenario)


def test_deferred_start():
    def scenario(name, sockets):
        trial = Trial(sockets, (*BUFFER, (12, True)), NOTIFIES, wait_for=SETUP_SOURCE)
        events = trial.consumer.invoke("ObserveEvents", message((1, 1), (1, 2)))
        trial.consumer.call("StartTracing")
        trial.producer.wait_command(START_SOURCE)
        trial.producer.call("NotifyDataSourceStarted", message((1, trial.producer.instance)))
        told = []
        while not told or not told[-1].number(2):
            told.append(trial.consumer.wait(events)[2].message(1))
        states = [change.number(3) for event in told for change in event.messages(1)]
        check(states == [1, 2], f"{name}: states {states}")
        trial.consumer.call("DisableTracing")
        trial.close()

    with_each_service(scenario)


def trigger_config(mode, timeout_ms, delay_ms):
    trigger = message((1, "crash"), (2, "test.*"), (3, delay_ms))
    return (*BUFFER, (17, message((1, mode), (2, trigger), (3, timeout_ms))))


def test_stop_trigger():
    def scenario(name, sockets):
        trial = Trial(sockets, trigger_config(2, 20000, 20))
        trial.producer.write(1, 5, [packet("before")])
        check(trial.read() == [], f"{name}: packets before the trigger")
        trial.producer.call("ActivateTriggers", message((1, "other"), (1, "crash")))
        flush = trial.producer.wait_command(FLUSH).number(2)
        trial.producer.commit([], flush_id=flush)
        trial.producer.wait_command(STOP_SOURCE)
        trial.check_disabled(name)
        check(trial.read() == [("before", True)], f"{name}: not the packets before the trigger")
        trial.close()

    with_each_service(scenario)


def test_start_trigger():
    def scenario(name, sockets):
        trial = Trial(sockets, trigger_config(1, 20000, 20), wait_for=SETUP_SOURCE)
        trial.producer.call("ActivateTriggers", message((1, "crash")))
        trial.producer.wait_command(START_SOURCE)
        trial.flush_and_answer("triggered")
        trial.check_disabled(name)
        check(trial.read() == [("triggered", True)], f"{name}: the packet is lost")
        trial.close()
        trial = Trial(sockets, trigger_config(1, 30, 0), wait_for=SETUP_SOURCE)
        trial.producer.wait_command(STOP_SOURCE)
        trial.check_disabled(f"{name}, without the trigger")
        trial.close()

    with_each_service(scenario)


def test_detach():
    def scenario(name, sockets):
        trial = Trial(sockets)
        trial.consumer.call("Detach", message((1, "key")))
        trial.consumer.close()
        trial.producer.write(1, 0, [packet("meanwhile")])
        trial.consumer = ConsumerClient(sockets.consumer)
        check(not trial.consumer.wait(trial.consumer.invoke("Attach", message((1, "other"))))[0], f"{name}: other key")
        config = trial.consumer.call("Attach", message((1, "key"))).message(1)
        check(config.message(1).number(1) == 1024, f"{name}: configuration {config.data!r}")
        trial.disabled = trial.consumer.invoke("EnableTracing", message((2, True)))
        trial.consumer.call("DisableTracing")
        trial.producer.wait_command(STOP_SOURCE)
        trial.check_disabled(name)
        check(trial.read() == [("meanwhile", True)], f"{name}: the packet is lost")
        trial.close()

    with_each_service(scenario)


def test_write_into_file():
    def scenario(name, sockets):
        path = os.path.join(WORK, "file")
        with open(path, "wb+") as file:
            trial = Trial(sockets, (*BUFFER, (8, True), (9, 100)), files=[file.fileno()])
            trial.producer.write(1, 0, [packet("streamed")])
            while packet("streamed") not in file.read():
                file.seek(0)
            trial.producer.write(1, 1, [packet("last")])
            trial.consumer.call("DisableTracing")
            trial.check_disabled(name)
            file.seek(0)
            check(packet("last") in file.read(), f"{name}: the last packet is not in the file")
            check(trial.read() == [], f"{name}: packets beside the file")
            trial.close()

    with_each_service(scenario)


def test_clear_incremental_state():
    def scenario(name, sockets):
        trial = Trial(sockets, (*BUFFER, (21, message((1, 50)))), ((4, True),))
        cleared = trial.producer.wait_command(CLEAR_STATE).number(1)
        check(cleared == trial.producer.instance, f"{name}: clears instance {cleared}")
        trial.close()

    with_each_service(scenario)


def test_refused_configurations():
    refused = (
        (*BUFFER, (3, 8 * 24 * 3600 * 1000)), ((1, message((1, 0))),), (*BUFFER, (8, True)),
        (*BUFFER, (17, message((1, 1)))), (*BUFFER, (17, message((1, 2), (3, 10))), (8, True)),
        (*BUFFER, (3, 10), (17, message((1, 2), (3, 10)))), BUFFER * 129,
        (*BUFFER, (17, message((1, 1), (3, 10), (2, message((1, "same"))), (2, message((1, "same")))))),
    )

    def scenario(name, sockets):
        for config in refused:
            consumer = ConsumerClient(sockets.consumer)
            _, _, reply = consumer.wait(consumer.enable(message(*config)))
            check(reply.number(1) == 1 and reply.text(3), f"{name}: accepts {config}")
            consumer.close()

    with_each_service(scenario)


def test_late_producer():
    """A producer that registers during a session joins it; one that leaves is forgotten."""
    def scenario(name, sockets):
        trial = Trial(sockets)
        trial.producer.write(1, 0, [packet("first")])
        trial.producer.close()
        trial.producer = ProducerClient(sockets.producer, "test.second")
        trial.producer.register("test.source")
        trial.producer.wait_command(START_SOURCE)
        trial.producer.write(1, 0, [packet("second")])
        check(trial.read() == [("first", True), ("second", True)], f"{name}: packets of two producers")
        state = trial.consumer.call("QueryServiceState").message(1)
        names = [producer.text(2) for producer in state.messages(1)]
        check(names == ["test.second"], f"{name}: producers {names}")
        trial.close()

    with_each_service(scenario)


HARMLESS = (
    "byte_by_byte", "reads_slowly", "empty_frames", "unknown_frames", "replies_twice", "commands_twice",
    "unknown_instances", "start_without_setup", "methods=many", "emulate", "sealed=no", "descriptor=two",
    "page_size=16384", "shm_size=4096", "announced_page_kb=4", "extra_packets=3,300000",
)
FATAL = (
    "bind_fails", "methods=none", "wrong_request_ids", "cut_after=3", "cut_after=300", "frame_length=4000000000",
    "frame_length=0", "garbage", "reject=InitializeConnection", "die_at=bind", "die_at=initialize", "die_at=register",
    "die_at=setup", "die_at=start", "die_at=commit", "die_at=enable", "die_at=read", "die_at=flush", "die_at=disable",
)


def try_behaviour(option):
    """Record through a service that misbehaves. Return what the consumer read, or None if this failed."""
    sockets = Sockets(WORK)
    with TracingService(sockets.producer, sockets.consumer, Behaviour.from_options([option])) as service:
        try:
            trial = Trial(sockets)
            trial.producer.write(1, 0, [packet("text")])
            trial.consumer.wait(trial.consumer.invoke("Flush", message((1, 1))))
            trial.consumer.call("DisableTracing")
            found = trial.read()
            trial.close()
        except (OSError, KeyError, Malformed):
            found = None
        client.TIMEOUT_S = PATIENCE
        if option.startswith("die_at"):
            check(service.wait("restart"), f"{option}: no restart")
            trial = Trial(sockets)
            trial.close()
    return found


def test_misbehaviour():
    """A service that misbehaves does so, and lives."""
    for option in HARMLESS:
        found = try_behaviour(option)
        texts = [text for text, _ in found or [] if text]
        check(texts == ["text"], f"{option}: {found}")
    for option in FATAL:
        client.TIMEOUT_S = 0.3
        found = try_behaviour(option)
        check(found is None, f"{option}: {found}")


main()
