"""Every candidate gets its result, whatever the order, the number of workers, and whatever fails on the way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ml_bench_metric import evaluation as module
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Evaluation, Settings, Stop, candidates
from ml_bench_metric.predictions import Prediction, Predictions
from ml_bench_metric.results import Result
from ml_bench_metric.sandbox.execution import Assets, Execution
from ml_bench_metric.sandbox.protocol import ANY_SLOT, Job, SandboxError, Slot, do_nothing
from ml_bench_metric.tasks import Task
from ml_bench_metric.workers import Workers
from tests.fakes import DIGEST, FakePrepared, FakeSandbox, by_program
from tests.result_builders import task, task_set

PLAIN = Settings(extract="none")
IMAGE = TaskImage(DIGEST)


@pytest.fixture(autouse=True)
def _no_pause_before_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)


def _todo(texts: Iterable[str]) -> list[Candidate]:
    return [Candidate(task(f"repo/{number}"), 0, text) for number, text in enumerate(texts)]


def _evaluation(sandbox: FakeSandbox, workers: int = 2, stop: Stop | None = None) -> Evaluation:
    slots = tuple(Slot((number,)) for number in range(workers))
    return Evaluation(sandbox, PLAIN, lambda task: IMAGE, Workers(slots, ""), stop=stop)


def _facts(results: Iterable[Result]) -> dict[tuple[str, int], object]:
    return {
        (r.task_id, r.candidate): r.execution and (r.execution.outcome, r.execution.status, r.execution.stdout.head)
        for r in results
    }


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["exit 0", "exit 3", "hang", "train"]), max_size=12),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_results_do_not_depend_on_order_or_workers(texts: list[str], workers: int, random: object) -> None:
    todo = _todo(texts)
    shuffled = sorted(todo, key=lambda _: random.random())  # type: ignore[attr-defined]
    sandbox = FakeSandbox()
    assert _facts(_evaluation(sandbox, workers).run(shuffled)) == _facts(_evaluation(FakeSandbox(), 1).run(todo))
    assert sandbox.open == 0


def test_every_worker_runs_at_the_same_time_on_its_own_cpus() -> None:
    sandbox = FakeSandbox(seconds=0.05)
    list(_evaluation(sandbox, 3).run(_todo(["train"] * 9)))
    assert sandbox.most_at_a_time == 3
    assert set(sandbox.slots) == {Slot((0,)), Slot((1,)), Slot((2,))}


class _GpuGuard(FakeSandbox):
    """Notices when two candidates run on one GPU, or on one CPU; takes a while to say how one has ended."""

    def __init__(self, behave: Callable[[Job], Execution] = by_program) -> None:
        super().__init__(behave)
        self.clashes: list[str] = []
        self.asked_meanwhile = 0
        """Number of candidates that ran while it was still found out about another one's end on their slot."""
        self._busy: set[str] = set()
        self._ending: set[str] = set()

    def prepare(self, job: Job, slot: Slot = ANY_SLOT) -> FakePrepared:
        prepared = super().prepare(job, slot)
        run = prepared.run
        owned = {*map(str, slot.cpus), *slot.gpus}

        def guarded(freed: Callable[[], None] = do_nothing) -> Execution:
            with self._lock:
                self.clashes += [f"{one} for {job.program}" for one in owned & self._busy]
                self.asked_meanwhile += bool(owned & self._ending)
                self._busy |= owned
            time.sleep(0.005)
            with self._lock:
                self._busy -= owned
                self._ending |= owned
            freed()
            time.sleep(0.02)
            with self._lock:
                self._ending -= owned
            return run()

        prepared.run = guarded  # type: ignore[method-assign]
        return prepared


_THREE = Workers(tuple(Slot((number,), (f"GPU-{2 * number}", f"GPU-{2 * number + 1}")) for number in range(3)), "")


def test_a_gpu_belongs_to_one_running_candidate_at_a_time() -> None:
    sandbox = _GpuGuard()
    results = list(Evaluation(sandbox, PLAIN, lambda task: IMAGE, _THREE).run(_todo(["exit 0"] * 30)))
    assert (len(results), sandbox.clashes) == (30, [])
    assert {gpu for slot in sandbox.slots for gpu in slot.gpus} == {f"GPU-{number}" for number in range(6)}


