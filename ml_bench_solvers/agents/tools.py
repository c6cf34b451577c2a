"""What a model can do in a workspace: four tools, calls of them, and what a call brings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ml_bench_solvers.agents.shortening import shortened
from ml_bench_solvers.agents.workspace import SCRIPT, Workspace
from ml_bench_solvers.generation.replies import Call, storable
from ml_bench_solvers.inert import without_markers

COMMAND_SECONDS = 120.0
"""What a command may take, unless the model asks for another time."""

_LONGEST_COMMAND = 1800.0
_QUOTED = 200
"""Characters of something wrong that are told to the model."""


@dataclass(frozen=True)
class Action:
    """Something that a model wants done."""

    id: str
    """Unique within a reply; what it brings is told under this name."""
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    """Why it cannot be done, for the model; empty where it can be tried."""


@dataclass(frozen=True)
class Outcome:
    """What an action has brought."""

    text: str
    """For the model."""
    submitted: bool = False
    """Whether the model has ended its work with it."""


def _tool(name: str, description: str, required: int, **parameters: tuple[str, str]) -> dict[str, Any]:
    """Return a tool as servers take it; the first so many parameters are required."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {
                    name: {"type": kind, "description": meaning} for name, (kind, meaning) in parameters.items()
                },
                "required": list(parameters)[:required],
            },
        },
    }


TOOLS = (
    _tool(
        "bash",
        "Run a command with bash in the task's folder. Brings its exit status and what it wrote.",
        1,
        command=("string", "The command, or a script of several lines."),
        timeout=("number", f"Seconds until it is ended; {COMMAND_SECONDS:g} where none are given."),
    ),
    _tool(
        "read_file",
        "Show a text file.",
        1,
        path=("string", "Absolute, or relative to the task's folder."),
    ),
    _tool(
        "write_file",
        "Write a text file, in place of one that is there. Folders that it needs are made.",
        2,
        path=("string", "Absolute, or relative to the task's folder."),
        content=("string", "All of its content."),
    ),
    _tool("submit", f"End the work: {SCRIPT} is as it is to be judged.", 0),
)
"""In the form of OpenAI's chat completions."""

_FUNCTIONS = tuple(tool["function"] for tool in TOOLS)

_PARAMETERS: Mapping[str, Mapping[str, Any]] = {function["name"]: function["parameters"] for function in _FUNCTIONS}

NAMES = tuple(_PARAMETERS)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def read_calls(calls: Iterable[Call], turn: int) -> list[Action]:
    """Return the actions that a reply's calls ask for, each with a name of its own, faulty ones among them.

    Args:
        calls: as they came.
        turn: which reply of the task it is; for the names of calls that have none.
    """
    found: list[Action] = []
    for number, call in enumerate(calls, 1):
        named = call.id and call.id not in {action.id for action in found}
        arguments, fault = _arguments_in(call)
        # It is sent back, and servers refuse names that none of their tools could have.
        name = call.name if _NAME.fullmatch(call.name) else "unknown"
        found.append(Action(call.id if named else f"call-{turn}-{number}", name, arguments, fault))
    return found


def _arguments_in(call: Call) -> tuple[dict[str, Any], str]:
    if call.name not in _PARAMETERS:
        return {}, f"There is no tool {_quoted(call.name)}; there are {', '.join(NAMES)}."
    try:
        # Line breaks within a text are written as they are by many a model; what is meant is clear.
        found = json.loads(call.arguments or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "it is too deep or too long"
        return {}, f"The arguments of {call.name} are no JSON ({reason}): {_quoted(call.arguments)}"
    if not isinstance(found, dict):
        return {}, f"The arguments of {call.name} are no JSON object: {_quoted(call.arguments)}"
    return found, ""


def _quoted(text: str) -> str:
    return json.dumps(shortened(text, _QUOTED), ensure_ascii=False)


def perform(action: Action, workspace: Workspace, most: int) -> Outcome:
    """Do an action and return what it has brought; what is wrong with it is told to the model, never raised.

    Args:
        action: what to do.
        workspace: where.
        most: characters of a result at the most.

    Raises:
        BudgetSpent, WorkspaceError: as the workspace raises them.
    """
    fault = action.fault or _fault_in(action)
    if fault:
        return Outcome(fault)
    outcome = _DOING[action.name](action.arguments, workspace)
    # Output that has a chat's control markers would end the message where a server takes them for such.
    text, _ = without_markers(storable(outcome.text))
    return Outcome(shortened(text, most), outcome.submitted)


def _fault_in(action: Action) -> str:
    schema = _PARAMETERS[action.name]
    for name in schema["required"]:
        if name not in action.arguments:
            return f"{action.name} needs the argument {name}."
    for name, value in action.arguments.items():
        kind = schema["properties"].get(name, {}).get("type")
        if kind == "string" and not isinstance(value, str):
            return f"The argument {name} of {action.name} is no text: {_quoted(json.dumps(value))}"
        if kind == "string" and name != "content" and "\0" in value:
            return f"The argument {name} of {action.name} has a NUL character, which cannot be."
    if action.name != "bash" and action.arguments.get("path") == "":
        return f"The argument path of {action.name} is empty."
    return ""


def _bash(arguments: Mapping[str, Any], workspace: Workspace) -> Outcome:
    timeout = _seconds(arguments.get("timeout"))
    ran = workspace.exec(storable(arguments["command"]), timeout=timeout)
    end = f"ended at its time limit of {timeout:g} s" if ran.status is None else f"exit status {ran.status}"
    missing = "; its output was too long, and parts are missing" if ran.truncated else ""
    return Outcome(f"[{end}{missing}]\n{ran.output}")


def _seconds(asked: object) -> float:
    """Return the time limit that a model means; numbers come as texts, too, and nonsense means none."""
    try:
        seconds = float(asked) if isinstance(asked, (int, float, str)) and not isinstance(asked, bool) else 0.0
    except (ValueError, OverflowError):
        seconds = 0.0
    return min(max(1.0, seconds), _LONGEST_COMMAND) if seconds > 0 else COMMAND_SECONDS


def _read(arguments: Mapping[str, Any], workspace: Workspace) -> Outcome:
    path = storable(arguments["path"])
    try:
        content = workspace.read_file(path)
    except FileNotFoundError:
        return Outcome(f"There is no file {_quoted(path)}.")
    except OSError as error:
        return Outcome(f"{_quoted(path)} cannot be read: {error.strerror or error}")
    if b"\0" in content:
        return Outcome(f"{_quoted(path)} is no text: {len(content)} bytes.")
    return Outcome(content.decode("utf-8", "replace") or "[the file is empty]")


def _write(arguments: Mapping[str, Any], workspace: Workspace) -> Outcome:
    path, content = storable(arguments["path"]), storable(arguments["content"]).encode()
    try:
        workspace.write_file(path, content)
    except OSError as error:
        return Outcome(f"{_quoted(path)} cannot be written: {error.strerror or error}")
    return Outcome(f"[written: {len(content)} bytes]")


def _submit(arguments: Mapping[str, Any], workspace: Workspace) -> Outcome:
    try:
        workspace.read_file(SCRIPT)
    except OSError:
        return Outcome(f"There is no {SCRIPT} in {workspace.folder}: write it first.")
    return Outcome("[submitted]", submitted=True)


_DOING: Mapping[str, Callable[[Mapping[str, Any], Workspace], Outcome]] = {
    "bash": _bash,
    "read_file": _read,
    "write_file": _write,
    "submit": _submit,
}
