"""A proxy that reaches the hosts of a list and no other, for an agent whose container has no network.

It runs outside the container, in a thread, and listens on a Unix socket whose folder is mounted into it. It knows
`CONNECT` and plain HTTP requests, looks up names itself, and connects to the very address that it has checked. What
goes through a tunnel it does not see.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_bench_solvers.agents.allowed_hosts import AllowedHosts

SOCKET = "proxy"
"""The socket's name in the folder."""

_HEAD_BYTES = 16 * 1024
_READ_BYTES = 1 << 16
_HOST_CHARACTERS = 255
_ADDRESSES = 4
"""How many of a name's addresses are tried."""
_END_SECONDS = 5.0
_CLOSE_SECONDS = 10.0

_REQUEST = re.compile(rb"([A-Z]{1,20}) ([!-~]+) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#]+)(?::([0-9]{1,5}))?", re.ASCII)
_URL = re.compile(r"http://([^/?#]+)((?:[/?][^#]*)?)", re.IGNORECASE)
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"te", b"trailer", b"upgrade", b"host"})
"""What is between the client and us, or is said anew."""

Report = Callable[[Mapping[str, Any]], None]
Resolve = Callable[[str, int], list[str]]


@dataclass(frozen=True)
class Bounds:
    """What the proxy puts up with, times in seconds."""

    connections: int = 64
    """At a time; more are turned away."""
    head: float = 10.0
    """How long a client may take to say what it wants."""
    connect: float = 20.0
    """How long a host may take to be found, and to be connected to."""
    idle: float = 300.0
    """How long nothing may go through a connection."""


@dataclass
class _Asked:
    """What a client has asked for, and what became of it."""

    host: str = ""
    port: int = 0
    allowed: bool = False
    why: str = ""
    sent: int = 0
    received: int = 0


class _NothingAskedError(Exception):
    """A client came and went: a relay that looks whether we are there."""


class _RefusedError(Exception):
    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