def test_the_next_candidate_runs_while_it_is_found_out_how_the_last_one_ended() -> None:
    sandbox = _GpuGuard()
    results = list(Evaluation(sandbox, PLAIN, lambda task: IMAGE, _THREE).run(_todo(["exit 0"] * 30)))
    assert (len(results), sandbox.open, sandbox.clashes) == (30, 0, [])
    assert sandbox.asked_meanwhile > 0


def test_a_candidate_that_runs_again_waits_for_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ml_bench_metric.evaluation._RETRY_SECONDS", 0.0)
    tries: list[str] = []

    def fail_once(job: Job) -> Execution:
        tries.append(job.program)
        if tries.count(job.program) == 1:
            return Execution(outcome="environment_error", reason="hiccup")
        return by_program(job)

    sandbox = _GpuGuard(fail_once)
    programs = [f"exit {number}" for number in range(30)]
    results = list(Evaluation(sandbox, PLAIN, lambda task: IMAGE, _THREE).run(_todo(programs)))
    statuses = sorted(result.execution.status for result in results if result.execution and result.execution.status)
    assert (statuses, len(tries), sandbox.open, sandbox.clashes) == (list(range(1, 30)), 60, 0, [])


def test_an_answer_without_a_program_is_a_result_and_never_reaches_the_sandbox() -> None:
    sandbox = FakeSandbox()
    evaluation = Evaluation(sandbox, Settings(extract="auto"), lambda task: IMAGE, Workers((Slot((0,)),), ""))
    (result,) = evaluation.run([Candidate(task("repo/1"), 0, "I am sorry, but I cannot help with that.")])
    assert result.program is None and result.execution is None
    assert sandbox.prepared == []


def test_a_passing_fault_of_the_sandbox_costs_no_verdict() -> None:
    tries: list[str] = []

    def fail_once(job: Job) -> Execution:
        tries.append(job.program)
        if tries.count(job.program) == 1:
            return Execution(outcome="environment_error", reason="hiccup")
        return by_program(job)

    results = list(_evaluation(FakeSandbox(fail_once)).run(_todo(["exit 0", "exit 5"])))
    assert sorted(r.execution.status for r in results if r.execution and r.execution.status is not None) == [0, 5]


def test_a_lasting_fault_of_the_sandbox_is_an_environment_error_with_its_reason() -> None:
    sandbox = FakeSandbox()
    sandbox.refuse = lambda job: job.program == "exit 5"
    results = {r.task_id: r.execution for r in _evaluation(sandbox).run(_todo(["exit 0", "exit 5", "exit 1"]))}
    failed = results["repo/1"]
    assert failed is not None and failed.outcome == "environment_error"
    assert failed.reason == "no container could be made"
    others = [execution for task_id, execution in results.items() if task_id != "repo/1"]
    assert [execution.outcome for execution in others if execution] == ["exited", "exited"]


def test_a_task_without_an_image_concerns_no_other_task() -> None:
    def image_of(task: Task) -> TaskImage:
        if task.task_id == "repo/0":
            raise SandboxError("no image for repo")
        return IMAGE

    evaluation = Evaluation(FakeSandbox(), PLAIN, image_of, Workers((Slot((0,)),), ""))
    outcomes = {r.task_id: r.execution.outcome for r in evaluation.run(_todo(["exit 0", "exit 0"])) if r.execution}
    assert outcomes == {"repo/0": "environment_error", "repo/1": "exited"}


def test_a_missing_image_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 60.0)
    asked: list[str] = []

    def image_of(task: Task) -> TaskImage:
        asked.append(task.task_id)
        raise SandboxError("no image for repo")

    sandbox = FakeSandbox()
    results = list(Evaluation(sandbox, PLAIN, image_of, Workers((Slot((0,)),), "")).run(_todo(["exit 0"] * 3)))
    assert [r.execution and r.execution.reason for r in results] == ["no image for repo"] * 3
    assert asked == ["repo/0", "repo/1", "repo/2"]


def test_an_engine_that_is_gone_ends_the_run_instead_of_failing_what_is_left() -> None:
    sandbox = FakeSandbox()

    def die(job: Job) -> Execution:
        sandbox.answers = False
        return Execution(outcome="environment_error", reason="connection refused")

    sandbox.behave = die
    with pytest.raises(SandboxError, match="does not answer"):
        list(_evaluation(sandbox).run(_todo(["exit 0"] * 50)))
    assert len(sandbox.run) <= 4
    assert sandbox.open == 0


