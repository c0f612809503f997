# SPDX-License-Identifier: Apache-2.0
"""Programs for bench/python.py and bench/continuous.py, of the standard library only.

    python_work.py json N       read and write a JSON document N times
    python_work.py requests N   answer N HTTP requests as a small web application does
    python_work.py serve RATE   the same for ever, RATE requests a second
"""

import email.parser
import html
import json
import string
import sys
import time
import urllib.parse

ROW = string.Template("<tr><td>$number</td><td>$name</td><td>$price</td></tr>")
PAGE = string.Template("<html><h1>$title</h1><p>for $user</p><table>$rows</table></html>")
REQUEST = (
    "{method} /shop/{number}?q={query}&page={page} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
    "Accept: text/html,application/json\r\nCookie: session={number:032x}; theme=dark\r\n\r\n"
)


def run_json(count):
    document = {"items": [{"id": i, "name": f"item {i}", "tags": ["a", "b", str(i)], "price": i / 7,
                           "stock": {"here": i % 5, "there": None}} for i in range(400)]}
    text = json.dumps(document)
    for _ in range(count):
        read = json.loads(text)
        read["items"].sort(key=lambda item: item["price"], reverse=True)
        text = json.dumps(read)
    return len(text)


def parse(text):
    """Return the request's method, path, query and headers."""
    first, rest = text.split("\r\n", 1)
    method, target, _ = first.split(" ")
    url = urllib.parse.urlsplit(target)
    headers = email.parser.HeaderParser().parsestr(rest)
    cookies = dict(part.strip().split("=", 1) for part in headers["Cookie"].split(";"))
    return method, url.path, urllib.parse.parse_qs(url.query), headers, cookies


def serve(rate):
    began, done = time.monotonic(), 0
    while True:
        run_requests(10)
        done += 10
        time.sleep(max(0, began + done / rate - time.monotonic()))


def run_requests(count):
    goods = [{"number": i, "name": f"article & {i}", "price": i * 1.25} for i in range(200)]
    sessions, sent = {}, 0
    for number in range(count):
        text = REQUEST.format(method="GET", number=number % 997, query=f"article+{number % 50}", page=number % 8)
        _, path, query, headers, cookies = parse(text)
        session = sessions.setdefault(cookies["session"], {"seen": [], "user": f"user {path}"})
        session["seen"] = [*session["seen"][-9:], path]
        begin = int(query["page"][0]) * 20
        found = [{**item, "name": html.escape(item["name"])} for item in goods[begin : begin + 20]]
        if number % 3:
            rows = "".join(ROW.substitute(item) for item in found)
            body = PAGE.substitute(title=html.escape(query["q"][0]), user=html.escape(session["user"]), rows=rows)
        else:
            body = json.dumps({"found": found, "seen": session["seen"], "agent": headers["User-Agent"]})
        answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        sent += len(answer)
    return sent


print({"json": run_json, "requests": run_requests, "serve": serve}[sys.argv[1]](int(sys.argv[2])))
