"""Trajectories in ATIF, Harbor's Agent Trajectory Interchange Format, version 1.7.

A step of an ATIF trajectory is what somebody said. What a model's reply asked for is part of its step, and so is what
came of it. An agent that says nothing to a model, such as `oracle`, has steps of its own for what it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ml_bench_metric.printable import printable
from ml_bench_solvers.agents.shortening import shortened

VERSION = "ATIF-v1.7"

_TOOLS = {"command": "bash", "read": "read_file", "write": "write_file"}
"""Kinds of lines in which a workspace records what it did -> the tool that does so."""

_RESULTS = ("output", "status", "truncated", "seconds", "bytes", "error")
"""Fields of such a line that tell what came of it; the others, what was asked for."""

_SEEN = 100_000
"""Characters of one text at the most."""


@dataclass(frozen=True)
class About:
    """What a trajectory file does not say itself."""

    agent: str
    """Name of the agent: `react:MODEL`, `oracle`."""
    version: str
    """Of this project."""
    session: str
    """Names the attempt: `<task_id>/<attempt>`."""
    facts: Mapping[str, Any] | None = None
    """More of it, as plain JSON values: network, why it ended, the verdict."""


def to_atif(lines: Iterable[Mapping[str, Any]], about: About) -> dict[str, Any]:
    """Return a trajectory as plain JSON values in the form of ATIF.

    Costs are in the currency of the prices that were given, which ATIF takes for dollars. A line of a kind that is not
    known here becomes a step that quotes it.

    Args:
        lines: of `trajectory.jsonl`, in their order.
        about: what else there is to say.
    """
    steps: list[dict[str, Any]] = []
    used: list[Mapping[str, Any]] = []
    talks = False  # whether what a workspace does is told by a message, too
    for line in lines:
        kind, role = line.get("kind"), line.get("role")
        if kind == "message" and role == "tool" and _answer(steps, line):
            continue
        if kind in _TOOLS and talks:
            continue
        if kind == "used":
            used.append(line)
            continue
        talks = talks or (kind == "message" and role == "assistant")
        steps.append({"step_id": len(steps) + 1, **_time(line), **_step(line)})
    if not steps:
        steps.append({"step_id": 1, "source": "system", "message": "The agent did nothing."})
    models = [step["model_name"] for step in steps if "model_name" in step]
    found: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": about.session,
        "agent": {"name": about.agent, "version": about.version, **({"model_name": models[-1]} if models else {})},
        "steps": steps,
        "final_metrics": {**_totals(used), "total_steps": len(steps)},
    }
    if about.facts:
        found["extra"] = dict(about.facts)
    return found


def _time(line: Mapping[str, Any]) -> dict[str, str]:
    seconds = line.get("at")
    if not isinstance(seconds, (int, float)):
        return {}
    return {"timestamp": datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")}


def _step(line: Mapping[str, Any]) -> dict[str, Any]:
    kind, role = line.get("kind"), line.get("role")
    text = _text(line.get("content"))
    if kind == "message" and role == "assistant":
        return _reply(line, text)
    if kind == "message":
        return {"source": "system" if role == "system" else "user", "message": text}
    if kind in _TOOLS:
        return _done(line, _TOOLS[kind])
    return {
        "source": "system",
        "message": _text(line.get("text")) or f"{kind}",
        "extra": {name: value for name, value in line.items() if name not in ("at", "text")},
    }


def _reply(line: Mapping[str, Any], text: str) -> dict[str, Any]:
    metrics = {
        "prompt_tokens": line.get("prompt_tokens"),
        "completion_tokens": line.get("completion_tokens"),
        "cost_usd": line.get("cost"),
    }
    metrics = {name: value for name, value in metrics.items() if value is not None}
    step: dict[str, Any] = {"source": "agent", "message": text, "llm_call_count": 1}
    if line.get("model"):
        step["model_name"] = line["model"]
    if line.get("reasoning"):
        step["reasoning_content"] = _text(line["reasoning"])
    calls = [
        {
            "tool_call_id": call["id"],
            "function_name": call["name"],
            "arguments": dict(call["arguments"]),
            **({"extra": {"fault": call["fault"]}} if call.get("fault") else {}),
        }
        for call in line.get("calls") or ()
    ]
    if calls:
        step["tool_calls"] = calls
    if metrics:
        step["metrics"] = metrics
    extra = {name: line[name] for name in ("status", "finish_reason", "request_id", "seconds") if line.get(name)}
    return {**step, "extra": extra} if extra else step


def _answer(steps: list[dict[str, Any]], line: Mapping[str, Any]) -> bool:
    """Add what a call has brought to the step that it is of, and return whether there is such a step."""
    step = next((step for step in reversed(steps) if step["source"] == "agent"), None)
    calls = step.get("tool_calls", ()) if step else ()
    if step is None or all(call["tool_call_id"] != line.get("call") for call in calls):
        return False
    observation = step.setdefault("observation", {"results": []})
    observation["results"].append({"source_call_id": line["call"], "content": _text(line.get("content"))})
    return True


def _done(line: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Return the step for something that an agent did without a model."""
    asked = {name: _bounded(value) for name, value in line.items() if name not in ("at", "kind", *_RESULTS)}
    brought = {name: _bounded(line[name]) for name in _RESULTS if line.get(name) is not None and name != "output"}
    result: dict[str, Any] = {"source_call_id": "1", "content": _text(line.get("output"))}
    if brought:
        result["extra"] = brought
    return {
        "source": "agent",
        "message": "",
        "llm_call_count": 0,
        "tool_calls": [{"tool_call_id": "1", "function_name": tool, "arguments": asked}],
        "observation": {"results": [result]},
    }


def _totals(used: list[Mapping[str, Any]]) -> dict[str, Any]:
    names = {
        "prompt_tokens": "total_prompt_tokens",
        "completion_tokens": "total_completion_tokens",
        "cost": "total_cost_usd",
    }
    totals = {total: sum(line.get(name) or 0 for line in used) for name, total in names.items()}
    turns = sum(line.get("turns") or 0 for line in used)
    return {**totals, "extra": {"turns": turns}}


def _text(value: object) -> str:
    if value is None:
        return ""
    return shortened(value if isinstance(value, str) else printable(str(value)), _SEEN)


def _bounded(value: object) -> object:
    return _text(value) if isinstance(value, str) else value