class Proxy:
    """The proxy, which runs from when it is made until `close`; both may be called from any thread."""

    def __init__(
        self, allowed: AllowedHosts, report: Report, *, bounds: Bounds | None = None, resolve: Resolve | None = None
    ) -> None:
        """Begin to listen.

        Args:
            allowed: whom it reaches.
            report: hears of every request when it is over, in the proxy's thread: `host`, `port`, `allowed`, `why` it
                was refused or has failed, the bytes `sent` and `received`, `seconds`. It raises nothing.
            bounds: what it puts up with.
            resolve: returns the addresses of a name; by default the machine's own way.

        Raises:
            OSError: it cannot listen.
        """
        self._allowed, self._report = allowed, report
        self._bounds, self._resolve = bounds or Bounds(), resolve or _addresses
        self._tasks: set[asyncio.Task[None]] = set()
        self._private = Path(tempfile.mkdtemp(prefix="ml-bench-proxy-"))
        # Other users of this machine cannot come through the outer folder; the container's user, of whatever number,
        # gets the inner one.
        self.folder = self._private / "shared"
        """What is to be mounted into the container; it holds the socket."""
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self.folder.mkdir()
            self.folder.chmod(0o755)
            self._listener.bind(str(self.folder / SOCKET))
            (self.folder / SOCKET).chmod(0o666)
            self._listener.listen(self._bounds.connections)
        except BaseException:
            self._listener.close()
            shutil.rmtree(self._private, ignore_errors=True)
            raise
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="ml-bench-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all connections, and remove the socket; a second time does nothing."""
        # RuntimeError: the loop is closed already.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(_CLOSE_SECONDS)
        shutil.rmtree(self._private, ignore_errors=True)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            # It does not wait for names that are still looked up.
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_unix_server(self._accept, sock=self._listener, limit=_HEAD_BYTES)
        await self._end.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._connection(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked, began = _Asked(), time.monotonic()
        told = True
        try:
            try:
                if len(self._tasks) > self._bounds.connections:
                    raise _RefusedError("503 Service Unavailable", "too many connections at a time")
                await self._serve_one(reader, writer, asked)
            except _RefusedError as refused:
                asked.why = str(refused)
                writer.write(_answer(refused))
        except _NothingAskedError:
            told = False
        except (OSError, asyncio.TimeoutError) as error:
            # What has begun can only be broken off.
            asked.why = str(error) or type(error).__name__
        except asyncio.CancelledError:
            asked.why = "the proxy was ended"
            writer.transport.abort()
            raise
        finally:
            if told:
                self._report({**vars(asked), "seconds": round(time.monotonic() - began, 3)})
            await _close(writer)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: _Asked) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._bounds.head)
        except asyncio.TimeoutError:
            raise _RefusedError("408 Request Timeout", "no whole request came in time") from None
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                raise _NothingAskedError from None
            raise _RefusedError("400 Bad Request", "no whole request came") from None
        except asyncio.LimitOverrunError:
            raise _RefusedError(
                "431 Request Header Fields Too Large", f"more than {_HEAD_BYTES} bytes of headers"
            ) from None
        first, *lines = head[:-4].split(b"\r\n")
        request = _REQUEST.fullmatch(first)
        fields = [_FIELD.fullmatch(line) for line in lines]
        if request is None:
            raise _RefusedError("400 Bad Request", "no request of HTTP/1.1")
        method, target = request[1], request[2].decode("ascii")
        tunnel = method == b"CONNECT"
        url = None if tunnel else _URL.fullmatch(target)
        if not tunnel and url is None:
            raise _RefusedError(
                "400 Bad Request", "neither CONNECT HOST:PORT nor a whole address that begins with http://"
            )
        asked.host, asked.port = _host_and_port(target if url is None else url[1], None if tunnel else 80)
        pairs = [(one[1].lower(), one[0], one[2].strip()) for one in fields if one is not None]
        if len(pairs) < len(fields):
            raise _RefusedError("400 Bad Request", "a malformed header")
        length = None if url is None else _length(pairs)
        theirs, ours = await self._reach(asked)
        try:
            if url is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = url[2] if url[2].startswith("/") else f"/{url[2]}"
                kept = [line for name, line, _ in pairs if name not in _HOP_BY_HOP and not name.startswith(b"proxy-")]
                # The host that was checked, whatever the client calls it; and one request a connection.
                said = [b"%b %b HTTP/1.1" % (method, path.encode()), b"Host: " + url[1].encode(), *kept]
                new_head = b"\r\n".join([*said, b"Connection: close", b"", b""])
                asked.sent += len(new_head)
                ours.write(new_head)
            await self._exchange(reader, writer, theirs, ours, asked, length)
        finally:
            await _close(ours)

    async def _reach(self, asked: _Asked) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to what was asked for, if it may be.

        Raises:
            _RefusedError: it may not be, or cannot.
        """
        host, port = asked.host, asked.port
        if not self._allowed.allow(host, port):
            raise _RefusedError("403 Forbidden", "not on the list: " + ", ".join(self._allowed.entries))
        try:
            looked_up = self._loop.run_in_executor(None, self._resolve, host.strip("[]"), port)
            addresses = await asyncio.wait_for(looked_up, self._bounds.connect)
        except (OSError, UnicodeError, asyncio.TimeoutError) as error:
            raise _RefusedError("502 Bad Gateway", f"the name is not found: {error or 'no answer'}") from None
        fine = [address for address in addresses if self._allowed.allow_address(address, port)]
        if not fine:
            said = ", ".join(addresses)[:_HOST_CHARACTERS] or "none"
            raise _RefusedError("403 Forbidden", f"no public address: {said}; name another one itself, with its port")
        asked.allowed = True
        reason = ""
        for address in fine[:_ADDRESSES]:
            try:
                opened = asyncio.open_connection(address, port, limit=_READ_BYTES)
                return await asyncio.wait_for(opened, self._bounds.connect)
            except (OSError, asyncio.TimeoutError) as error:
                reason = str(error) or "no answer"
        raise _RefusedError("502 Bad Gateway", f"it cannot be connected to: {reason}")

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        theirs: asyncio.StreamReader,
        ours: asyncio.StreamWriter,
        asked: _Asked,
        length: int | None,
    ) -> None:
        """Pass on what both sides say until the host has said all, or one of them is gone.

        Args:
            reader, writer: the client's.
            theirs, ours: the host's.
            asked: counts.
            length: how many bytes the client may still send; None for any number.

        Raises:
            OSError: one side is gone.
            TimeoutError: neither has said anything for long.
        """

        async def there() -> None:
            left = length
            while left is None or left:
                data = await reader.read(_READ_BYTES if left is None else min(left, _READ_BYTES))
                if not data:
                    break
                left = None if left is None else left - len(data)
                asked.sent += len(data)
                try:
                    ours.write(data)
                    await ours.drain()
                except OSError:
                    # It wants no more, and may still say why.
                    return
            if length is None:
                with contextlib.suppress(OSError):
                    ours.write_eof()

        async def back() -> None:
            while data := await theirs.read(_READ_BYTES):
                asked.received += len(data)
                writer.write(data)
                await writer.drain()

        going, coming = asyncio.ensure_future(there()), asyncio.ensure_future(back())
        try:
            waited_for = {going, coming}
            while coming in waited_for:
                before = asked.sent, asked.received
                done, waited_for = await asyncio.wait(
                    waited_for, timeout=self._bounds.idle, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    task.result()
                if not done and before == (asked.sent, asked.received):
                    raise asyncio.TimeoutError("nothing went through it for long")
        finally:
            for task in (going, coming):
                task.cancel()
            await asyncio.gather(going, coming, return_exceptions=True)


def _host_and_port(text: str, usual: int | None) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(text)
    port = int(match[2]) if match and match[2] else usual
    if match is None or port is None or not 1 <= port <= 65535 or len(match[1]) > _HOST_CHARACTERS:
        raise _RefusedError("400 Bad Request", "no HOST:PORT")
    return match[1].lower(), port


def _length(pairs: list[tuple[bytes, bytes, bytes]]) -> int:
    """Return how long a request's body is: with another one behind it, nobody would see whom that is for."""
    if any(name == b"transfer-encoding" for name, _, _ in pairs):
        raise _RefusedError("411 Length Required", "a request of unknown length")
    lengths = [value for name, _, value in pairs if name == b"content-length"]
    if len(lengths) > 1 or any(not re.fullmatch(rb"[0-9]{1,15}", value) for value in lengths):
        raise _RefusedError("400 Bad Request", "a malformed Content-Length")
    return int(lengths[0]) if lengths else 0


def _answer(refused: _RefusedError) -> bytes:
    text = f"ml-bench: {refused}\n".encode("utf-8", "replace")
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}\r\n"
    return head.encode("ascii") + b"Connection: close\r\n\r\n" + text


def _addresses(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection once what was written is sent, or it is clear that nobody takes it."""
    try:
        writer.close()
        await asyncio.wait_for(writer.wait_closed(), _END_SECONDS)
    except (OSError, asyncio.TimeoutError):
        pass
    finally:
        writer.transport.abort()
