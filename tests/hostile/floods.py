"""Candidates that write 5 GB, of the kinds of bytes that break readers."""

from __future__ import annotations

from ml_bench_metric.sandbox.execution import Execution
from ml_bench_metric.sandbox.limits import MIB
from tests.hostile.case import OUTPUT_LIMIT, Case, exits

_LIMIT = 64 * MIB

_FLOOD = """
import os

piece = {piece!r}
block = piece * (65536 // len(piece))
for _ in range(5_000_000_000 // len(block)):
    os.write({stream}, block)
"""

_PIECES = {
    "lines": b"all is well\n",
    "without newlines": b"x",
    "with invalid UTF-8": b"\xff\xfe\xc3(\xf0\x9f\x90",
    "with NULs": b"\0",
    "with ANSI and carriage returns": b"\x1b[2J\x1b]0;owned\x07\r\x1b[31m100%\r\x1b[1A\x9b",
}

_STREAMS = {1: "stdout", 2: "stderr"}


def _flood(what: str, stream: int) -> Case:
    name = _STREAMS[stream]
    kinds = [f"5 GB of output on {name}"]
    if what != "lines":
        kinds.append(f"5 GB of output {what}")

    def stopped_early(found: Execution) -> bool:
        flooded, other = (found.stdout, found.stderr) if stream == 1 else (found.stderr, found.stdout)
        return flooded.truncated and _LIMIT < flooded.bytes < 2 * _LIMIT and not other.bytes

    slug = what.replace(" ", "-").lower()
    program = _FLOOD.format(piece=_PIECES[what], stream=stream)
    limits = {"output_bytes": _LIMIT, "seconds": 60}
    return Case(f"floods-{name}-{slug}", tuple(kinds), program, OUTPUT_LIMIT, "python", limits, stopped_early)


CASES = (
    *(_flood(what, stream) for stream in _STREAMS for what in _PIECES),
    Case(
        "floods-both-streams-in-single-bytes",
        ("5 GB of output on stdout", "5 GB of output on stderr"),
        "import os\nwhile True:\n    os.write(1, b'x')\n    os.write(2, b'y')",
        OUTPUT_LIMIT,
        "python",
        {"output_bytes": 65536, "seconds": 60},
    ),
    Case(
        "writes-what-no-terminal-should-meet",
        ("5 GB of output with ANSI and carriage returns", "5 GB of output with invalid UTF-8"),
        "printf '\\xff\\xc3\\x00\\x1b]0;owned\\x07\\r\\xf0\\x9f'; exit 1",
        exits(1),
        also=lambda found: found.stdout.head == "\ufffd\ufffd\0\x1b]0;owned\x07\r\ufffd",
    ),
)
