"""Keeping what a program writes in constant memory, whatever it writes and however much."""

from __future__ import annotations

import struct

from ml_bench_metric.sandbox.execution import Output

_HEADER = struct.Struct(">BxxxL")


class Capture:
    """The beginning and the end of one stream, with the number of bytes that passed."""

    def __init__(self, kept_bytes: int) -> None:
        """Keep `kept_bytes` at the most: half of them as head, half as tail."""
        self._head_size = kept_bytes // 2
        self._tail_size = kept_bytes - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self.bytes = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes of the stream."""
        self.bytes += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._tail_size :] if len(data) > self._tail_size else data
        # Trimmed only when twice too long: a program that writes single bytes would cost a copy of the tail for each.
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: -self._tail_size]

    def output(self) -> Output:
        """Return what was kept, decoded as UTF-8 with U+FFFD for what is not.

        A character is never counted as broken because the cut went through it.
        """
        if self.bytes <= self._head_size + self._tail_size:
            return Output(head=(self._head + self._tail).decode("utf-8", "replace"), bytes=self.bytes)
        head, tail = _whole_end(bytes(self._head)), _whole_begin(bytes(self._tail[-self._tail_size :]))
        return Output(
            head=head.decode("utf-8", "replace"),
            tail=tail.decode("utf-8", "replace"),
            bytes=self.bytes,
            truncated=True,
        )


def _whole_end(data: bytes) -> bytes:
    """Cut a character that began in the last three bytes and did not end there."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return data[:-back] if length > back else data
    return data


def _whole_begin(data: bytes) -> bytes:
    """Cut the rest, three bytes at the most, of a character that began before."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:
        cut += 1
    return data[cut:]


class Demultiplexer:
    """Docker's attach stream, taken apart: frames of `type, 0, 0, 0, length (4 bytes, big-endian), data`.

    Source: Docker Engine API, "Attach to a container", section "Stream format".
    """

    def __init__(self, stdout: Capture, stderr: Capture) -> None:
        """Write what arrives into one capture per stream."""
        self._streams = {1: stdout, 2: stderr}
        self._header = bytearray()
        self._left = 0
        self._stream: Capture | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the attach stream.

        Raises:
            ValueError: the bytes are no such stream.
        """
        view = memoryview(data)
        while view:
            if self._left:
                part = view[: self._left]
                if self._stream is not None:
                    self._stream.feed(part)
                self._left -= len(part)
                view = view[len(part) :]
                continue
            need = _HEADER.size - len(self._header)
            self._header += view[:need]
            view = view[need:]
            if len(self._header) == _HEADER.size:
                kind, self._left = _HEADER.unpack(self._header)
                if kind > 3:
                    raise ValueError(f"not a Docker attach stream: frame type {kind}")
                self._stream = self._streams.get(kind)
                self._header.clear()
