# SPDX-License-Identifier: Apache-2.0
"""Run the service as a program: python3 -m tracing_service --producer SOCKET --consumer SOCKET [BEHAVIOUR...]"""

import argparse
import dataclasses

from . import Behaviour, TracingService


def main():
    names = ", ".join(entry.name for entry in dataclasses.fields(Behaviour))
    parser = argparse.ArgumentParser(prog="tracing_service", description=__doc__)
    parser.add_argument("--producer", required=True, metavar="SOCKET")
    parser.add_argument("--consumer", required=True, metavar="SOCKET")
    parser.add_argument("--echo", action="store_true", help="print what happens, as lines of JSON")
    parser.add_argument("behaviour", nargs="*", help=f"NAME or NAME=VALUE, of {names}")
    options = parser.parse_args()
    behaviour = Behaviour.from_options(options.behaviour)
    TracingService(options.producer, options.consumer, behaviour, options.echo).run()


main()
