#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""heap_profile records through a tracing service: sessions of all kinds, and services that misbehave."""

import os
import re
import signal
import subprocess
import time

from daemon import PATIENCE, Commanded, Daemon, check_figure, heap_of, joined, need_root, report_of, wait_for
from harness import TOOL, SLOWNESS, check, fail, main, make_work_directory, run
from perfetto_bytes import double
from perfetto_programs import Sockets
from trace import fields
from tracing_service import Behaviour, TracingService
from tracing_service.service import EXTRA_PACKET
from tracing_service.wire import message

WORK = make_work_directory("test-tracing-consumer-")
SOCKETS = Sockets(WORK)
PACKET, TRACE_CONFIG = 1, 33
BUFFER = "buffers { size_kb: 1024 }\n"
SOURCE = 'data_sources { config { name: "test.nothing" } }\n'
PLAIN = BUFFER + SOURCE + "duration_ms: 100\n"
ENDLESS = BUFFER + SOURCE
TO_FILE = ENDLESS + "write_into_file: true file_write_period_ms: 100\n"


def at(name):
    return os.path.join(WORK, name)


def write(name, content):
    path = at(name)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path


def serving(**behaviour):
    return TracingService(SOCKETS.producer, SOCKETS.consumer, Behaviour(**behaviour))


def tool(*arguments):
    return run([TOOL, *arguments], env=SOCKETS.environment)


def record(config, *options, out="trace"):
    path = at(out)
    if os.path.exists(path):
        os.unlink(path)
    return tool("record", "--service", "-c", write("config", config), "-o", path, *options)


def begin(config, *options, out="trace"):
    """Start a recording in the background."""
    command = [TOOL, "record", "--service", "-c", write("config", config), "-o", at(out), *options]
    return subprocess.Popen(command, env=SOCKETS.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)


def end_of(process):
    """Return exit code and messages."""
    try:
        return process.wait(60 * SLOWNESS), process.stderr.read().decode()
    except subprocess.TimeoutExpired:
        process.kill()
        fail(f"{process.args}: not ended")
        return None, ""


def packets(out="trace"):
    """Return the packets of a trace; it has to be whole."""
    with open(at(out), "rb") as file:
        return [dict(fields(packet)) for number, packet in fields(file.read()) if number == PACKET]


def extra(out="trace"):
    return [packet[EXTRA_PACKET] for packet in packets(out) if EXTRA_PACKET in packet]


def expect(outcome, status, words, what):
    text = outcome.stderr.decode()
    check(outcome.status == status, f"{what}: status {outcome.status}, expected {status}: {text}")
    check(re.search(words, text), f"{what}: {words!r} is not in {text!r}")


def test_reads_packets():
    """Packets arrive in slices, several in a reply or one over many replies."""
    with serving(extra_packets=(2000, 500)) as service:
        expect(record(PLAIN), 0, "Trace in", "many packets")
        check([len(data) for data in extra()] == [500] * 2000, f"{len(extra())} packets of 500 bytes")
        check(service.wait("free"), "the buffers are not freed")
        service.behave(Behaviour(extra_packets=(3, 300000), byte_by_byte=False))
        expect(record(PLAIN), 0, "Trace in", "large packets")
        check([len(data) for data in extra()] == [300000] * 3, "packets of 300,000 bytes")
        check("no producer offers the data source 'test.nothing'" in record(PLAIN).stderr.decode(), "no warning")
        outcome = tool("record", "--service", "-c", at("config"), "-o", "/dev/stdout")
        whole = open(at("trace"), "rb").read()
        check(outcome.status == 0 and abs(len(outcome.stdout) - len(whole)) < 1000, f"a pipe: {outcome.stderr}")
        outcome = record(PLAIN, "--quiet")
        check(outcome.status == 0 and not outcome.stderr, f"--quiet prints {outcome.stderr!r}")


