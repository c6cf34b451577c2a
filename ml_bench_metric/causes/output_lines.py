"""The lines of a program's output, made fit for patterns: bounded, without colours, whatever the program wrote."""

from __future__ import annotations

import re

from ml_bench_metric.sandbox.execution import Output

KEPT_CHARACTERS = 64 * 1024
"""So much of the end of a stream is read: the error that ended a program is there."""

_LONGEST_LINE = 2000
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|[@-Z\\-_])")


def lines(output: Output) -> list[str]:
    """Return the lines of what is kept of a stream, at most its last 64 Ki characters, each cut at 2,000.

    Terminal escapes are gone, and a progress bar's carriage returns end lines too. Where bytes were dropped between
    head and tail, the first line of the tail is no whole line, and left out.
    """
    head, tail = output.head, output.tail
    if output.truncated:
        tail = tail.partition("\n")[2] if "\n" in tail else tail
        head += "\n"
    text = _ESCAPE.sub("", (head + tail)[-KEPT_CHARACTERS:])
    return [line[:_LONGEST_LINE] for line in re.split(r"[\r\n]+", text)]
