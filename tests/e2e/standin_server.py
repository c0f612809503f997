# SPDX-License-Identifier: Apache-2.0
"""A server that stands in for a store which Debian does not have.

It checks each request against the published protocol (the subclasses' take()), answers as the store
would, or fails in the way that a test asks for.
"""

import gzip
import http.server
import socket
import ssl
import subprocess
import threading
import time
import urllib.parse


class Wrong(Exception):
    """A request that the store would refuse."""


def need(condition, message):
    if not condition:
        raise Wrong(message)


class StandIn:
    """Listens on a free port of the loopback interface until close().

    next_answers: what happens to the next requests, instead of being taken: (status, headers, body),
    "cut" (close in the middle of the first line), "cut head" (200, and half of the head), "cut body" (200, and half of
    its body), "garbage" (no HTTP), "flood" (an endless body), "flood taken" (the same with 200), "flood head" (200 and
    an endless head), "hang" (no answer until close()).
    """

    answer_type = "application/json"
    answer = b"{}"

    def __init__(self, port=0, tls=None, token=None):
        self.taken = []  # what take() returned
        self.problems = []  # what was wrong with requests
        self.requests = []  # (path, headers, body) of every request
        self.next_answers, self.connections, self.token = [], 0, token
        self.ended = threading.Event()
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def setup(self):
                super().setup()
                stand_in.connections += 1

            def do_POST(self):
                stand_in.handle(self)

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # the other side went away, or refused our certificate

        self.server = Server(("127.0.0.1", port), Handler)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls[:2])
            if len(tls) > 2:
                context.load_verify_locations(tls[2])
                context.verify_mode = ssl.CERT_REQUIRED
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def handle(self, request):
        body = request.rfile.read(int(request.headers["Content-Length"]))
        self.requests.append((request.path, request.headers, body))
        how = self.next_answers.pop(0) if self.next_answers else None
        if isinstance(how, str):
            self.fail(request, how)
        elif how:
            self.send(request, *how)
        else:
            self.send(request, *self.judge(request, body))

    def judge(self, request, body):
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {}, b"no such token: " + str(request.headers.get("Authorization")).encode()
        try:
            if request.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            elif request.headers.get("Content-Encoding") == "zstd":
                body = subprocess.run(["zstd", "-dc"], input=body, capture_output=True, check=True).stdout
            elif request.headers.get("Content-Encoding") is not None:
                raise Wrong(f"compressed by {request.headers['Content-Encoding']}")
            parts = urllib.parse.urlsplit(request.path)
            query = urllib.parse.parse_qs(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else {}
            self.taken.append(self.take(parts.path, query, request.headers, body))
        except Exception as error:  # whatever the decoders raise
            self.problems.append(f"{request.path}: {type(error).__name__}: {error}")
            return 400, {}, str(error).encode()
        return 200, {"Content-Type": self.answer_type}, self.answer

    def take(self, path, query, headers, body):
        """Check a request, and return what it means. Anything raised is a 400."""
        raise NotImplementedError

    def send(self, request, status, headers, body):
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def fail(self, request, how):
        request.close_connection = True
        if how == "cut":
            request.wfile.write(b"HTTP/1.1 200 O")
        elif how == "cut body":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        elif how == "cut head":
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-")
        elif how == "garbage":
            request.wfile.write(b"\x00\xff" * 5000)
        elif how == "flood head":
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.ended.is_set():
                request.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")
        elif how in ("flood", "flood taken"):
            first = b"HTTP/1.1 200 OK\r\n" if how == "flood taken" else b"HTTP/1.1 500 No\r\n"
            request.wfile.write(first + b"Transfer-Encoding: chunked\r\n\r\n")
            while not self.ended.is_set():
                request.wfile.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        elif how == "hang":
            self.ended.wait()
        request.wfile.flush()
        try:
            request.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def wait_for(self, count, seconds=20):
        """Wait until this many requests were taken. Return whether they were."""
        end = time.monotonic() + seconds
        while len(self.taken) < count and time.monotonic() < end:
            time.sleep(0.01)
        return len(self.taken) >= count
