"""`ml-bench evaluate`: execute candidates, and compute Pass@k."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ml_bench_cli.inputs import print_problems, read_tasks
from ml_bench_cli.options import (
    BAD_INPUT,
    NOTHING_EXECUTED,
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
    NoCache,
    Out,
    Oversubscribe,
    Quiet,
    Repositories,
    Restart,
    RetryErrors,
    Revision,
    RuleOption,
    SandboxOption,
    SkipChecks,
    Split,
    Tasks,
    Workers,
    parse_ks,
    parse_names,
)
from ml_bench_cli.running import Way, assets_of, end_early, executed, open_place, read_way, shown

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.judge import Images
    from ml_bench_metric.predictions import Predictions
    from ml_bench_metric.summary import Group
    from ml_bench_metric.tasks import Form, TaskSet


def evaluate(
    predictions: Annotated[
        Path | None, typer.Argument(help="JSONL or JSON file of predictions; none with --references.")
    ] = None,
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    references: Annotated[bool, typer.Option("--references", help="Execute the references instead.")] = False,
    repositories: Repositories = "",
    exclude: Annotated[
        Literal["known-issues"] | None,
        typer.Option(help="Leave out the tasks whose reference is known not to pass in the images that are used."),
    ] = None,
    k: Annotated[str, typer.Option(help="Values of k, separated by commas.")] = "1,2,5",
    rule: RuleOption = "original",
    ordered: Annotated[bool, typer.Option("--ordered", help="Lead with the paper's order-based pass@k.")] = False,
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
    strict_input: Annotated[
        bool, typer.Option("--strict-input", help="Stop before anything runs at faulty lines and unknown tasks.")
    ] = False,
    retry_errors: RetryErrors = False,
    restart: Restart = False,
    skip_checks: SkipChecks = False,
    repeat: Annotated[
        int, typer.Option(min=1, help="Execute each candidate so many times, and report where the verdicts disagree.")
    ] = 1,
    no_cache: NoCache = False,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON instead of the table.")] = False,
) -> None:
    """Execute every candidate in a fresh container, and show Pass@k.

    Of split A a candidate is the text of run.sh, or {"folder": PATH} of a folder that has one, and has 120 s.

    Before, the machine is tried out for a second; where exit statuses or CPU time get lost, nothing is scored.
    The same command with the same --out goes on where it stopped. Ctrl-C lets what runs come to its end; a second one
    stops at once.
    """
    from rich.console import Console

    from ml_bench_metric import judge
    from ml_bench_metric.predictions import read_predictions, require_clean
    from ml_bench_metric.report.table import render
    from ml_bench_metric.validation import ValidationStore, with_executed_ceiling

    if (predictions is None) != references:
        raise typer.BadParameter("give a file of predictions, or --references, and not both")
    ks = parse_ks(k)
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
        repeats=repeat,
        cache=not no_cache,
    )

    # The summary is standard output; everything about the way there is not.
    # `:x:` is part of a path and no emoji.
    console = Console(stderr=True, emoji=False)
    every_task = read_tasks(source, split, revision)
    tasks = every_task.only(parse_names(repositories)) if repositories else every_task
    if predictions is None:
        found = judge.references(tasks)
    else:
        # Against every task: a prediction for another repository of the split is no fault of the file.
        found = read_predictions(predictions, every_task)
        if strict_input:
            require_clean(found)
        print_problems(found.problems, console)
        found = found.only(tasks)

    with open_place(way, console) as place:
        # Of every task: the score is over those without a prediction too.
        images = place.images(tasks.tasks, way)
        if exclude:
            tasks = _without_known_issues(tasks, images, way, console, found.form)
            found = found.only(tasks)
        # Now: a file that cannot be read must not be found out about when all has been executed.
        validations = ValidationStore().of_images(images.digests.values())
        used = _only(images, found)
        with executed("evaluation", found, tasks, used, place, way, console, rule, validations) as ended:
            summary = ended.judgement.summary(ks=ks, rule=rule, estimator="ordered" if ordered else "unbiased")
            summary = with_executed_ceiling(summary, tasks, images.digests, way.settings, validations)
            summary = summary.model_copy(update={"checks_skipped": ended.checks_skipped})
            if ended.judgement.folder is not None:
                ended.judgement.folder.write_summary(summary)
    if as_json:
        print(summary.to_json(indent=2))
    else:
        render(summary, Console())
    if out:
        console.print(f"results, summary and settings are in {shown(out)}", soft_wrap=True)
    end_early(ended, out, console)
    if _nothing_executed(summary.overall):
        raise typer.Exit(NOTHING_EXECUTED)
    if not ended.candidates:
        console.print("there was no candidate to execute")
        raise typer.Exit(BAD_INPUT)


def _only(images: Images, predictions: Predictions) -> Images:
    """Return the images of the tasks that have candidates: what others lack is no fault, and no part of the run."""
    from ml_bench_metric.judge import Images

    return Images(
        by_task={task_id: image for task_id, image in images.by_task.items() if task_id in predictions.items},
        missing={task_id: reason for task_id, reason in images.missing.items() if task_id in predictions.items},
    )


def _nothing_executed(group: Group) -> bool:
    """Return whether the sandbox failed everything that it was given; an answer without a program was not."""
    executed = sum(group.outcomes.values()) - group.outcomes["no_program"] - group.environment_errors
    return group.environment_errors > 0 and executed == 0


def _without_known_issues(tasks: TaskSet, images: Images, way: Way, console: Console, form: Form) -> TaskSet:
    """Return the tasks without those whose reference is known not to pass, under whichever rule."""
    from ml_bench_metric.known_issues import KNOWN_ISSUES, known_issues, tasks_with_issues

    issues = known_issues(
        tasks, extract=way.settings.extract, assets_of=assets_of(images), device=way.device, form=form
    )
    left = tasks.without(tasks_with_issues(issues), KNOWN_ISSUES)
    console.print(
        f"left out: {len(tasks.tasks) - len(left.tasks)} of {len(tasks.tasks)} tasks for their known issues; "
        "`ml-bench tasks --known-issues` lists them",
        soft_wrap=True,
    )
    return left
