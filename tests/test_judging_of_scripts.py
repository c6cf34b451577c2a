"""Tasks of split A through the judge: what is executed of a `run.sh`, what is stored of it, and what that means."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ml_bench_metric import evaluation as module
from ml_bench_metric import judge
from ml_bench_metric.causes import find
from ml_bench_metric.environments.images import TaskImage
from ml_bench_metric.evaluation import Candidate, Settings, candidates
from ml_bench_metric.execution_cache import ExecutionCache, execution_key
from ml_bench_metric.judge import Images, Judgement, identity, reference_checks, references
from ml_bench_metric.predictions import Predictions, read_predictions
from ml_bench_metric.rejudging import rejudge, told_by
from ml_bench_metric.results import RULES, Program, Result, candidate_sha256, text_sha256
from ml_bench_metric.sandbox.execution import Execution, Output
from ml_bench_metric.sandbox.protocol import Capacity, Job, SandboxError, Slot
from ml_bench_metric.static import static_report
from ml_bench_metric.store import RunFolder
from ml_bench_metric.summary import summarise
from ml_bench_metric.tasks import TaskSet
from ml_bench_metric.verdicts import verdict
from ml_bench_metric.workers import Workers
from tests.fakes import DIGEST, FakeSandbox
from tests.overlay_builders import member, overlay
from tests.result_builders import BAD, ERROR, execution, result, task, task_set
from tests.test_report_explanation import printed

ARGUMENTS = "{'lr': 0.001}"
TASKS: TaskSet = replace(
    task_set(
        task("r/1").model_copy(update={"arguments": ARGUMENTS, "output": "python train.py --lr 0.001"}),
        task("r/2", "Python Code").model_copy(update={"arguments": ARGUMENTS, "output": "fit(lr=0.001)"}),
    ),
    split="A",
)
SLOTS = Workers((Slot((0,)), Slot((1,))), "")
IMAGES = Images(dict.fromkeys(("r/1", "r/2"), TaskImage(DIGEST)), {})


@pytest.fixture(autouse=True)
def _no_pause_before_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)


def judged(
    found: Predictions, sandbox: FakeSandbox, folder: RunFolder | None = None, cache: ExecutionCache | None = None
) -> dict[tuple[str, int], Result]:
    judgement = Judgement(found, TASKS, Settings(), folder, cache=cache)
    for _ in judgement.execute(judgement.todo(), sandbox, IMAGES, SLOTS):
        pass
    return {(one.task_id, one.candidate): one for one in judgement.results()}


def read(*texts: object, task_id: str = "r/1") -> Predictions:
    return read_predictions([{"task_id": task_id, "output": list(texts)}], TASKS)


def passed(one: Result) -> list[bool | None]:
    return [verdict(one, rule).passed for rule in RULES]


# ---------------------------------------------------------------- what is executed


def test_the_text_is_run_as_bash_for_two_minutes_whatever_the_task_asks_for() -> None:
    sandbox = FakeSandbox()
    text = "```bash\npython t.py --lr 0.001\n```\r\n"
    found = judged(read(text, task_id="r/2"), sandbox)["r/2", 0]
    (job,) = sandbox.run
    assert (job.program, job.language, job.form, job.limits.seconds, job.overlay) == (text, "bash", "run.sh", 120, None)
    assert (found.form, found.extraction, found.limit_seconds) == ("run.sh", "run.sh", 120)
    assert Settings(seconds=5).limits_for(TASKS.tasks[0], "run.sh").seconds == 5


@pytest.mark.parametrize("text", ["", " \n\t\r\n"])
def test_an_empty_script_fails_and_is_not_run(text: str) -> None:
    sandbox = FakeSandbox()
    found = judged(read(text), sandbox)["r/1", 0]
    assert (passed(found), sandbox.run) == ([False, False], [])
    assert {finding.cause for finding in find(found).values()} == {"refusal_or_empty"}


def test_split_l_is_judged_as_answers_in_lines_without_a_word_of_scripts() -> None:
    tasks = replace(TASKS, split="L")
    found = read_predictions([{"task_id": "r/1", "output": "python train.py --lr 0.001"}], tasks)
    assert found.form == "answer"
    sandbox = FakeSandbox()
    judgement = Judgement(found, tasks, Settings())
    (one,) = judgement.execute(judgement.todo(), sandbox, IMAGES, SLOTS)
    assert (sandbox.run[0].form, sandbox.run[0].limits.seconds) == ("answer", 10)
    assert not {"form", "scripts", "commands"} & {*json.loads(one.to_json()), *json.loads(one.to_json())["execution"]}
    assert "form" not in identity(Settings(), tasks, IMAGES, found.form)


def test_keys_of_answers_are_what_they_were_and_an_overlay_makes_another(tmp_path: Path) -> None:
    job = module.job_of("true", TASKS.tasks[0], TaskImage(DIGEST), Settings())
    one, other = (overlay(tmp_path / name, [member("workspace/r/f", name)]) for name in ("one", "other"))
    keys = {
        execution_key(job, "docker"),
        execution_key(replace(job, form="run.sh"), "docker"),
        execution_key(replace(job, overlay=one), "docker"),
        execution_key(replace(job, overlay=other), "docker"),
        execution_key(replace(job, overlay=overlay(tmp_path / "one", [member("workspace/r/f", "one")], ["/x"])), "d"),
    }
    assert len(keys) == 5
    plain = Job("exit 0", "bash", DIGEST, "/workspace/r", job.limits.model_copy(update={"seconds": 10}))
    # As it was computed before there were overlays: what is stored under it stays known.
    assert execution_key(plain, "docker") == _KEY_OF_EARLIER_VERSIONS


_KEY_OF_EARLIER_VERSIONS = "0d7f7e22a40fb4f4db06bd643fc89ec301631554b4a33c2687f2c044d5c291f4"


# ---------------------------------------------------------------- folders


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    folder = tmp_path / "answer"
    folder.mkdir()
    (folder / "run.sh").write_text("python mine.py")
    (folder / "mine.py").write_text("fit(lr=0.001)")
    return folder


def test_a_folder_beside_the_predictions_is_a_candidate_with_its_scripts(answer: Path, tmp_path: Path) -> None:
    path = tmp_path / "predictions.jsonl"
    path.write_text(json.dumps({"task_id": "r/1", "output": [{"folder": "answer"}, "python mine.py"]}))
    sandbox = FakeSandbox()
    found = judged(read_predictions(path, TASKS), sandbox)
    with_folder, without = found["r/1", 0], found["r/1", 1]
    assert (passed(with_folder), passed(without)) == ([True, True], [True, False])
    assert with_folder.scripts == {"/workspace/r/mine.py": Program.of("fit(lr=0.001)")}
    assert with_folder.program == without.program
    assert without.candidate_sha256 == text_sha256("python mine.py") != with_folder.candidate_sha256
    assert sorted(job.overlay is None for job in sandbox.run) == [False, True]


@pytest.mark.parametrize("as_python", [lambda path: path, lambda path: {"folder": str(path)}, lambda p: {"folder": p}])
def test_from_python_a_path_or_a_dict_is_one(as_python: object, answer: Path) -> None:
    found = read(as_python(answer))  # type: ignore[operator]
    assert found.problems == [] and found.items["r/1"].candidates == ("python mine.py",)
    single = read_predictions([{"task_id": "r/1", "output": as_python(answer)}], TASKS)  # type: ignore[operator]
    if as_python(answer) != answer:  # type: ignore[operator]
        assert single.items == {"r/1": replace(found.items["r/1"], where="predictions[0]")}


def test_a_folder_that_is_none_keeps_its_place_and_is_told_with_line_field_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    path = tmp_path / "predictions.jsonl"
    path.write_text(json.dumps({"task_id": "r/1", "output": [{"folder": "empty"}, "true", {"file": "x"}]}))
    found = read_predictions(path, TASKS)
    assert found.items["r/1"].candidates == ("", "true", "")
    assert [(problem.where, problem.kind) for problem in found.problems] == [
        ("predictions.jsonl:1", "bad_folder"),
        ("predictions.jsonl:1", "not_text"),
    ]
    said = found.problems[0].message
    assert "candidate 0" in said and '"folder"' in said and "has no run.sh at its top" in said


def test_for_split_l_a_folder_is_no_answer(answer: Path) -> None:
    tasks = replace(TASKS, split="L")
    found = read_predictions([{"task_id": "r/1", "output": [answer, {"folder": str(answer)}]}], tasks)
    assert found.items["r/1"].candidates == ("", "")
    assert all("split A" in problem.message for problem in found.problems)


def test_candidates_with_other_overlays_are_others_and_equal_ones_run_once(answer: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.sh").write_text("python mine.py")
    (other / "mine.py").write_text("fit(lr=0.002)")
    sandbox = FakeSandbox()
    found = judged(read(answer, other, answer), sandbox, cache=ExecutionCache(tmp_path / "cache"))
    assert len({one.candidate_sha256 for one in found.values()}) == 2
    assert len(sandbox.run) == 2
    assert [passed(found["r/1", number]) for number in range(3)] == [[True, True], [True, False], [True, True]]


def test_a_stored_result_counts_for_the_same_folder_only(answer: Path, tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", {}, {}) as folder:
        judged(read(answer), FakeSandbox(), folder)
        assert Judgement(read(answer), TASKS, Settings(), folder).todo() == []
        (answer / "mine.py").write_text("fit(lr=0.002)")
        assert len(Judgement(read(answer), TASKS, Settings(), folder).todo()) == 1


def test_what_tells_candidates_apart_is_defined() -> None:
    assert candidate_sha256("true", None) == text_sha256("true")
    assert Candidate(TASKS.tasks[0], 0, "true").sha256 == text_sha256("true")


# ---------------------------------------------------------------- what it means


def _script(ran: Execution | None = None, **more: object) -> Result:
    return result(execution=ran or execution(), form="run.sh", **more)  # type: ignore[arg-type]


def test_commands_of_the_execution_decide_under_the_strict_rule_alone() -> None:
    seen = Execution(outcome="exited", status=0, image=DIGEST, commands=("python train.py --lr 0.001",))
    found = judged(read("python train.py $X"), FakeSandbox(behave=lambda job: seen))["r/1", 0]
    assert passed(found) == [True, True]
    plain = judged(read("python train.py $X"), FakeSandbox())["r/1", 0]
    assert (passed(plain), plain.checks["strict"].missing) == ([True, False], ("lr=0.001",))


@pytest.mark.parametrize("text", ["sleep 200 # lr=0.001", "sleep 200 0.001"])
def test_a_sleeper_passes_under_the_original_rule_only(text: str) -> None:
    still = Execution(outcome="still_running", cpu_seconds=0.1, image=DIGEST)
    assert passed(judged(read(text), FakeSandbox(behave=lambda job: still))["r/1", 0]) == [True, False]


def test_what_never_ran_may_still_use_its_arguments() -> None:
    assert passed(_script(ERROR, strict=BAD)) == [None, None]
    assert passed(result(execution=ERROR, strict=BAD)) == [None, False]


def test_a_script_is_never_in_the_wrong_language() -> None:
    python = "import torch\nprint(torch.ones(3))"
    said = Execution(outcome="exited", status=127, stderr=Output(head="run.sh: line 1: import: command not found\n"))
    answered = find(result(text=python, execution=said))
    assert {finding.cause for finding in answered.values()} == {"wrong_language"}
    assert {finding.cause for finding in find(_script(said, text=python)).values()} == {"missing_file"}


def test_markdown_that_a_script_writes_is_no_syntax_error() -> None:
    said = Execution(outcome="exited", status=1, stderr=Output(head="ModuleNotFoundError: No module named 'x'\n"))
    program = "cat > README.md <<'E'\n```\ncode\n```\nE\npython train.py"
    assert {finding.cause for finding in find(_script(said, text=program)).values()} != {"syntax_error"}
    fenced = _script(said, text="```bash\npython train.py\n```")
    assert {finding.cause for finding in find(fenced).values()} == {"syntax_error"}


def test_everything_that_explains_it_is_shown_and_harmless() -> None:
    one = _script(execution(commands=("python t.py \x1b[2J",)), scripts={"/workspace/r/m.py": Program.of("fit()\x07")})
    text = printed(one)
    for part in ("run.sh for a task of type Bash Script", "python t.py \\x1b[2J", "/workspace/r/m.py", "fit()\\x07"):
        assert part in text
    assert "type ok" not in text


# ---------------------------------------------------------------- records, references, numbers


def test_a_line_of_a_version_that_knew_no_scripts_is_an_answer() -> None:
    line = json.loads(result().to_json())
    assert Result.from_json(json.dumps(line)).form == "answer"
    script = _script(execution(commands=("a",)), scripts={"/x.py": Program.of("y")})
    assert Result.from_json(script.to_json()) == script


def test_references_are_scripts_and_reach_all_that_the_original_rule_checks() -> None:
    found = references(TASKS)
    assert found.form == "run.sh"
    checks = reference_checks(TASKS, "auto", "run.sh")
    assert all(of_task["original"].both and of_task["strict"].both for of_task in checks.values())
    results = judged(found, FakeSandbox())
    assert [passed(one) for one in results.values()] == [[True, True]] * 2
    bare = [one.model_copy(update={"output": "exit 0"}) for one in TASKS.tasks]
    ceiling = summarise(
        (),
        replace(TASKS, tasks=tuple(bare)),
        {},
        reference_checks=reference_checks(replace(TASKS, tasks=tuple(bare)), "auto", "run.sh"),
    ).ceiling
    assert ceiling is not None and (ceiling["original"].share, ceiling["strict"].share) == (1.0, 0.0)


def test_answers_of_an_earlier_version_are_not_taken_for_scripts(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run", {}, {}) as folder:
        folder.append(result("r/1", text="python train.py --lr 0.001"))
        found = read("python train.py --lr 0.001")
        assert list(Judgement(found, TASKS, Settings(), folder).results()) == []


def test_a_run_is_judged_anew_from_what_it_stored(tmp_path: Path, answer: Path) -> None:
    seen = Execution(outcome="exited", status=0, image=DIGEST, commands=("python train.py --lr 0.001",))
    found = read(answer, "python train.py", "true")
    who = identity(Settings(), TASKS, IMAGES, found.form)
    capacity = Capacity((0,), 1, "fake")
    about = judge.about(["x"], capacity, SLOTS, TASKS, found, 1)
    sandbox = FakeSandbox(behave=lambda job: seen if job.program == "python train.py" else execution(image=DIGEST))
    with RunFolder(tmp_path / "run", who, about) as folder:
        judged(found, sandbox, folder)
    told = told_by(tmp_path / "run")
    assert told.form == "run.sh"
    again = rejudge(tmp_path / "run", told, TASKS, ks=[1], rule="strict", estimator="unbiased")
    assert (again.changed, again.kept) == (0, 0)
    assert {rule: score.passed for rule, score in again.summary.overall.scores.items()} == {"original": 3, "strict": 2}


def test_the_static_report_counts_what_the_text_and_its_scripts_use(answer: Path) -> None:
    report = static_report(read(answer, "true", "", "python t.py --lr 1e-3"), TASKS, "auto")
    assert (report.candidates, report.programs) == (4, 3)
    assert report.rules["original"].both == 3
    assert (report.rules["strict"].arguments, report.rules["strict"].both) == (2, 2)


def test_an_overlay_that_cannot_be_applied_is_an_environment_error(answer: Path) -> None:
    def refuse(job: Job) -> bool:
        return job.overlay is not None

    sandbox = FakeSandbox()
    sandbox.refuse = refuse
    found = judged(read(answer, "true"), sandbox)
    assert found["r/1", 0].execution is not None and found["r/1", 0].execution.outcome == "environment_error"
    assert passed(found["r/1", 1])[0] is True
    with pytest.raises(SandboxError):
        sandbox.prepare(replace(sandbox.prepared[0], overlay=next(candidates(read(answer), TASKS)).overlay))
