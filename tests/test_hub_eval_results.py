"""A number goes out with all that it takes to read it, and none goes out that is not the benchmark's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import ml_bench_dataset
from ml_bench_dataset import UPSTREAM
from ml_bench_hub.errors import HubError
from ml_bench_hub.eval_results import RESULTS_PATH, entries_to_yaml, push_entries, read_entries
from ml_bench_metric.checks import Rule
from ml_bench_metric.pass_at_k import Estimator
from ml_bench_metric.results import Result
from ml_bench_metric.store import SUMMARY_FILE, RunError, RunFolder
from ml_bench_metric.summary import ExecutedCeiling, Summary, summarise
from ml_bench_metric.tasks import TaskSet
from tests.fakehub import READER, WRITER, FakeHub
from tests.hub_process import ClientProcess, client_process, empty_hub
from tests.result_builders import ERROR, FAILING, PASSING, execution, result, task

NAMES = tuple(f"repo/{number}" for number in range(260))
SETTINGS: dict[str, Any] = {"extract": "auto", "seconds": None, "limits": {}}


PUBLISHED = ml_bench_dataset.KNOWN_DIGESTS["full"]


def tasks(count: int = 260, *, digest: str = PUBLISHED, origin: str = f"{UPSTREAM}@{'a' * 40}") -> TaskSet:
    return TaskSet(tuple(task(name) for name in NAMES[:count]), "L", origin, digest)


def half_passing(n: int = 5) -> list[Result]:
    """Of each second task all candidates pass, of the others none."""
    return [
        result(name, candidate, PASSING if number % 2 else FAILING)
        for number, name in enumerate(NAMES)
        for candidate in range(n)
    ]


def make_run(
    folder: Path,
    results: list[Result],
    *,
    over: TaskSet | None = None,
    expected: Mapping[str, int] | None = None,
    ks: tuple[int, ...] = (1, 2, 5),
    rule: Rule = "original",
    estimator: Estimator = "unbiased",
    **about: Any,
) -> Path:
    facts = {"command": ["ml-bench", "evaluate"], "started": "2026-11-30T01:02:03+00:00", **about}
    settings = {**SETTINGS, **about.pop("settings", {})}
    facts.pop("settings", None)
    with RunFolder(folder, {"harness": "0.1.0", "settings": settings}, facts) as opened:
        given = dict.fromkeys(NAMES, 5) if expected is None else dict(expected)
        opened.write_summary(summarise(results, over or tasks(), given, ks=ks, rule=rule, estimator=estimator))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("run"), half_passing())


def edited(run: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of the run whose `run.json` was changed."""
    for path in run.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((run / "run.json").read_text())
    change(content)
    (tmp_path / "run.json").write_text(json.dumps(content))
    return tmp_path


# ---------------------------------------------------------------- what goes out


def test_one_entry_for_each_k_with_what_it_takes_to_read_it(run: Path) -> None:
    entries = read_entries(run)
    assert [entry.task_id for entry in entries] == [f"ml_bench_l_original_pass_{k}" for k in (1, 2, 5)]
    first = entries[0]
    assert (first.dataset_id, first.dataset_revision) == (UPSTREAM, "a" * 40)
    assert (first.value, first.date, first.source_url) == (50.0, "2026-11-30", None)
    assert first.notes is not None and first.notes.split("; ")[:5] == [
        "pass@1 in percent",
        "rule original",
        "unbiased estimator",
        "split L, 260 tasks",
        "n = 1300 candidates judged",
    ]
    for part in ("time limits of the original judge", "extraction auto", "ml-bench 0.1.0", "95 % interval over tasks"):
        assert part in first.notes
    assert "environment errors" not in first.notes and "for lack of a prediction" not in first.notes


def test_the_text_is_the_form_that_huggingface_hub_reads(run: Path) -> None:
    from huggingface_hub import parse_eval_result_entries

    entries = read_entries(run, source_url="https://example.org/run")
    text = entries_to_yaml(entries)
    assert parse_eval_result_entries(yaml.safe_load(text)) == entries
    assert 'date: "2026' in text or "date: '2026" in text  # unquoted it would be a date, which is no text
    assert entries[0].source_name == "ml-bench run"


