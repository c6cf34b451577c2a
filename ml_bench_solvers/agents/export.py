"""The trajectories of a run in a form that other programs read: ATIF, a file for each attempt or all in one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ml_bench_metric.judge import harness_version
from ml_bench_metric.results import RULES, Result
from ml_bench_metric.store import RunError, read_results
from ml_bench_metric.verdicts import verdict
from ml_bench_metric.whole_files import write_whole
from ml_bench_solvers.agents import trajectory
from ml_bench_solvers.agents.atif import About, to_atif
from ml_bench_solvers.agents.attempts import TASKS, Attempt, AttemptFolder
from ml_bench_solvers.agents.trajectory import read_steps

FILE = "trajectory.json"


def trajectories(run: Path) -> Iterator[tuple[Attempt, dict[str, Any]]]:
    """Yield the attempts of a run that have come to their end with their trajectories in ATIF, in the order of their
    names.

    Raises:
        RunError: a record is damaged.
    """
    results = {(result.task_id, result.candidate): result for result in read_results(run)}
    for folder in sorted((run / TASKS).glob("*/*/*")):
        if not folder.name.isdigit():
            continue
        repository, task = folder.parts[-3:-1]
        attempt = AttemptFolder(run, f"{repository}/{task}", int(folder.name)).ended()
        if attempt is not None:
            found = results.get((attempt.task_id, attempt.attempt))
            yield attempt, to_atif(read_steps(folder / trajectory.FILE), _about(attempt, found))


def _about(attempt: Attempt, result: Result | None) -> About:
    facts = attempt.model_dump(mode="json", exclude={"agent", "changes"})
    facts["changes"] = attempt.changes.model_dump(mode="json", exclude={"deleted", "dropped"})
    if result is not None:
        judged = {rule: verdict(result, rule) for rule in RULES}
        facts["verdicts"] = {rule: {"passed": one.passed, "reason": one.reason} for rule, one in judged.items()}
    return About(attempt.agent, harness_version(), f"{attempt.task_id}/{attempt.attempt}", facts)


def export(run: Path, out: Path) -> int:
    """Write the trajectories of a run, and return how many there are.

    Args:
        run: folder of the run.
        out: a file `*.jsonl` for all, a line each; else a folder, which gets `<task_id>/<attempt>/trajectory.json`.

    Raises:
        RunError: there are none, a record is damaged, or they cannot be written.
    """
    count = 0
    try:
        if out.suffix == ".jsonl":
            lines = [json.dumps(found) + "\n" for _, found in trajectories(run)]
            count = len(lines)
            if lines:
                write_whole(out, "".join(lines))
        else:
            for attempt, found in trajectories(run):
                folder = out / attempt.task_id / str(attempt.attempt)
                folder.mkdir(parents=True, exist_ok=True)
                write_whole(folder / FILE, json.dumps(found, indent=2) + "\n")
                count += 1
    except OSError as error:
        raise RunError(f"{out} cannot be written: {error.strerror or error}; give another --out") from error
    if not count:
        raise RunError(f"{run} has no attempt of an agent that has come to its end; name the folder of an agents' run")
    return count