def test_asking_once_lets_what_runs_come_to_its_end() -> None:
    stop, sandbox = Stop(), FakeSandbox(seconds=0.1)
    results = []
    for result in _evaluation(sandbox, 2, stop).run(_todo(["exit 0"] * 20)):
        results.append(result)
        if len(results) == 2:
            assert stop.ask() == "finish"
    assert 2 <= len(results) <= 6
    assert all(r.execution and r.execution.outcome == "exited" for r in results)
    assert sandbox.open == 0


def test_asking_twice_ends_what_runs_and_records_nothing_of_it() -> None:
    stop, sandbox = Stop(), FakeSandbox(seconds=30)
    threading.Timer(0.2, lambda: (stop.ask(), stop.ask())).start()
    began = time.monotonic()
    assert list(_evaluation(sandbox, 2, stop).run(_todo(["exit 0"] * 20))) == []
    assert time.monotonic() - began < 5
    assert sandbox.open == 0


def test_a_reader_that_goes_away_leaves_no_sandbox() -> None:
    sandbox = FakeSandbox(seconds=0.05)
    iterator = _evaluation(sandbox, 2).run(_todo(["exit 0"] * 20))
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    assert sandbox.open == 0
    assert len(sandbox.run) < 20


def test_a_fault_in_a_worker_reaches_the_reader() -> None:
    def fail(job: Job) -> Execution:
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours"):
        list(_evaluation(FakeSandbox(fail)).run(_todo(["exit 0"] * 3)))


def test_candidates_come_in_the_order_of_the_tasks_with_their_positions() -> None:
    tasks = task_set("repo/1", "repo/2", "repo/3")
    predictions = Predictions(
        items={
            name: Prediction(task_id=name, candidates=texts, where="")
            for name, texts in {"repo/3": ("c",), "repo/1": ("a", "b")}.items()
        },
        problems=[],
    )
    found = [(c.task.task_id, c.index, c.text) for c in candidates(predictions, tasks)]
    assert found == [("repo/1", 0, "a"), ("repo/1", 1, "b"), ("repo/3", 0, "c")]


@pytest.mark.parametrize(
    ("github_id", "kind", "seconds"),
    [(1, "Bash Script", 10), (5, "Python Code", 4), (11, "Python Code", 7), (11, "Bash Script", 10)],
)
def test_the_default_time_limit_is_the_original_judges(github_id: int, kind: str, seconds: float) -> None:
    one = task("repo/1").model_copy(update={"github_id": github_id, "type": kind})
    assert Settings().limits_for(one).seconds == seconds
    assert Settings(seconds=3).limits_for(one).seconds == 3


# ---------------------------------------------------------------- the image


def test_a_candidate_runs_as_its_image_says() -> None:
    image = TaskImage(DIGEST, root="/home/lab/repos", variables={"PATH": "/env/bin:/bin", "A": "image"}, user="7:8")
    sandbox = FakeSandbox()
    given = task("repo/1").model_copy(update={"path": "./scripts/", "prefix_code": "export A=task\nexport B=task"})
    list(
        Evaluation(sandbox, PLAIN, lambda task: image, Workers((Slot((0,)),), "")).run([Candidate(given, 0, "exit 0")])
    )
    (job,) = sandbox.run
    assert (job.image, job.user) == (DIGEST, "7:8")
    assert job.working_folder == "/home/lab/repos/repo/scripts"
    assert job.tmp_folder == "/opt/assets/tmp/repo/1"
    assert job.variables == {"PATH": "/env/bin:/bin", "A": "task", "B": "task"}


def test_an_image_of_ours_has_the_repositories_where_tasks_say() -> None:
    sandbox = FakeSandbox()
    list(_evaluation(sandbox).run(_todo(["exit 0"])))
    assert (sandbox.run[0].working_folder, sandbox.run[0].user) == ("/workspace/repo", "1000:1000")
    assert sandbox.run[0].variables == {}


@pytest.mark.parametrize("assets", get_args(Assets))
def test_an_execution_says_which_assets_its_image_has(assets: Assets) -> None:
    image = TaskImage(DIGEST, assets)
    for text in ("exit 0", "exit 3", "hang"):
        evaluation = Evaluation(FakeSandbox(), PLAIN, lambda task: image, Workers((Slot((0,)),), ""))
        (result,) = evaluation.run(_todo([text]))
        assert result.execution is not None
        assert result.execution.assets == assets