def test_configurations():
    """A binary configuration arrives byte for byte, with unknown fields; in a text they have numbers."""
    unknown = message((3000, 7), (3001, "of the future")) + double(3002, 1.5)
    source = message((1, message((1, "test.nothing"), (777, b"\1\2\3"))), (1200, 1))
    binary = message((1, message((1, 1024))), (2, source), (3, 50)) + unknown
    with serving() as service:
        seen = []
        enable = service.enable
        service.enable = lambda consumer, config, file: seen.append(config.data) or enable(consumer, config, file)
        expect(record(binary), 0, "Trace in", "binary")
        check(seen[-1:] == [binary], f"the service gets {seen}")
        expect(record(PLAIN + "3000: 7\n"), 0, "Trace in", "by number")
        check(message((3000, 7)) in seen[-1], f"by number: {seen[-1]!r}")
        expect(record(PLAIN + "\nunheard_of: 7\n"), 2, r"config: 5:1: .*unheard_of.*by its number", "unknown field")
        expect(record(PLAIN + "buffer { }\n"), 2, "did you mean buffers[?]$", "nearly a field")
        expect(record(PLAIN + "buffers {"), 2, "before the '}' of BufferConfig$", "cut off")
        expect(record(BUFFER), 2, "no data_sources", "nothing to record")
        expect(record(PLAIN.replace("1024", "0")), 1, "tracing service: .*buffers", "refused")
        check(len(seen) == 3, f"{len(seen)} configurations arrive")


def test_options():
    """Each wrong combination has a sentence."""
    config = ["-c", write("config", PLAIN)]
    for options, words in (
        (["--service"], "-c CONFIG is missing"),
        ([*config, "--attach", "key"], "--attach takes no -c"),
        ([*config, "--stop"], "--stop needs --attach"),
        (["--attach", "key", "--detach", "key"], "exclude each other"),
        ([*config, "--service", "--with-tracing", "config"], "without --service"),
        ([*config, "trace"], "only options"),
    ):
        expect(tool("record", *options), 2, words, str(options))


def test_writes_into_file():
    """The service writes to our descriptor; Ctrl-C ends the session, and what came last is there, too."""
    for config, what in ((TO_FILE, "into a file"), (ENDLESS, "by ReadBuffers")):
        with serving() as service:
            process = begin(config)
            check(service.wait("enable"), f"{what}: not enabled")
            process.send_signal(signal.SIGINT)
            status, text = end_of(process)
            check(status == 0 and "Trace in" in text, f"{what}: status {status}, {text}")
            check(any(TRACE_CONFIG in packet for packet in packets()), f"{what}: no configuration in the trace")
            check(service.wait("disable") and service.wait("free"), f"{what}: {service.notes}")
    path = at("by-service")
    with serving():
        outcome = tool("record", "--service", "-c", write("config", TO_FILE + f'duration_ms: 100 output_path: "{path}"'))
        expect(outcome, 0, f"wrote its trace to {path}", "output_path")
        check(packets("by-service"), "output_path: no packets")


def test_full_file_system():
    """A service that finds no room for its file does not say so, but the tool does. Traces are for their owner."""
    need_root()
    directory = at("small")
    os.mkdir(directory)
    config = write("config", TO_FILE + "duration_ms: 300")
    arguments = f"record --service -c {config} -o {directory}/trace"
    filled = f"mount -t tmpfs -o size=256k none {directory} && head -c 252k /dev/zero > {directory}/filler"
    mounted = f"{filled} && exec {TOOL} {arguments}"
    with serving():
        outcome = run(["unshare", "-m", "sh", "-c", mounted], env=SOCKETS.environment)
        expect(outcome, 1, "file system is full", "4 KiB of room")
        expect(tool(*arguments.split()), 0, "Trace in", "with room")
        mode = os.stat(os.path.join(directory, "trace")).st_mode & 0o777
        check(mode == 0o600, f"mode {mode:o}")