def test_the_leading_rule_and_estimator_are_the_ones_that_go_out(tmp_path: Path) -> None:
    first_fails = [result(name, c, FAILING if c == 0 else PASSING) for name in NAMES for c in range(5)]
    entries = read_entries(make_run(tmp_path, first_fails, rule="strict", estimator="ordered", ks=(1, 2)))
    assert [(entry.task_id, entry.value) for entry in entries] == [
        ("ml_bench_l_strict_pass_1", 0.0),
        ("ml_bench_l_strict_pass_2", 100.0),
    ]
    assert "rule strict; order-based (one of the first k passes)" in str(entries[0].notes)


def test_missing_predictions_are_failures_and_are_named(tmp_path: Path) -> None:
    results = [one for one in half_passing() if int(one.task_id.split("/")[1]) >= 10]
    given = dict.fromkeys(NAMES[10:], 5)
    (entry, *_) = read_entries(make_run(tmp_path, results, expected=given))
    assert entry.value == round(100 * 125 / 260, 2)
    assert "failures for lack of a prediction: 10 tasks" in str(entry.notes)


def test_environment_errors_are_named_with_the_bounds_that_they_leave(tmp_path: Path) -> None:
    results = half_passing()
    results[5] = result(NAMES[1], 0, ERROR)
    entry = read_entries(make_run(tmp_path, results), ks=(1,))[0]
    low, high = 100 * (130 - 0.2) / 260, 50.0
    assert f"environment errors: 1 (bounds {low:.2f} to {high:.2f})" in str(entry.notes)
    assert "n = 1299 candidates judged" in str(entry.notes)


