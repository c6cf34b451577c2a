"""Trajectories become ATIF that keeps the format's rules, with what was asked for beside what came of it."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.tasks import load_tasks
from ml_bench_solvers.agents.atif import About, to_atif
from ml_bench_solvers.agents.react import ReactAgent
from tests.agent_fakes import FakeWorkspace, call, calling, scripted
from tests.model_server import completion, in_turn

ABOUT = About(agent="react:m", version="0.1.0", session="tiny-gan/1/1", facts={"network": "none"})

_AGENTS_ONLY = {"model_name", "reasoning_content", "tool_calls", "metrics"}


def check(trajectory: dict[str, Any]) -> None:
    """Assert the rules of the format that concern what is written here."""
    assert set(trajectory) <= {"schema_version", "session_id", "agent", "steps", "final_metrics", "extra", "notes"}
    assert [step["step_id"] for step in trajectory["steps"]] == list(range(1, len(trajectory["steps"]) + 1))
    for step in trajectory["steps"]:
        assert step["source"] in ("system", "user", "agent") and isinstance(step["message"], str)
        if "timestamp" in step:
            assert datetime.fromisoformat(step["timestamp"]).utcoffset() is not None
        if step["source"] != "agent":
            assert not _AGENTS_ONLY & set(step)
        if step.get("llm_call_count") == 0:
            assert not {"metrics", "reasoning_content"} & set(step)
        asked = {one["tool_call_id"] for one in step.get("tool_calls", ())}
        assert all(isinstance(one["arguments"], dict) for one in step.get("tool_calls", ()))
        assert {one["source_call_id"] for one in step.get("observation", {"results": ()})["results"]} <= asked
    assert trajectory["final_metrics"]["total_steps"] == len(trajectory["steps"])
    json.dumps(trajectory, allow_nan=False)


def line(kind: str, at: float = 1_700_000_000.0, **facts: Any) -> dict[str, Any]:
    return {**facts, "kind": kind, "at": at}


@pytest.fixture
def of_react(tmp_path: Path) -> list[dict[str, Any]]:
    """Lines of an agent that has asked a model."""
    workspace = FakeWorkspace(tmp_path)
    replies = [
        completion("Let me think.", usage=(7, 3)),
        calling(call("bash", '{"command": "echo hi"}'), call("fly", "{", "c2"), text="Looking."),
        calling(call("write_file", '{"path": "run.sh", "content": "x"}'), call("submit", "{}", "c2")),
    ]
    with scripted(in_turn(*replies)) as (model, _):
        ReactAgent(model).solve(load_tasks("sample", "A").tasks[0], workspace)
    used = line("used", turns=3, prompt_tokens=27, completion_tokens=13, cost=0.5)
    return [*(line(kind, **facts) for kind, facts in workspace.steps), used, line("ended", why="submitted")]


def test_a_model_and_what_it_brought_about(of_react: list[dict[str, Any]]) -> None:
    found = to_atif(of_react, ABOUT)
    check(found)
    assert found["agent"] == {"name": "react:m", "version": "0.1.0", "model_name": "served-model"}
    assert [step["source"] for step in found["steps"]] == [
        "system",
        "user",
        "agent",
        "user",
        "agent",
        "agent",
        "system",
    ]
    acting = found["steps"][4]
    assert [one["function_name"] for one in acting["tool_calls"]] == ["bash", "fly"]
    assert acting["tool_calls"][0]["arguments"] == {"command": "echo hi"}
    assert [one["content"].split("\n")[0] for one in acting["observation"]["results"]] == [
        "[exit status 0]",
        'There is no tool "fly"; there are bash, read_file, write_file, submit.',
    ]
    assert found["steps"][2]["metrics"] == {"prompt_tokens": 7, "completion_tokens": 3}
    assert found["final_metrics"] == {
        "total_prompt_tokens": 27,
        "total_completion_tokens": 13,
        "total_cost_usd": 0.5,
        "total_steps": 7,
        "extra": {"turns": 3},
    }
    assert found["extra"] == {"network": "none"} and found["session_id"] == "tiny-gan/1/1"


def test_an_agent_without_a_model() -> None:
    lines = [
        line("write", path="run.sh", content="ls", status=0, bytes=2),
        line("command", command="bash run.sh", status=1, output="no", truncated=False, seconds=0.25),
        line("read", path="x", status=0, bytes=3),
    ]
    found = to_atif(lines, ABOUT)
    check(found)
    write, command, read = found["steps"]
    assert write["tool_calls"][0]["function_name"] == "write_file"
    assert write["tool_calls"][0]["arguments"] == {"path": "run.sh", "content": "ls"}
    assert command["observation"]["results"][0]["content"] == "no"
    assert command["observation"]["results"][0]["extra"] == {"status": 1, "truncated": False, "seconds": 0.25}
    assert command["timestamp"] == "2023-11-14T22:13:20.000+00:00"
    assert read["llm_call_count"] == 0


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [line("used")],
        [line("something", new=[1, {"x": None}])],
        [line("message", role="tool", call="c9", content="of nobody")],
        [line("message", role="assistant", content=None), line("message", role="tool", call="c", content="x")],
        [line("message")],
        [{"kind": "note", "text": "without a time"}],
    ],
)
def test_lines_of_any_kind_make_a_trajectory(lines: list[dict[str, Any]]) -> None:
    found = to_atif(lines, ABOUT)
    check(found)
    assert found["steps"]


def test_long_texts_are_bounded() -> None:
    found = to_atif([line("command", command="x" * 10**6, output="y" * 10**6)], ABOUT)
    assert len(json.dumps(found)) < 300_000


@pytest.mark.skipif("ML_BENCH_HARBOR" not in os.environ, reason="ML_BENCH_HARBOR names no unpacked `harbor` package")
def test_harbors_own_models_take_it(of_react: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    # Its models alone: the package as a whole wants a newer Python than this project does.
    folder = Path(os.environ["ML_BENCH_HARBOR"]) / "harbor"
    for name in ("harbor", "harbor.models", "harbor.models.trajectories"):
        place = folder.joinpath(*name.split(".")[1:])
        spec = importlib.util.spec_from_loader(name, loader=None, is_package=True)
        assert spec is not None
        package = importlib.util.module_from_spec(spec)
        package.__path__ = [str(place)]
        monkeypatch.setitem(sys.modules, name, package)
    trajectory = importlib.import_module("harbor.models.trajectories.trajectory").Trajectory
    for lines in (of_react, [], [line("command", command="ls", output="x")]):
        trajectory.model_validate(to_atif(lines, ABOUT))
