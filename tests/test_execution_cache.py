"""The cache of executions: the same is never executed twice, and what differs in anything is."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings
from ml_bench_metric.execution_cache import FOLDER_VARIABLE, ExecutionCache, execution_key
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.execution import Execution, Output
from ml_bench_metric.sandbox.limits import Limits
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Job, Slot
from ml_bench_metric.workers import Workers
from tests.fakes import DIGEST, FakeSandbox, by_program
from tests.result_builders import task

JOB = Job(
    program="exit 0",
    language="bash",
    image=DIGEST,
    working_folder="/workspace/r",
    limits=Limits(),
    variables={"A": "1"},
)
OTHERS: list[dict[str, Any]] = [
    {"program": "exit 0 "},
    {"language": "python"},
    {"image": "sha256:" + "1" * 64},
    {"working_folder": "/workspace/r/x"},
    {"limits": Limits(seconds=9.0)},
    {"limits": Limits(cpus=2)},
    {"limits": Limits(gpus=1)},
    {"variables": {"A": "2"}},
    {"variables": {}},
    {"user": "0:0"},
    {"tmp_folder": "/opt/assets/tmp/r/1"},
]


@pytest.fixture
def cache(tmp_path: Path) -> ExecutionCache:
    return ExecutionCache(tmp_path / "cache")


def changed(job: Job, **fields: Any) -> Job:
    return Job(**{**job.__dict__, **fields})


@pytest.mark.parametrize("fields", OTHERS, ids=lambda fields: next(iter(fields)))
def test_whatever_decides_on_an_execution_is_in_its_key(fields: dict[str, Any]) -> None:
    assert execution_key(changed(JOB, **fields), "docker") != execution_key(JOB, "docker")


def test_kind_of_sandbox_and_repeat_are_in_the_key_and_the_order_of_variables_is_not() -> None:
    assert (
        len({execution_key(JOB, "docker"), execution_key(JOB, "process"), execution_key(JOB, "docker", repeat=1)}) == 3
    )
    one, other = ({"A": "1", "B": "2"}, {"B": "2", "A": "1"})
    assert execution_key(changed(JOB, variables=one), "x") == execution_key(changed(JOB, variables=other), "x")


def test_an_execution_comes_back_as_it_was(cache: ExecutionCache) -> None:
    execution = Execution(
        outcome="exited", status=3, stdout=Output(head="\ud800 \0 \U0001f40d", bytes=9), cpu_seconds=0.1
    )
    assert cache.get("ab" * 32) is None
    cache.put("ab" * 32, execution)
    assert cache.get("ab" * 32) == execution
    assert cache.get("ac" * 32) is None


def test_a_fault_of_the_sandbox_is_never_stored(cache: ExecutionCache) -> None:
    cache.put("ab" * 32, Execution(outcome="environment_error", reason="hiccup"))
    assert cache.get("ab" * 32) is None
    assert cache.size().executions == 0


def test_a_damaged_entry_is_not_there_and_is_replaced(cache: ExecutionCache) -> None:
    key = "ab" * 32
    cache.put(key, Execution(outcome="exited", status=1))
    (path,) = cache.folder.glob("*/*.json")
    for text in ("", path.read_text().replace('"status": 1', '"status": 0'), "{}", "\xff"):
        path.write_text(text, encoding="latin-1")
        assert cache.get(key) is None
    cache.put(key, Execution(outcome="exited", status=1))
    assert cache.get(key) == Execution(outcome="exited", status=1)


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = ExecutionCache(tmp_path / "file" / "cache")
    cache.put("ab" * 32, Execution(outcome="exited", status=1))
    assert cache.get("ab" * 32) is None


def test_clearing_removes_what_is_older_and_leaves_the_rest(cache: ExecutionCache) -> None:
    for key in ("ab" * 32, "cd" * 32):
        cache.put(key, Execution(outcome="exited", status=1))
    old = time.time() - 10 * 24 * 3600
    os.utime(cache.folder / "ab" / f"{'ab' * 32}.json", (old, old))
    assert cache.size().executions == 2
    assert cache.clear(older_than_days=5).executions == 1
    assert cache.get("ab" * 32) is None and cache.get("cd" * 32) is not None
    assert cache.clear().executions == 1
    assert not cache.folder.exists()


def test_the_users_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "mine"))
    assert ExecutionCache().folder == tmp_path / "mine"
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ExecutionCache().folder == tmp_path / "ml-bench" / "executions"


# ---------------------------------------------------------------- evaluations with a cache


def run(
    sandbox: FakeSandbox,
    candidates: list[Candidate],
    cache: ExecutionCache | None,
    *,
    image: TaskImage | None = None,
    seconds: float | None = None,
    slots: tuple[Slot, ...] = (Slot((0,)), Slot((1,))),
) -> list[Result]:
    settings = Settings(extract="none", seconds=seconds)
    chosen = image or TaskImage(DIGEST)
    evaluation = Evaluation(sandbox, settings, lambda task: chosen, Workers(slots, ""), cache=cache)
    return sorted(evaluation.run(candidates), key=lambda result: (result.task_id, result.candidate, result.repeat))


def answers(*texts: str, task_id: str = "r/1") -> list[Candidate]:
    return [Candidate(task(task_id), index, text) for index, text in enumerate(texts)]


def test_identical_candidates_of_a_run_execute_once_and_all_get_the_result(cache: ExecutionCache) -> None:
    sandbox = FakeSandbox(seconds=0.05)
    results = run(sandbox, answers(*["exit 3"] * 5, "exit 0"), cache)
    assert sorted(job.program for job in sandbox.run) == ["exit 0", "exit 3"]
    assert [result.execution.status for result in results if result.execution] == [3, 3, 3, 3, 3, 0]
    assert sorted(result.reused for result in results) == [False, False, True, True, True, True]
    assert sandbox.open == 0


class _SlowToMiss(ExecutionCache):
    """A cache that, but for the first time, needs long to find out that it does not have something."""

    asked = False

    def get(self, key: str) -> Execution | None:
        found, again, self.asked = super().get(key), self.asked, True
        if again and found is None:
            time.sleep(0.3)
        return found


def test_who_looks_into_the_cache_a_moment_too_early_does_not_execute_it_again(tmp_path: Path) -> None:
    sandbox = FakeSandbox(seconds=0.05)
    results = run(sandbox, answers("exit 3", "exit 3"), _SlowToMiss(tmp_path / "cache"))
    assert (len(results), len(sandbox.run)) == (2, 1)


def test_candidates_of_other_tasks_are_executed_for_their_own_task(cache: ExecutionCache) -> None:
    sandbox = FakeSandbox()
    # Their folders in the image may be equal, but what it has for their /tmp is their own.
    run(sandbox, answers("exit 0") + answers("exit 0", task_id="r/2"), cache)
    assert len(sandbox.run) == 2


def test_a_later_run_executes_only_what_is_new(cache: ExecutionCache) -> None:
    run(FakeSandbox(), answers("exit 0", "exit 1"), cache)
    sandbox = FakeSandbox()
    results = run(sandbox, answers("exit 0", "exit 1", "exit 2", "exit 3"), cache)
    assert sorted(job.program for job in sandbox.run) == ["exit 2", "exit 3"]
    assert [result.execution.status for result in results if result.execution] == [0, 1, 2, 3]
    assert [result.reused for result in results] == [True, True, False, False]


@pytest.mark.parametrize(
    "change", [{"image": TaskImage("sha256:" + "9" * 64)}, {"seconds": 3.0}, {"image": TaskImage(DIGEST, user="5:5")}]
)
def test_a_changed_image_limit_or_user_never_meets_an_old_execution(
    cache: ExecutionCache, change: dict[str, Any]
) -> None:
    run(FakeSandbox(), answers("exit 0"), cache)
    sandbox = FakeSandbox()
    (result,) = run(sandbox, answers("exit 0"), cache, **change)
    assert len(sandbox.run) == 1 and not result.reused


def test_without_a_cache_every_candidate_is_executed() -> None:
    sandbox = FakeSandbox()
    run(sandbox, answers(*["exit 3"] * 5), None)
    assert len(sandbox.run) == 5


def test_on_shared_cpus_nothing_is_reused_or_stored(cache: ExecutionCache) -> None:
    sandbox = FakeSandbox()
    run(sandbox, answers("exit 3", "exit 3"), cache, slots=(ANY_SLOT, ANY_SLOT))
    assert len(sandbox.run) == 2
    assert cache.size().executions == 0


def test_a_fault_of_the_sandbox_is_not_handed_to_those_that_waited(
    cache: ExecutionCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ml_bench_metric.evaluation._RETRY_SECONDS", 0.0)
    tries: list[str] = []

    def fail_twice(job: Job) -> Execution:
        tries.append(job.program)
        return Execution(outcome="environment_error", reason="hiccup") if len(tries) <= 2 else by_program(job)

    results = run(FakeSandbox(fail_twice, seconds=0.02), answers(*["exit 3"] * 4), cache)
    outcomes = sorted(result.execution.outcome for result in results if result.execution)
    assert outcomes == ["environment_error", "exited", "exited", "exited"]
    assert len(tries) == 3


def test_repeats_are_executed_and_never_reuse_each_other(cache: ExecutionCache) -> None:
    sandbox = FakeSandbox()
    candidates = [Candidate(task("r/1"), 0, "exit 0", repeat) for repeat in range(3)]
    assert [result.repeat for result in run(sandbox, candidates, cache)] == [0, 1, 2]
    assert len(sandbox.run) == 3
    again = FakeSandbox()
    assert all(result.reused for result in run(again, candidates, cache))
    assert again.run == []


def test_the_assets_of_the_image_are_those_of_now(cache: ExecutionCache) -> None:
    run(FakeSandbox(), answers("exit 0"), cache, image=TaskImage(DIGEST, assets="stand_in"))
    (result,) = run(FakeSandbox(), answers("exit 0"), cache, image=TaskImage(DIGEST, assets="stand_in"))
    assert result.reused and result.execution is not None and result.execution.assets == "stand_in"