def test_what_differs_from_the_original_judge_is_named(run: Path, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["identity"]["settings"].update(seconds=30.0, extract="none")
        content["cpus_are_shared"] = True

    notes = str(read_entries(edited(run, tmp_path, change))[0].notes)
    assert "time limit 30 s; extraction none; candidates shared CPUs" in notes


def test_what_the_references_reach_in_the_runs_images_is_named(run: Path, tmp_path: Path) -> None:
    copy = edited(run, tmp_path, lambda content: None)
    summary = Summary.from_json((copy / SUMMARY_FILE).read_text())
    ceiling = ExecutedCeiling(passed=200, flaky=1, tasks=230, not_validated=30, share=200 / 230)
    known = summary.model_copy(update={"executed_ceiling": {"original": ceiling, "strict": ceiling}})
    (copy / SUMMARY_FILE).write_text(known.to_json())
    assert "; 200 of 230 references pass in these images; " in str(read_entries(copy)[0].notes)
    assert "references pass in these images" not in str(read_entries(run)[0].notes)


def test_checks_that_were_skipped_are_named(run: Path, tmp_path: Path) -> None:
    copy = edited(run, tmp_path, lambda content: None)
    summary = Summary.from_json((copy / SUMMARY_FILE).read_text())
    (copy / SUMMARY_FILE).write_text(summary.model_copy(update={"checks_skipped": True}).to_json())
    assert "a machine that was not tried out before" in str(read_entries(copy)[0].notes)
    assert "tried out" not in str(read_entries(run)[0].notes)


def test_shared_cpus_of_an_earlier_part_are_named_too(run: Path, tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        content["cpus_are_shared"] = False
        content["parts"] = [{"cpus_are_shared": True}, {"cpus_are_shared": False}]

    assert "candidates shared CPUs" in str(read_entries(edited(run, tmp_path, change))[0].notes)


def test_the_data_set_can_be_named_and_the_revision_is_its_own(run: Path) -> None:
    entry = read_entries(run, dataset="lab/ml-bench")[0]
    assert (entry.dataset_id, entry.dataset_revision) == ("lab/ml-bench", None)


def test_a_local_folder_of_the_published_rows_is_the_published_data_set(tmp_path: Path) -> None:
    entry = read_entries(make_run(tmp_path, half_passing(), over=tasks(origin="/home/me/rows")))[0]
    assert (entry.dataset_id, entry.dataset_revision) == (UPSTREAM, None)
    assert "/home/me" not in entries_to_yaml([entry])


def test_ks_without_a_leaderboard_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    run = make_run(tmp_path, half_passing(), ks=(1, 3))
    assert [entry.task_id for entry in read_entries(run)] == ["ml_bench_l_original_pass_1"]
    with pytest.raises(HubError, match=r"no leaderboard for pass@3; there are some for k = 1, 2, 5"):
        read_entries(run, ks=(1, 3))
    with pytest.raises(HubError, match=r"the run has no pass@5: it has k = 1, 3"):
        read_entries(run, ks=(5,))


# ---------------------------------------------------------------- what does not


def test_a_run_that_is_not_finished(tmp_path: Path) -> None:
    run = make_run(tmp_path, half_passing()[:-7])
    with pytest.raises(HubError, match="not complete: 7 of 1300 candidates have no result"):
        read_entries(run)


def test_a_run_without_a_summary(run: Path, tmp_path: Path) -> None:
    copy = edited(run, tmp_path, lambda content: None)
    (copy / SUMMARY_FILE).unlink()
    with pytest.raises(HubError, match=r"has no summary\.json: the run was not finished"):
        read_entries(copy)


def test_a_damaged_summary_and_a_folder_of_no_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run's folder"):
        read_entries(tmp_path)
    copy = edited(run, tmp_path, lambda content: None)
    (copy / SUMMARY_FILE).write_text("{}")
    with pytest.raises(RunError, match=r"summary\.json is no summary of this version"):
        read_entries(copy)


def test_candidates_that_are_too_few_for_k(tmp_path: Path) -> None:
    given = {**dict.fromkeys(NAMES, 5), NAMES[3]: 4}
    results = [one for one in half_passing() if (one.task_id, one.candidate) != (NAMES[3], 4)]
    run = make_run(tmp_path, results, expected=given)
    with pytest.raises(
        HubError, match=r"pass@5 has no value: tasks with fewer than 5 candidates: 1; or publish others with --k"
    ):
        read_entries(run)
    assert len(read_entries(run, ks=(1, 2))) == 2


def test_tasks_that_environment_errors_leave_open(tmp_path: Path) -> None:
    results = [one if one.task_id != NAMES[1] else result(NAMES[1], one.candidate, ERROR) for one in half_passing()]
    with pytest.raises(
        HubError, match=r"pass@1 has no value: tasks that environment errors leave open: 1; .*--retry-errors"
    ):
        read_entries(make_run(tmp_path, results))


def test_rows_that_are_not_the_published_ones(tmp_path: Path) -> None:
    with pytest.raises(HubError, match=r"not ML-Bench-L: its tasks .* are not the published rows"):
        read_entries(make_run(tmp_path, half_passing(), over=tasks(digest="0" * 64, origin="sample")))


def test_a_part_of_the_tasks(tmp_path: Path) -> None:
    given = dict.fromkeys(NAMES[:20], 5)
    run = make_run(tmp_path, half_passing()[:100], over=tasks(20), expected=given)
    with pytest.raises(HubError, match="has 20 of the 260 tasks"):
        read_entries(run)


def test_a_run_without_some_tasks(tmp_path: Path) -> None:
    part = tasks().without(set(NAMES[20:]), "known-issues")
    run = make_run(tmp_path, half_passing()[:100], over=part, expected=dict.fromkeys(NAMES[:20], 5))
    with pytest.raises(HubError, match=r"leaves out 240 tasks \(known-issues\): .* without --exclude"):
        read_entries(run)


@pytest.mark.parametrize(
    ("assets", "how"),
    [
        ("stand_in", "made with stand-ins for weights and data"),
        ("none", "made without the weights and data that tasks need"),
    ],
)
def test_numbers_not_made_on_real_weights_and_data_go_out_only_where_asked_for_and_labelled(
    tmp_path: Path, assets: str, how: str
) -> None:
    results = half_passing()
    results[5:8] = [result(NAMES[1], number, execution(assets=assets)) for number in range(3)]
    run = make_run(tmp_path, results)
    with pytest.raises(HubError, match=f"was {how} in 3 of 1300 executions, .*--without-real-assets"):
        read_entries(run)
    for entry in read_entries(run, without_real_assets=True):
        assert f"{how} in 3 of 1300 executions: not comparable with others" in str(entry.notes)


def test_references_are_no_model_in_any_part_of_a_run(run: Path, tmp_path: Path) -> None:
    copy = edited(run, tmp_path, lambda content: content["command"].append("--references"))
    with pytest.raises(HubError, match="a run of the references"):
        read_entries(copy)
    earlier = {"command": ["ml-bench", "evaluate", "--references"]}
    (tmp_path / "resumed").mkdir()
    copy = edited(run, tmp_path / "resumed", lambda content: content.update(parts=[earlier, {"command": []}]))
    with pytest.raises(HubError, match="a run of the references"):
        read_entries(copy)


def test_an_older_client_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    monkeypatch.setitem(huggingface_hub.__dict__, "EvalResultEntry", None)
    monkeypatch.delitem(huggingface_hub.__dict__, "EvalResultEntry")
    monkeypatch.setattr(huggingface_hub, "__getattr__", _no_attribute)
    with pytest.raises(HubError, match="need huggingface_hub"):
        read_entries(run)


def _no_attribute(name: str) -> object:
    raise AttributeError(name)


def test_every_record_of_the_summary_is_read_again(run: Path) -> None:
    assert Summary.from_json((run / SUMMARY_FILE).read_text()).overall.tasks == 260


# ---------------------------------------------------------------- into a model's repository


@pytest.fixture
def hub() -> FakeHub:
    hub = empty_hub()
    hub.create("models", "me/model", {"README.md": b"mine"})
    return hub


@pytest.fixture(scope="module")
def client() -> ClientProcess:
    return client_process()


def pushed(run: Path, model: str = "me/model", token: str | None = WRITER, **options: bool) -> str:
    from huggingface_hub import HfApi

    return push_entries(HfApi(token=token), model, read_entries(run), **options)


def stated(hub: FakeHub, model: str = "me/model") -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = yaml.safe_load(hub.repos["models", model].files[RESULTS_PATH])
    return content


def test_entries_are_one_commit_beside_what_is_there(hub: FakeHub, client: ClientProcess, run: Path) -> None:
    address = client.run(pushed, run)
    repo = hub.repos["models", "me/model"]
    assert address.endswith(f"/me/model/commit/{repo.refs['main']}") and len(repo.commits) == 3
    assert [entry["value"] for entry in stated(hub)] == [50.0, 50.0, 50.0]
    assert repo.files["README.md"] == b"mine"


def test_entries_of_the_same_leaderboard_are_replaced_and_others_stay(
    hub: FakeHub, client: ClientProcess, run: Path
) -> None:
    others = [
        {"dataset": {"id": "x/y", "task_id": "ml_bench_l_original_pass_1"}, "value": 1},
        {"dataset": {"id": UPSTREAM, "task_id": "ml_bench_l_strict_pass_1"}, "value": 2, "notes": "ä", "more": [1]},
    ]
    old = {"dataset": {"id": UPSTREAM, "task_id": "ml_bench_l_original_pass_1"}, "value": 3}
    repo = hub.repos["models", "me/model"]
    repo.commit({**repo.files, RESULTS_PATH: yaml.safe_dump([*others, old]).encode()}, "by hand")
    client.run(pushed, run)
    assert stated(hub)[:2] == others
    assert [entry["value"] for entry in stated(hub)[2:]] == [50.0, 50.0, 50.0]


def test_a_file_that_is_no_list_of_results_is_not_overwritten(hub: FakeHub, client: ClientProcess, run: Path) -> None:
    repo = hub.repos["models", "me/model"]
    for content in (b"{", b"just text", b"- 3", b"- dataset: {}", b"3"):
        repo.commit({**repo.files, RESULTS_PATH: content}, "by hand")
        with pytest.raises(HubError, match="is no list of results") as error:
            client.run(pushed, run)
        assert "\n" not in str(error.value)
        assert repo.files[RESULTS_PATH] == content


def test_results_for_somebody_elses_model_are_a_pull_request(hub: FakeHub, client: ClientProcess, run: Path) -> None:
    hub.create("models", "stranger/model")
    with pytest.raises(HubError, match=r"model stranger/model: the token may not do that.*\(403\)"):
        client.run(pushed, run, "stranger/model")
    assert client.run(pushed, run, "stranger/model", pull_request=True).endswith("/discussions/1")
    repo = hub.repos["models", "stranger/model"]
    commit = repo.at("refs/pr/1")
    assert RESULTS_PATH not in repo.files and commit is not None and RESULTS_PATH in commit.files


@pytest.mark.parametrize(
    ("model", "token", "reason"),
    [
        ("me/model", None, "there is no token"),
        ("me/model", READER, r"may not do that.*\(403\)"),
        ("me/nothing", WRITER, "there is no such repository"),
        ("not a name", WRITER, "model not a name: "),
    ],
)
def test_models_that_cannot_be_written(
    hub: FakeHub, client: ClientProcess, run: Path, model: str, token: str | None, reason: str
) -> None:
    with pytest.raises(HubError, match=reason) as error:
        client.run(pushed, run, model, token)
    assert "\n" not in str(error.value)
    assert RESULTS_PATH not in hub.repos["models", "me/model"].files
