"""Output is kept in constant memory, and no cut makes a character look broken."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ml_bench_metric.sandbox.capture import Capture, Demultiplexer


def _fed(chunks: list[bytes], kept: int) -> Capture:
    capture = Capture(kept)
    for chunk in chunks:
        capture.feed(chunk)
    return capture


@given(st.lists(st.binary(max_size=40)), st.integers(4, 64))
def test_what_fits_is_kept_whole_and_what_does_not_is_said_to_be_cut(chunks: list[bytes], kept: int) -> None:
    data = b"".join(chunks)
    output = _fed(chunks, kept).output()
    assert output.bytes == len(data)
    assert output.truncated == (len(data) > kept)
    if not output.truncated:
        assert output.head == data.decode("utf-8", "replace")
        assert output.tail == ""


@given(st.text(min_size=40, max_size=300), st.integers(8, 64), st.integers(1, 7))
def test_a_cut_through_a_character_leaves_no_replacement_mark(text: str, kept: int, step: int) -> None:
    data = text.encode("utf-8", "replace")
    clean = data.decode("utf-8")
    output = _fed([data[i : i + step] for i in range(0, len(data), step)], kept).output()
    assert clean.startswith(output.head)
    assert clean.endswith(output.tail)
    assert output.head.count("\ufffd") + output.tail.count("\ufffd") <= clean.count("\ufffd")


def test_memory_stays_constant_however_much_is_written() -> None:
    capture = Capture(1024)
    for _ in range(2000):
        capture.feed(b"x" * 10_000)
    assert capture.bytes == 20_000_000
    assert len(capture._head) + len(capture._tail) <= 2 * 1024


def test_the_end_of_a_long_output_is_its_end() -> None:
    capture = _fed([b"%d\n" % number for number in range(100_000)], 64)
    assert capture.output().head.startswith("0\n1\n2\n")
    assert capture.output().tail.endswith("99998\n99999\n")


def test_invalid_bytes_are_marked_and_never_raise() -> None:
    assert _fed([b"a\xff\xfeb"], 64).output().head == "a\ufffd\ufffdb"


def _frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", kind, len(data)) + data


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=30))), st.integers(1, 20))
def test_frames_are_taken_apart_wherever_the_stream_is_cut(frames: list[tuple[int, bytes]], step: int) -> None:
    stream = b"".join(_frame(kind, data) for kind, data in frames)
    stdout, stderr = Capture(10_000), Capture(10_000)
    demultiplexer = Demultiplexer(stdout, stderr)
    for begin in range(0, len(stream), step):
        demultiplexer.feed(stream[begin : begin + step])
    assert stdout.bytes == sum(len(data) for kind, data in frames if kind == 1)
    assert stderr.output().head == b"".join(data for kind, data in frames if kind == 2).decode("utf-8", "replace")


def test_a_stream_without_frames_is_refused_instead_of_misread() -> None:
    with pytest.raises(ValueError, match="not a Docker attach stream"):
        Demultiplexer(Capture(64), Capture(64)).feed(b"hello, this is a terminal")
