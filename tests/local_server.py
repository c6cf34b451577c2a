"""A server of a test on this machine, as a context manager."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeVar

AnyServer = TypeVar("AnyServer", bound="LocalServer")


class LocalServer:
    """Answers requests in threads; its handlers find it as `self.server.owner`."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self.released = threading.Event()
        """Ends every silence."""
        self._server = _Server(self, handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self: AnyServer) -> AnyServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.owner = owner

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that go away are what the tests are about."""