def test_second_request_gives_up():
    with serving(ignore=("DisableTracing",)) as service:
        process = begin(ENDLESS)
        check(service.wait("enable"), "not enabled")
        process.send_signal(signal.SIGINT)
        check(service.wait("disable"), "not disabled")
        time.sleep(0.3)  # two signals of one moment count once
        process.send_signal(signal.SIGINT)
        status, text = end_of(process)
        check(status == 1 and "interrupted" in text, f"status {status}, {text}")


def test_no_heapprofd():
    """Without a producer of heap profiles nothing begins, and no directory is left."""
    with serving() as service:
        outcome = run([TOOL, "-p", str(os.getpid()), "--service", "-d", "100"],
                      env={**SOCKETS.environment, "TMPDIR": make_work_directory("test-tracing-tmp-")})
        expect(outcome, 1, "no heapprofd is connected.*heapprofd --producer", "no heapprofd")
        check(not any(note[0] == "enable" for note in service.notes), "a session began")
        outcome = tool("-p", str(os.getpid()), "--service", "--follow-children")
        expect(outcome, 2, "--follow-children does not work with --service", "options")


def profile_program(daemon, output):
    program = Commanded(daemon.environment)
    command = [TOOL, "-p", str(program.pid), "-i", "1", "--service", "--no-symbols", "-o", output]
    environment = {**daemon.environment, "PERFETTO_CONSUMER_SOCK_NAME": SOCKETS.consumer}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    joined(daemon, program)
    program.tell("hold 10 1000")
    process.send_signal(signal.SIGINT)
    status, text = end_of(process)
    check(status == 0 and "go tool pprof" in text, f"status {status}: {text}")
    check_figure(heap_of(report_of(output), program.pid), "hold_block", "space", 10000)
    check(any(name.endswith(".pb.gz") for name in os.listdir(output)), f"no pprof file: {os.listdir(output)}")
    outcome = run([TOOL, "-p", "4194303", "--service", "-d", "100", "-q"], env=environment)
    expect(outcome, 1, "no process was profiled", "a process that is not there")
    heaps = 'data_sources { config { name: "android.heapprofd" heapprofd_config { '
    heaps += 'sampling_interval_bytes: 4096 process_cmdline: "nobody-has-this-name" } } }'
    nobody = BUFFER + heaps + " duration_ms: 100"
    reason = "(?s)not profiled: nobody-has-this-name: no process.*no process was profiled"
    expect(record(nobody), 3, reason, "a name that nobody has")
    outcome = run([TOOL, "record", "--service", "-c", at("config"), "--no-symbols"],
                  env={**environment, "TMPDIR": make_work_directory("test-tracing-tmp-")})
    expect(outcome, 3, reason, "the same with a directory")
    absent = nobody.replace('process_cmdline: "nobody-has-this-name"', "pid: 4194303")
    expect(record(absent), 1, "(?s)4194303, not profiled.*No process has this pid.*no process was profiled", "a pid")
    check(program.end() == 0, "the program's exit code")


def test_profiles_running_program():
    """Options become the configuration. Ctrl-C ends it, and there is everything that a recording has."""
    output = at("profile")
    with serving() as service:
        daemon = Daemon(make_work_directory("test-tracing-daemon-"), arguments=("--producer", SOCKETS.producer))
        daemon.start()
        try:
            check(service.wait("register", "heapprofd", timeout=PATIENCE), f"not registered: {daemon.log()}")
            profile_program(daemon, output)
        finally:
            check(daemon.end() == 0, "the daemon's exit code")


