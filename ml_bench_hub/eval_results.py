"""Result entries: a run's numbers in the form in which a model repository on the Hub states them.

A number goes out with all that it takes to read it, and none goes out that is not the benchmark's: of a run that is not
finished, of rows that are not the published ones or not all of them, of references, or where Pass@k has no value.
Numbers made with stand-ins for weights and data, or without any, go out only where that is asked for, and labelled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import ml_bench_dataset
from ml_bench_dataset import REPOSITORIES, UPSTREAM
from ml_bench_hub.client import explained, require_token
from ml_bench_hub.errors import HubError, one_line
from ml_bench_hub.front_matter import to_yaml
from ml_bench_hub.leaderboard import LEADERBOARDS, Leaderboard
from ml_bench_metric.report.assets import NOT_COMPARABLE
from ml_bench_metric.store import SUMMARY_FILE, RunError, read_run
from ml_bench_metric.summary import PassAtK, Summary

if TYPE_CHECKING:
    from huggingface_hub import EvalResultEntry, HfApi

RESULTS_PATH = ".eval_results/ml-bench.yaml"
"""Where the entries lie in a model repository."""

_SPLIT = "full"
"""The published name of the split that ML-Bench-L is scored on; the data set calls it `L` too."""


def read_entries(
    run: Path,
    *,
    dataset: str | None = None,
    ks: Sequence[int] = (),
    source_url: str | None = None,
    without_real_assets: bool = False,
) -> list[EvalResultEntry]:
    """Return the entries of a run, one for each k, under the rule and the estimator that lead it.

    Args:
        run: folder of a run of `ml-bench evaluate --out`.
        dataset: Hub id of the data set whose leaderboards they are for. By default the one that the run took its rows
            from, with its commit; else upstream's.
        ks: values of k; by default all of the run that there is a leaderboard for.
        source_url: of what stands behind the numbers, such as the run's files.
        without_real_assets: whether numbers of executions with stand-ins for weights and data, or without any though
            tasks need them, may go out too.

    Raises:
        HubError: the numbers cannot be published; the message says why and what to do.
        RunError: `run` is no run's folder.
    """
    try:
        from huggingface_hub import EvalResultEntry
    except ImportError as error:
        raise HubError(
            "result entries need huggingface_hub 1.4 or newer: pip install --upgrade huggingface_hub"
        ) from error
    about = read_run(run)
    summary = _read_summary(run)
    _require_benchmark(run, about, summary)
    if not without_real_assets:
        _require_real_assets(run, summary)
    origin = re.fullmatch(r"([^/\s]+/[^/@\s]+)@(\w+)", summary.origin)
    dataset = dataset or (origin[1] if origin else UPSTREAM)
    revision = origin[2] if origin and origin[1] == dataset else None
    return [
        EvalResultEntry(
            dataset_id=dataset,
            task_id=Leaderboard(summary.rule, score.k).task_id,
            value=round(100 * value, 2),
            dataset_revision=revision,
            date=str(about["started"])[:10] if "started" in about else None,
            source_url=source_url,
            source_name="ml-bench run" if source_url else None,
            notes=_notes(about, summary, score),
        )
        for score, value in _values(summary, ks)
    ]


def entries_to_yaml(entries: Sequence[EvalResultEntry]) -> str:
    """Return the text of the file that holds the entries."""
    from huggingface_hub import eval_result_entries_to_yaml

    return to_yaml(eval_result_entries_to_yaml(list(entries)))


def push_entries(api: HfApi, model: str, entries: Sequence[EvalResultEntry], *, pull_request: bool = False) -> str:
    """Write entries into a model repository, in one commit, and return the address of the commit or pull request.

    Entries for the same leaderboards are replaced, others stay.

    Raises:
        HubError: there is no token, the Hub refuses, or the file that is there cannot be read.
    """
    from huggingface_hub import CommitOperationAdd, eval_result_entries_to_yaml

    require_token(api)
    with explained(f"model {model}"):
        head = api.model_info(model).sha
        merged = [*_others(api, model, head, entries), *eval_result_entries_to_yaml(list(entries))]
        commit = api.create_commit(
            model,
            [CommitOperationAdd(RESULTS_PATH, to_yaml(merged).encode())],
            commit_message="Results on ML-Bench",
            repo_type="model",
            parent_commit=head,
            create_pr=pull_request,
        )
    return str(commit.pr_url or commit.commit_url)


def _others(api: HfApi, model: str, head: str | None, entries: Sequence[EvalResultEntry]) -> list[dict[str, Any]]:
    """Return what the file there says of other leaderboards, in all its fields."""
    if RESULTS_PATH not in api.list_repo_files(model, revision=head):
        return []
    path = Path(api.hf_hub_download(model, RESULTS_PATH, revision=head))
    try:
        entries_there = yaml.safe_load(path.read_text(encoding="utf-8")) or []
        found = [(entry["dataset"]["id"], entry["dataset"]["task_id"], entry) for entry in entries_there]
    except (yaml.YAMLError, ValueError, TypeError, KeyError) as error:
        reason = one_line(error)
        raise HubError(
            f"model {model}: {RESULTS_PATH} there is no list of results ({reason}); mend it first"
        ) from error
    ours = {(entry.dataset_id, entry.task_id) for entry in entries}
    return [entry for dataset, task_id, entry in found if (dataset, task_id) not in ours]


def _read_summary(run: Path) -> Summary:
    path = run / SUMMARY_FILE
    try:
        return Summary.from_json(path.read_bytes())
    except FileNotFoundError as error:
        raise HubError(f"{run} has no {SUMMARY_FILE}: the run was not finished; run the same command again") from error
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"{path} is no summary of this version ({reason}); run the same command again") from error


def _parts(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what `run.json` tells of each part of a run: what held for one of them holds for the run's numbers."""
    return [about, *about["parts"]]


