# SPDX-License-Identifier: Apache-2.0
"""How the service behaves: by default as documented, otherwise badly in the ways named here.

A state (die_at, stops_reading_at) is one that TracingService.note() names: "connect", "bind", "initialize",
"register", "setup", "start", "commit", "flush", "stop", "enable", "disable", "read", "read part", "free".
"""

import dataclasses


@dataclasses.dataclass
class Behaviour:
    # Frames. cut_after counts the bytes that are sent to a connection before it is closed; with cut_next, each
    # new connection gets one byte more.
    cut_after: int = None
    cut_next: bool = False
    empty_frames: bool = False  # one before each frame
    frame_length: int = None  # announced by the frame after the first frames_before
    garbage: bool = False  # random bytes in a frame after the first frames_before
    frames_before: int = 1
    byte_by_byte: bool = False  # each byte of a frame is sent on its own
    wrong_request_ids: bool = False
    unknown_frames: bool = False  # beside each frame, one of an unknown kind, and an error
    replies_twice: bool = False

    # Binding.
    bind_fails: bool = False
    service_id: int = 1
    methods: str = ""  # "none", "zero" (all ids are 0), "same" (one id for all), "many" (and ten thousand more)

    # Methods, by name.
    reject: tuple = ()  # success = false
    refuse: tuple = ()  # an error with a reason
    ignore: tuple = ()  # no reply
    endless: tuple = ()  # the reply is repeated with has_more, without end
    reply: dict = dataclasses.field(default_factory=dict)  # {method: bytes instead of the reply's message}

    # Commands to a producer.
    commands_twice: bool = False
    unknown_instances: bool = False  # start, stop, flush and clear of an instance that was not set up, first
    start_without_setup: bool = False
    setup_tracing: str = ""  # "never", "late" (after the instances)
    descriptor: str = ""  # "none", "null" (/dev/null), "pipe", "read-only", "two"

    # Shared memory. Sizes in bytes; None follows the hints.
    emulate: bool = False
    shm_size: int = None
    page_size: int = None
    announced_page_kb: int = None
    sealed: bool = True
    truncate_to: int = None  # after the descriptor was sent
    never_frees: bool = False
    scribbles: str = ""  # "headers", "chunks", "all": random bytes, again and again
    seed: int = 1

    # Reading and dying.
    reads_slowly: bool = False  # one byte at a time
    stops_reading_at: str = ""  # a state
    die_at: str = ""  # a state
    restarts: bool = True  # after dying, and behaves well then

    # Trace packets that a consumer gets beside the session's: (number, bytes of each).
    extra_packets: tuple = (0, 0)

    @classmethod
    def from_options(cls, options):
        """Return the behaviour that NAME, NAME=VALUE and NAME=VALUE,VALUE name."""
        known, values = {entry.name: entry for entry in dataclasses.fields(cls)}, {}
        for option in options:
            name, _, value = option.partition("=")
            if name not in known:
                raise ValueError(f"{name}: no such behaviour; there are {', '.join(known)}")
            default = known[name].default
            if isinstance(default, bool):
                values[name] = value not in ("0", "no")
            elif isinstance(default, tuple):
                values[name] = tuple(int(part) if part.isdigit() else part for part in value.split(","))
            else:
                values[name] = int(value, 0) if value.lstrip("-")[:1].isdigit() else value
        return cls(**values)
