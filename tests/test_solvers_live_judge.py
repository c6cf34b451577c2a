"""Candidates that come one at a time are judged as those of a run are, and own the machine only while they run."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from ml_bench_metric import judge
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Stop
from ml_bench_metric.judge import Images
from ml_bench_metric.sandbox import docker_engine
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_solvers import live_judge
from ml_bench_solvers.live_judge import LiveJudge
from tests.fakes import DIGEST, FakeSandbox
from tests.result_builders import task, task_set

TASKS = task_set(task("dgl/1"), task("bert/2"))


class Place(FakeSandbox):
    """A fake with all that a real engine has besides, which counts how often it is connected to."""

    client = SimpleNamespace()
    connected = 0

    def connect(self) -> Place:
        self.connected += 1
        return self


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place()
    monkeypatch.setattr(live_judge, "DockerSandbox", found.connect)
    monkeypatch.setattr(docker_engine, "sweep", lambda client: None)
    images = Images({"dgl/1": TaskImage(digest=DIGEST)}, {"bert/2": "no image for bert"})
    monkeypatch.setattr(judge, "find_images", lambda *arguments: images)
    # The locks of CPUs are there: evaluations that really run on this machine must not be waited for.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return found


def test_a_candidate_has_the_result_that_it_would_have_in_a_run(place: Place) -> None:
    live = LiveJudge(TASKS, extract="none")
    result = live.execute("dgl/1", "exit 3", 4)
    assert (result.task_id, result.candidate) == ("dgl/1", 4)
    assert result.execution is not None
    assert (result.execution.outcome, result.execution.status) == ("exited", 3)
    assert place.open == 0


def test_a_task_without_an_image_has_an_environment_error(place: Place) -> None:
    execution = LiveJudge(TASKS, extract="none").execute("bert/2", "exit 0").execution
    assert execution is not None
    assert (execution.outcome, execution.reason) == ("environment_error", "no image for bert")


def test_an_engine_that_did_not_answer_is_asked_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveJudge(TASKS, extract="none")

    def refused() -> None:
        raise SandboxError("no engine answers")

    with monkeypatch.context() as patch:
        patch.setattr(live_judge, "DockerSandbox", refused)
        with pytest.raises(SandboxError, match="no engine answers"):
            live.execute("dgl/1", "exit 0")
    assert live.execute("dgl/1", "exit 0").execution is not None


def test_many_threads_share_one_sandbox_and_no_more_run_than_have_cpus(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ml_bench_metric.claims.LOOK_SECONDS", 0.01)
    place.seconds = 0.05
    live = LiveJudge(TASKS, extract="none")
    assert live.workers() == 2
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda status: live.execute("dgl/1", f"exit {status}"), range(12)))
    assert [one.execution.status for one in found if one.execution] == list(range(12))
    assert place.most_at_a_time == 2
    assert place.connected == 1


def test_who_asks_twice_ends_a_candidate_at_once(place: Place) -> None:
    place.seconds = 30
    stop, live = Stop(), LiveJudge(TASKS, extract="none")
    timer = threading.Timer(0.3, lambda: (stop.ask(), stop.ask()))
    timer.start()
    with pytest.raises(SandboxError, match="ended early"):
        live.execute("dgl/1", "exit 0", stop=stop)
    assert place.open == 0
