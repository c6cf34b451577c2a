"""A trajectory has every step in order, whatever the steps hold and whatever ends the process; and it stays bounded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ml_bench_metric.store import RunError
from ml_bench_solvers.agents import trajectory
from ml_bench_solvers.agents.budget import Used
from ml_bench_solvers.agents.trajectory import USED, Trajectory, read_steps, used_in


def written(path: Path, *steps: tuple[str, dict[str, object]]) -> list[dict[str, object]]:
    with Trajectory(path, clock=lambda: 12.3456) as opened:
        for kind, facts in steps:
            opened.add(kind, facts)
    return list(read_steps(path))


def test_steps_are_read_as_they_were_written(tmp_path: Path) -> None:
    facts: dict[str, object] = {"text": "é\u2028\ud800\0", "n": [1, 2.5, None, {"deep": True}]}
    assert written(tmp_path / "t", ("message", facts), ("command", {})) == [
        {**facts, "kind": "message", "at": 12.346},
        {"kind": "command", "at": 12.346},
    ]


def test_what_json_cannot_have_is_kept_as_text(tmp_path: Path) -> None:
    deep: dict[str, object] = {}
    for _ in range(2000):
        deep = {"in": deep}
    facts = {"nan": float("nan"), "bytes": b"x", "deep": deep, "set": {1}, "large": 16**5000}
    (step,) = written(tmp_path / "t", ("message", facts))
    assert (step["nan"], step["bytes"], step["set"]) == ("nan", "b'x'", "{1}")
    assert str(step["large"]).startswith("0x1000")
    assert 5 < json.dumps(step["deep"]).count("in") < 15


def test_no_fact_stands_in_for_what_the_trajectory_says_itself(tmp_path: Path) -> None:
    (step,) = written(tmp_path / "t", ("message", {"kind": "ended", "at": 0, "checksum": "no"}))
    assert (step["kind"], step["at"]) == ("message", 12.346)


def test_long_texts_keep_their_beginning_and_end(tmp_path: Path) -> None:
    (step,) = written(tmp_path / "t", ("command", {"output": "a" + "x" * 10**6 + "z"}))
    output = str(step["output"])
    assert len(output) < trajectory.TEXT_CHARACTERS + 100
    assert output[0] == "a" and output[-1] == "z" and "characters left out" in output


def test_a_trajectory_that_is_full_still_tells_what_was_used_and_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectory, "MAX_BYTES", 200)
    long: dict[str, object] = {"output": "x" * 100}
    steps = written(
        tmp_path / "t",
        *[("command", long)] * 10,
        (USED, Used(turns=1).model_dump()),
        ("ended", {"why": "done"}),
    )
    assert [step["kind"] for step in steps] == ["command", "command", USED, "ended"]
    assert steps[-1]["left_out"] == 8


def test_a_line_that_was_cut_off_is_no_step_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t"
    written(path, ("one", {}), ("two", {}))
    path.write_bytes(path.read_bytes()[:-5])
    assert [step["kind"] for step in read_steps(path)] == ["one"]
    assert [step["kind"] for step in written(path, ("three", {}))] == ["one", "three"]


def test_a_step_that_was_changed_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t"
    written(path, ("one", {}), (USED, Used(cost=5.0).model_dump()))
    path.write_text(path.read_text().replace("5.0", "0.0"))
    with pytest.raises(RunError, match=r"t:2: no whole step"):
        list(read_steps(path))


def test_what_was_used_is_counted_from_the_steps(tmp_path: Path) -> None:
    path = tmp_path / "t"
    written(path, (USED, Used(turns=1, cost=0.5).model_dump()), ("x", {}), (USED, Used(turns=2, cost=1.0).model_dump()))
    assert used_in(path) == Used(turns=3, cost=1.5)
    assert used_in(tmp_path / "nothing") == Used()


def test_every_line_is_json_of_its_own(tmp_path: Path) -> None:
    written(tmp_path / "t", ("message", {"text": "a\nb\r\n\u2028"}), ("x", {}))
    assert len([json.loads(line) for line in (tmp_path / "t").read_bytes().splitlines()]) == 2
