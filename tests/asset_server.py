"""A web server of files on loopback that misbehaves as it is told: `with FileServer() as server: server.url("/a")`."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import pytest

from tests.local_server import LocalServer


@dataclass
class File:
    """What the server has at a path."""

    content: bytes
    etag: str | None = '"first"'
    ranges: bool = True
    chunked: bool = False
    says_length: bool = True
    answers_head: bool = True
    longest_range: int | None = None
    """Bytes that it sends of a range at the most."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Mishap:
    """What happens to the next request for a path with GET, in place of a whole answer."""

    status: int | None = None
    """Answered without the file."""
    headers: Mapping[str, str] = field(default_factory=dict)
    sends: int | None = None
    """Bytes of the body that are sent before the connection ends."""
    silent: bool = False
    """Whether nothing more is sent after those, while the connection stays."""


class FileServer(LocalServer):
    """The server: what it has, what it does to the next requests, and what it was asked."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.files: dict[str, File] = {}
        self.mishaps: dict[str, list[Mishap]] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        """Method, path and headers, in lower case, of each request so far."""
        self.heeds_if_range = True
        self.silent = threading.Event()
        """Set when a silent answer has sent all that it sends."""

    def url(self, path: str) -> str:
        return f"{self.address}{path}"

    def asked(self, method: str = "GET") -> list[tuple[str, dict[str, str]]]:
        """Return path and headers of the requests of a method."""
        return [(path, headers) for one, path, headers in self.requests if one == method]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._note()
        file = self._owner.files.get(self.path)
        if file is None or not file.answers_head:
            self._refuse(404 if file is None else 405, {})
        else:
            self._head(file, 200, {"Content-Length": str(len(file.content))} if file.says_length else {})

    def do_GET(self) -> None:
        self._note()
        planned = self._owner.mishaps.get(self.path)
        mishap = planned.pop(0) if planned else None
        if mishap is not None and mishap.status is not None:
            self._refuse(mishap.status, mishap.headers)
            return
        file = self._owner.files.get(self.path)
        if file is None:
            self._refuse(404, {})
        else:
            self._send(file, mishap)

    def log_message(self, format: str, *args: object) -> None:
        pass

    @property
    def _owner(self) -> FileServer:
        owner: FileServer = self.server.owner  # type: ignore[attr-defined]
        return owner

    def _note(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._owner.requests.append((self.command, self.path, headers))

    def _holds(self, file: File) -> bool:
        """Return whether the condition of a request for a range is met."""
        condition = self.headers.get("If-Range")
        return not self._owner.heeds_if_range or condition in (None, file.etag, file.headers.get("Last-Modified"))

    def _refuse(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _head(self, file: File, status: int, length: Mapping[str, str]) -> None:
        self.send_response(status)
        headers = {"Content-Type": "application/octet-stream", **file.headers, **length}
        if file.etag is not None:
            headers["ETag"] = file.etag
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, file: File, mishap: Mishap | None) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start = int(wanted[1]) if wanted and file.ranges and self._holds(file) else None
        if start is not None and start >= len(file.content):
            self._refuse(416, {"Content-Range": f"bytes */{len(file.content)}"})
            return
        body = file.content[start or 0 :]
        if start is not None and file.longest_range is not None:
            body = body[: file.longest_range]
        length = {}
        if file.chunked:
            length["Transfer-Encoding"] = "chunked"
        elif file.says_length:
            length["Content-Length"] = str(len(body))
        else:
            length["Connection"] = "close"
        if start is not None:
            length["Content-Range"] = f"bytes {start}-{start + len(body) - 1}/{len(file.content)}"
        self._head(file, 200 if start is None else 206, length)
        sent = body if mishap is None or mishap.sends is None else body[: mishap.sends]
        if file.chunked:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent) + (b"0\r\n\r\n" if mishap is None else b""))
        else:
            self.wfile.write(sent)
        if mishap is not None or not (file.chunked or file.says_length):
            self.wfile.flush()
            self.close_connection = True
        if mishap is not None and mishap.silent:
            self._owner.silent.set()
            self._owner.released.wait(30)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what another process is about to do; it fails after half a minute."""
    for _ in range(3000):
        if holds():
            return
        threading.Event().wait(0.01)
    pytest.fail("it did not happen within 30 s")
