# SPDX-License-Identifier: Apache-2.0
"""A server of files on loopback that misbehaves where its path says so. It honours ranges.

    /plain/NAME      the file          /redirect/NAME   leads to /plain/NAME
    /break/NAME      each answer ends after BROKEN_AFTER bytes
    /whole/NAME      knows no ranges   /other/NAME      other bytes of the same length
"""
import http.server
import re
import threading

BROKEN_AFTER = 100_000


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        behaviour, _, name = self.path.strip("/").partition("/")
        self.server.requests.append((self.path, self.headers.get("Range")))
        if behaviour == "redirect":
            return self.answer(302, b"", {"Location": f"/plain/{name}"})
        content = self.server.files.get(name)
        if content is None or behaviour not in ("plain", "break", "whole", "other"):
            return self.answer(404, b"no such file")
        if behaviour == "other":
            content = bytes(len(content))
        first = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if not first or behaviour == "whole":
            return self.answer(200, content, is_broken=behaviour == "break")
        first = int(first[1])
        if first >= len(content):
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        where = {"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"}
        return self.answer(206, content[first:], where, is_broken=behaviour == "break")

    def answer(self, status, content, headers=None, is_broken=False):
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content[:BROKEN_AFTER] if is_broken else content)
        self.close_connection = self.close_connection or (is_broken and len(content) > BROKEN_AFTER)

    def log_message(self, *_):
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        """A client that hangs up early is none."""


class Server:
    """Serves `files`, {name: bytes}, while it is entered; `requests` are the paths and ranges asked for."""

    def __init__(self, files):
        self.http = QuietServer(("127.0.0.1", 0), Handler)
        self.http.files = files
        self.http.requests = []
        self.address = f"http://127.0.0.1:{self.http.server_port}"

    @property
    def requests(self):
        return self.http.requests

    def __enter__(self):
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()
