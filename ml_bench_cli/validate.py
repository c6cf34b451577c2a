"""`ml-bench validate`: execute the references, and see whether the images are good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import (
    NOTHING_EXECUTED,
    UNEXPECTED,
    AssetsOption,
    Extract,
    Gpus,
    Image,
    LimitCpus,
    LimitDisk,
    LimitMemory,
    LimitOutput,
    LimitProcesses,
    LimitTime,
    LimitTmp,
    Out,
    Oversubscribe,
    Quiet,
    Repositories,
    Restart,
    RetryErrors,
    Revision,
    SandboxOption,
    SkipChecks,
    Split,
    Tasks,
    Workers,
    parse_names,
)
from ml_bench_cli.running import assets_of, end_early, executed, open_place, read_way, shown

if TYPE_CHECKING:
    from pathlib import Path

    from ml_bench_metric.report.validation import ValidationReport


def validate(
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    repositories: Repositories = "",
    repeat: Annotated[int, typer.Option(min=1, help="How often each reference is executed.")] = 2,
    extract: Extract = "auto",
    out: Out = None,
    workers: Workers = None,
    oversubscribe: Oversubscribe = False,
    limit_time: LimitTime = None,
    limit_cpus: LimitCpus = 1,
    limit_memory: LimitMemory = "8g",
    limit_disk: LimitDisk = "8g",
    limit_tmp: LimitTmp = "1g",
    limit_output: LimitOutput = "64m",
    limit_processes: LimitProcesses = 512,
    gpus: Gpus = 0,
    sandbox: SandboxOption = "docker",
    image: Image = None,
    assets: AssetsOption = "auto",
    retry_errors: RetryErrors = False,
    restart: Restart = False,
    skip_checks: SkipChecks = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON instead of the tables.")] = False,
) -> None:
    """Execute every task's reference several times in its image, and show which of them pass.

    Beside it an empty candidate, which must fail, and one that does nothing, which tells what is checked at all. What
    was found is kept by image: evaluations with the same settings show it as their ceiling. Exit status 1: a reference
    did not do what is known of it.
    """
    from rich.console import Console

    from ml_bench_metric.judge import harness_version
    from ml_bench_metric.known_issues import known_issues
    from ml_bench_metric.report.validation import render, report_of
    from ml_bench_metric.validation import Made, ValidationStore, candidates_of, findings

    way = read_way(
        extract=extract,
        limit_time=limit_time,
        limit_cpus=limit_cpus,
        limit_memory=limit_memory,
        limit_disk=limit_disk,
        limit_tmp=limit_tmp,
        limit_output=limit_output,
        limit_processes=limit_processes,
        gpus=gpus,
        sandbox=sandbox,
        skip_checks=skip_checks,
        image=image,
        assets=assets,
        out=out,
        workers=workers,
        oversubscribe=oversubscribe,
        retry_errors=retry_errors,
        restart=restart,
        quiet=quiet,
    )
    console = Console(stderr=True, emoji=False)
    tasks = read_tasks(source, split, revision)
    if repositories:
        tasks = tasks.only(parse_names(repositories))

    with open_place(way, console) as place:
        images = place.images(tasks.tasks, way)
        issues = known_issues(tasks, extract=extract, assets_of=assets_of(images), device=way.device)
        store = ValidationStore()
        # Now: a file that cannot be read must not be found out about when all has been executed.
        known = store.of_images(images.digests.values())
        candidates = candidates_of((task for task in tasks.tasks if task.task_id in images.by_task), repeat)
        with executed("validation", candidates, tasks, images, place, way, console, validations=known) as ended:
            found = findings(ended.judgement.results(), candidates, tasks)
        made = Made(
            settings=way.settings,
            split=tasks.split,
            tasks_digest=tasks.digest,
            harness=harness_version(),
            engine=place.capacity.description,
            load=max((part["load_before"] for part in ended.parts if part["load_before"] is not None), default=None),
            cpus_are_shared=any(part["cpus_are_shared"] for part in ended.parts),
            checks_skipped=ended.checks_skipped,
            date=ended.parts[0]["started"],
        )
        store.add(found, images.by_task, made)
    report = report_of(found, tasks, images.by_task, images.missing, issues, repeat=repeat, made=made)
    if as_json:
        print(report.to_json(indent=2))
    else:
        render(report, Console())
    if out:
        _write(out, report)
        console.print(
            f"results, validation.json and validation.md are in {shown(out)}; `ml-bench show {shown(out)} TASK_ID` "
            "shows what happened to a task",
            soft_wrap=True,
        )
    end_early(ended, out, console)
    if found.failed and not found.tasks:
        raise typer.Exit(NOTHING_EXECUTED)
    if report.unexpected:
        raise typer.Exit(UNEXPECTED)


def _write(out: Path, report: ValidationReport) -> None:
    from ml_bench_metric.report.validation import to_markdown
    from ml_bench_metric.store import RunError

    try:
        (out / "validation.json").write_text(report.to_json(indent=2) + "\n", encoding="utf-8")
        (out / "validation.md").write_text(to_markdown(report), encoding="utf-8")
    except OSError as error:
        raise RunError(f"{out}: the report cannot be written: {error.strerror or error}") from error