def test_detaches_and_attaches():
    for config, options in ((TO_FILE, ["-o", at("trace")]), (ENDLESS, [])):
        with serving() as service:
            detach = ["record", "-c", write("config", config), "--detach", "key", *options]
            options = [] if options else ["-o", at("trace")]
            expect(tool(*detach), 0, "--attach key --stop", "detach")
            check(service.wait("detach", "key"), "not detached")
            expect(tool(*detach), 1, "refused to detach.*this key", "detach twice")
            expect(tool("record", "--attach", "other"), 1, "no session of yours is detached", "another key")
            outcome = tool("record", "--attach", "key", "--stop", *options)
            expect(outcome, 0, "Trace in" if options else "wrote its trace", "attach")
            check(service.wait("disable") and service.wait("free"), f"attach: {service.notes}")
            check(not options or packets(), "attach: no packets")
    with serving():
        expect(tool("record", "-c", write("config", TO_FILE), "--detach", "key"), 0, "raw-trace   will have", "directory")
        outcome = tool("record", "--service", "-q", "-c", write("config", PLAIN), "-o", "/dev/stdout")
        check(outcome.status == 0 and outcome.stdout, f"a pipe: {outcome.status} {outcome.stderr!r}")
    expect(record(PLAIN, "--detach", "key"), 2, "drops the trace.*write_into_file: true", "detach with a duration")
    expect(record(ENDLESS, "--detach", "key"), 2, "written by --attach", "detach with -o")


def test_triggers():
    for mode, what in (("START_TRACING", "begin recording"), ("STOP_TRACING", "keep what was recorded")):
        triggers = f'trigger_config {{ trigger_mode: {mode} triggers {{ name: "go" stop_delay_ms: 50 }} '
        with serving() as service:
            expect(record(ENDLESS + triggers + "trigger_timeout_ms: 200 }"), 3, "no trigger came .*'go'", mode)
            process = begin(ENDLESS + triggers + "trigger_timeout_ms: 60000 }")
            check(service.wait("enable", count=2), f"{mode}: not enabled")
            check(tool("trigger", "stay", "go").status == 0, f"{mode}: trigger")
            status, text = end_of(process)
            check(status == 0 and f"for the trigger 'go' to {what}" in text, f"{mode}: status {status}, {text}")
            check(packets(), f"{mode}: no packets")
    with serving(endless=("InitializeConnection",)):
        expect(tool("trigger", "go"), 1, "more than one reply to InitializeConnection", "a reply without end")
    check(tool("trigger").status == 2, "trigger without a name")
    expect(tool("trigger", "go"), 1, "no tracing service listens here.*PERFETTO_PRODUCER_SOCK_NAME", "no service")
    expect(record(PLAIN), 1, "no tracing service listens here.*PERFETTO_CONSUMER_SOCK_NAME", "no service")


def test_snapshots():
    """Each trigger of CLONE_SNAPSHOT saves a copy of the session, which goes on."""
    triggers = 'trigger_config { trigger_mode: CLONE_SNAPSHOT triggers { name: "go" } trigger_timeout_ms: 60000 }'
    hit = message((1, message((3, message((1, 1), (2, "go"), (3, "test"))))))
    slices = message((2, message((1, message((EXTRA_PACKET, b"abc"))), (2, True))))

    def report(service, event):
        for connection in service.connections:
            if getattr(connection, "events_reply", None):
                connection.events_reply.resolve(event, True)

    cloned = {"CloneSession": message((1, True)), "ReadBuffers": slices}
    for reply, endless, event, status, words in (
        (cloned, (), hit, 0, "Trigger 'go': trace in .*trace.1"),
        (cloned, ("CloneSession",), hit, 1, "malformed reply to CloneSession"),
        ({"CloneSession": message((1, False), (2, "too late"))}, (), hit, 1, "took no snapshot: too late"),
        ({"CloneSession": b"\x12\x05"}, (), hit, 1, "malformed reply to CloneSession"),
        ({}, (), b"\x0a\x05", 1, "malformed event"),
    ):
        with serving(reply=reply, endless=endless) as service:
            process = begin(ENDLESS + triggers)
            check(service.wait("enable"), "not enabled")
            for number in range(2 if status == 0 else 1):
                service.call(lambda: report(service, event))
                if status == 0:
                    wait_for("a snapshot", lambda: os.path.exists(at(f"trace.{number}")))
                    check(extra(f"trace.{number}") == [b"abc"], f"snapshot {number}")
            if status == 0:
                process.send_signal(signal.SIGINT)
            got, text = end_of(process)
            check(got == status and re.search(words, text), f"{words}: status {got}, {text}")
    expect(tool("record", "--service", "-c", write("config", ENDLESS + triggers)), 2, "give -o TRACE", "no -o")


