"""An attempt of an agent, told on the terminal: what it did step by step, what it has left, and why it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_bench_metric.printable import printable
from ml_bench_solvers.agents import trajectory
from ml_bench_solvers.agents.attempts import Attempt, AttemptFolder

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_LINES = 40
"""How many lines of a text are shown; the trajectory has more."""
_OWN = ("kind", "at", "checksum")


def explain_attempt(run: Path, task_id: str, attempt: int, console: Console) -> bool:
    """Print what is known of an attempt, and return whether there is anything.

    Args:
        run: folder of the run.
        task_id: of the task.
        attempt: from 0.
        console: where to print.

    Raises:
        RunError: a record is damaged.
    """
    folder = AttemptFolder(run, task_id, attempt)
    path = folder.path / trajectory.FILE
    if not path.exists():
        return False
    ended = folder.ended()
    began = None
    _print(console, f"attempt {attempt} at {task_id}")
    for step in trajectory.read_steps(path):
        began = step["at"] if began is None else began
        _print(console, f"  {step['at'] - began:8.1f} s  {step['kind']}{_brief(step)}")
        for name, text in _texts(step):
            _print_text(console, name, text)
    for line in _ending(ended):
        _print(console, f"  {line}")
    return True


def _brief(step: Mapping[str, Any]) -> str:
    """Return the short facts of a step, on one line."""
    parts = []
    for name, value in step.items():
        if name in _OWN or value is None or value is False or value == "" or (isinstance(value, str) and "\n" in value):
            continue
        parts.append(f"{name} {value if isinstance(value, str) else json.dumps(value)}")
    return "".join(f", {part}" for part in parts)


def _texts(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in step.items():
        if name not in _OWN and isinstance(value, str) and "\n" in value:
            yield name, value


def _ending(ended: Attempt | None) -> Iterator[str]:
    if ended is None:
        yield "it did not come to its end; the same command makes it again"
        return
    used = ended.used
    yield f"ended      {ended.why}{f': {ended.reason}' if ended.reason else ''}"
    yield f"worked in  image {ended.image or 'none'}, start {ended.start}, network {ended.network}"
    if ended.allowed:
        yield f"reached    {', '.join(ended.allowed)} at the most"
    yield (
        f"used       {ended.seconds:.1f} s, {used.turns} turns, {used.prompt_tokens} tokens in, "
        f"{used.completion_tokens} out, cost {used.cost:.4f}"
    )
    changes = ended.changes
    yield (
        f"left       {'run.sh' if ended.script else 'no run.sh'}; {changes.files} changed files, folders and links of "
        f"{changes.bytes} bytes, {len(changes.deleted)} deleted"
    )
    for line in changes.dropped[:_SHOWN_LINES]:
        yield f"dropped    {line}"
    if changes.dropped_count > _SHOWN_LINES:
        yield f"dropped    … {changes.dropped_count} in all"


def _print_text(console: Console, name: str, text: str) -> None:
    lines = text.splitlines()
    _print(console, f"    {name}:")
    for line in lines[:_SHOWN_LINES]:
        _print(console, f"    | {line}")
    if len(lines) > _SHOWN_LINES:
        _print(console, f"    | … {len(lines) - _SHOWN_LINES} more lines")


def _print(console: Console, line: str) -> None:
    from rich.text import Text

    console.print(Text(printable(line)), soft_wrap=True)
