"""What stalls is reported, again and again but not all the time, and what ends is forgotten."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ml_bench_metric import evaluation
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.sandbox.protocol import Slot
from ml_bench_metric.watchdog import Watchdog
from ml_bench_metric.workers import Workers
from tests.fakes import DIGEST, FakeSandbox
from tests.result_builders import task


def test_what_takes_too_long_is_reported_at_doubling_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("ml_bench_metric.watchdog.time", SimpleNamespace(monotonic=lambda: clock.now))
    lines: list[str] = []
    dog = Watchdog(lines.append)
    with dog.watch("making a container for r/1", 20.0):
        for clock.now in (0.0, 19.0, 21.0, 30.0, 41.0, 43.0, 80.0, 87.0):
            dog.look()
        assert [line.split(" so far")[0] for line in lines] == [
            "making a container for r/1 takes 21 s",
            "making a container for r/1 takes 43 s",
            "making a container for r/1 takes 87 s",
        ]
    clock.now = 1000.0
    dog.look()
    assert len(lines) == 3


def test_an_engine_that_stalls_is_reported_while_the_run_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "_RUN_PATIENCE", -9.9)
    lines: list[str] = []
    slots = (Slot((0,)),)
    stalling = FakeSandbox(seconds=1.0)
    judged = Evaluation(
        stalling, Settings(extract="none"), lambda task: TaskImage(DIGEST), Workers(slots, ""), report=lines.append
    )
    assert len(list(judged.run([Candidate(task("r/1"), 0, "exit 0")]))) == 1
    assert lines and lines[0].startswith("executing a candidate of r/1 takes")