def test_service_dies():
    """In each state: an error, and what was read is a readable trace."""
    for state in ("connect", "bind", "enable", "disable", "read"):
        with serving(die_at=state, restarts=False) as service:
            process = begin(TO_FILE if state in ("enable", "disable") else PLAIN)
            if state == "disable":
                check(service.wait("enable"), "not enabled")
                process.send_signal(signal.SIGINT)
            status, text = end_of(process)
            check(status == 1, f"dies at {state}: status {status}, {text}")
            check("tracing service closed the connection" in text, f"dies at {state}: {text}")
            if os.path.exists(at("trace")):
                packets()
                os.unlink(at("trace"))


def test_bad_services():
    """Nothing that a service sends crashes or hangs us, and each refusal has a message."""
    good, closed, no_protocol = (0, "Trace in"), (1, "closed the connection"), (1, "violates its protocol")
    for behaviour, (status, words) in (
        ({"byte_by_byte": True}, good),
        ({"unknown_frames": True, "empty_frames": True}, good),
        ({"replies_twice": True}, good),
        ({"methods": "many"}, good),
        ({"bind_fails": True}, (1, "not the tracing service's ConsumerPort")),
        ({"methods": "none"}, (1, "has no QueryServiceState|has no EnableTracing")),
        ({"methods": "zero"}, (1, "has no EnableTracing")),
        ({"garbage": True}, no_protocol),
        ({"frame_length": 0x7FFFFFFF}, no_protocol),
        ({"cut_after": 3}, closed),
        ({"cut_after": 900}, closed),
        ({"reject": ("QueryServiceState",)}, (1, "refused to tell its state: it gave no reason; see its log")),
        ({"refuse": ("QueryServiceState",)}, (1, "refused to tell its state: not today; see its log")),
        ({"reject": ("EnableTracing",)}, (1, "refused EnableTracing")),
        ({"reject": ("ReadBuffers",)}, (1, "refused to read the trace")),
        ({"refuse": ("ReadBuffers",)}, (1, "refused to read the trace: not today")),
        ({"reject": ("GetTraceStats",)}, (0, "what it lost is unknown")),
        ({"reply": {"QueryServiceState": b"\x0a\xff"}}, (1, "malformed reply to QueryServiceState")),
        ({"reply": {"EnableTracing": b"\x1a\x05"}}, (1, "malformed reply to EnableTracing")),
        ({"reply": {"ReadBuffers": b"\x12\xff\xff"}}, (1, "malformed packets")),
        ({"reply": {"ReadBuffers": b"\x12\x02\x0a\x09"}}, (1, "malformed slice")),
        ({"reply": {"ReadBuffers": b"\x12\x03\x0a\x01a"}}, (1, "in the middle of a packet")),
        ({"reply": {"GetTraceStats": b"\x0a\xff"}}, (1, "malformed reply to GetTraceStats")),
    ):
        with serving(**behaviour):
            expect(record(PLAIN), status, words, str(behaviour))
            if status and os.path.exists(at("trace")):
                check(os.path.getsize(at("trace")), f"{behaviour}: leaves an empty trace")
                packets()


def test_losses_are_told():
    """Statistics of the service: each kind of loss has a sentence."""
    buffer = message((3, 5), (13, 4100), (18, 6), (6, 7), (19, 8))
    # The service counts chunks (8) and patches (9) that it discarded since its own start: not ours.
    stats = message((1, message((1, buffer), (8, 100), (9, 100), (10, 9), (15, 2))))
    with serving(reply={"GetTraceStats": stats}):
        text = record(PLAIN).stderr.decode()
    for words in ("5 chunks .4.10 kB. were overwritten", "6 chunks were discarded", "7 packets .* unfinished",
                  "lost data 8 times", "refused data of producers 9 times", "did not deliver its last data in time"):
        check(re.search(words, text), f"{words!r} is not in {text}")


main()