def _require_benchmark(run: Path, about: Mapping[str, Any], summary: Summary) -> None:
    overall = summary.overall
    if any("--references" in part.get("command", ()) for part in _parts(about)):
        raise HubError(f"{run} is a run of the references, not of a model's answers")
    for left_out in summary.excluded:
        raise HubError(
            f"{run} leaves out {len(left_out.tasks)} tasks ({left_out.why}): evaluate all of them, without --exclude"
        )
    if summary.digest != ml_bench_dataset.KNOWN_DIGESTS[_SPLIT]:
        raise HubError(
            f"{run} is not ML-Bench-L: its tasks (split {summary.split!r} of {summary.origin}) are not the published "
            f"rows of {_SPLIT!r}; there is a leaderboard for those alone"
        )
    published = sum(repository.tasks[_SPLIT] or 0 for repository in REPOSITORIES)
    if overall.tasks != published:
        raise HubError(
            f"{run} has {overall.tasks} of the {published} tasks: evaluate all of them, without --repositories"
        )
    if overall.pending:
        raise HubError(
            f"{run} is not complete: {overall.pending} of {overall.expected} candidates have no result; the same "
            "`ml-bench evaluate` command goes on"
        )


def _require_real_assets(run: Path, summary: Summary) -> None:
    for kind, how in NOT_COMPARABLE.items():
        if count := summary.overall.assets.get(kind):
            executed = sum(summary.overall.assets.values())
            raise HubError(
                f"{run} was {how} in {count} of {executed} executions, so that its numbers cannot be compared with "
                "others: evaluate in images with real ones (`ml-bench images build --assets real`), or give "
                "--without-real-assets, and the entry says so"
            )


def _values(summary: Summary, ks: Sequence[int]) -> list[tuple[PassAtK, float]]:
    """Return Pass@k and its value for each k that is to be published."""
    scores = {score.k: score for score in summary.leading(summary.overall)}
    known = [board.k for board in LEADERBOARDS if board.rule == summary.rule]
    wanted = list(ks) or [k for k in scores if k in known]
    if not wanted:
        raise HubError(f"the run has k = {_listed(scores)}, and there are leaderboards for {_listed(known)}")
    found = []
    for k in wanted:
        if k not in known:
            raise HubError(f"there is no leaderboard for pass@{k}; there are some for k = {_listed(known)}")
        if k not in scores:
            raise HubError(f"the run has no pass@{k}: it has k = {_listed(scores)}; evaluate it again with --k {k}")
        score = scores[k]
        if score.value is None:
            raise HubError(f"pass@{k} has no value: {_why_undefined(score)}; or publish others with --k")
        found.append((score, score.value))
    return found


def _why_undefined(score: PassAtK) -> str:
    reasons = []
    if score.short_tasks:
        reasons.append(f"tasks with fewer than {score.k} candidates: {score.short_tasks}")
    if score.open_tasks:
        way_out = "run the same command again with --retry-errors"
        reasons.append(f"tasks that environment errors leave open: {score.open_tasks}; {way_out}")
    return ", ".join(reasons)


def _notes(about: Mapping[str, Any], summary: Summary, score: PassAtK) -> str:
    """Return, in one line, all that it takes to read a number."""
    overall = summary.overall
    identity = about.get("identity", {})
    settings = identity.get("settings", {})
    parts = [
        f"pass@{score.k} in percent",
        f"rule {summary.rule}",
        "unbiased estimator" if summary.estimator == "unbiased" else "order-based (one of the first k passes)",
        f"split L, {overall.tasks} tasks",
        f"n = {overall.candidates} candidates judged",
    ]
    if overall.missing:
        parts.append(f"failures for lack of a prediction: {overall.missing} tasks")
    if overall.environment_errors and score.lower is not None and score.upper is not None:
        bounds = f"{100 * score.lower:.2f} to {100 * score.upper:.2f}"
        parts.append(f"environment errors: {overall.environment_errors} (bounds {bounds})")
    if score.interval is not None:
        parts.append("95 % interval over tasks {:.2f} to {:.2f}".format(*(100 * end for end in score.interval)))
    seconds = settings.get("seconds")
    parts.append("time limits of the original judge" if seconds is None else f"time limit {seconds:g} s")
    parts.append(f"extraction {settings.get('extract', 'unknown')}")
    if any(part.get("cpus_are_shared") for part in _parts(about)):
        parts.append("candidates shared CPUs")
    if summary.checks_skipped:
        parts.append("run on a machine that was not tried out before (--skip-checks)")
    executed = sum(overall.assets.values())
    parts += [
        f"{how} in {overall.assets[kind]} of {executed} executions: not comparable with others"
        for kind, how in NOT_COMPARABLE.items()
        if overall.assets.get(kind)
    ]
    if summary.ceiling is not None:
        parts.append(f"references reach at most {100 * summary.ceiling[summary.rule].share:.1f} in the static checks")
    if summary.executed_ceiling is not None:
        ceiling = summary.executed_ceiling[summary.rule]
        parts.append(f"{ceiling.passed} of {ceiling.tasks} references pass in these images")
    parts.append(f"ml-bench {identity.get('harness', 'unknown')}")
    return "; ".join(parts)


def _listed(ks: Sequence[int] | Mapping[int, object]) -> str:
    return ", ".join(map(str, ks)) or "none"
