"""Acting by fenced blocks of a reply's text, for models and servers without calls of tools."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ml_bench_solvers.agents.tools import Action, Outcome

_OPENING = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^\n`]*)", re.ASCII)

_THINKING = ("<think>", "</think>")

_SHELLS = ("bash", "sh", "shell")


def read_blocks(text: str, turn: int) -> list[Action]:
    """Return the actions that a reply's blocks ask for, in their order; blocks of other kinds are talk.

    A block ends at a fence of the same characters that is as long as its first one at least. One that has no end is no
    action to be tried: a reply was cut there.

    Args:
        text: the reply's.
        turn: which reply of the task it is.
    """
    found: list[Action] = []
    if text.lstrip().startswith(_THINKING[0]):
        # What a model has only thought of is not wanted yet.
        text = text.rpartition(_THINKING[1])[2] if _THINKING[1] in text else ""
    # Only "\n" separates lines: a file's content may have what other separators there are.
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        opening = _OPENING.fullmatch(line.rstrip())
        if opening is None:
            continue
        fence, information = opening[1], opening[2].strip()
        body, ended = _body(lines, fence)
        action = _action(f"text-{turn}-{len(found) + 1}", information, body)
        if action is not None and not ended:
            action = Action(action.id, action.name, {}, f"The block of {action.name} has no end: the fence is missing.")
        if action is not None:
            found.append(action)
    return found


def _body(lines: Iterable[str], fence: str) -> tuple[list[str], bool]:
    """Return the lines until a fence, and whether there was one."""
    body: list[str] = []
    for line in lines:
        bare = line.strip()
        if len(bare) >= len(fence) and not bare.strip(fence[0]):
            return body, True
        body.append(line)
    return body, False


def _action(identity: str, information: str, body: list[str]) -> Action | None:
    kind, _, rest = information.partition(" ")
    kind, path = kind.lower(), rest.strip()
    text = "\n".join(body)
    if kind in _SHELLS:
        return Action(identity, "bash", {"command": text})
    if kind == "submit":
        return Action(identity, "submit")
    if kind == "read":
        # Some write the path where a command would be.
        return Action(identity, "read_file", {"path": path or text.strip()})
    if kind == "write":
        if not path:
            return Action(identity, "write_file", {}, "The block says no path: begin it with ```write PATH.")
        return Action(identity, "write_file", {"path": path, "content": text + "\n" if body else ""})
    return None


def results_text(actions: Iterable[Action], outcomes: Iterable[Outcome]) -> str:
    """Return what a reply's actions have brought, as the text of the next message."""
    return "\n\n".join(
        f"Result of block {number} ({action.name}):\n{outcome.text}"
        for number, (action, outcome) in enumerate(zip(actions, outcomes, strict=True), 1)
    )
