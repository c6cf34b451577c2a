"""`ml-bench evaluate`: execute candidates, and compute Pass@k."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ml_bench_cli.inputs import print_problems, read_tasks
from ml_bench_cli.options import (
    BAD_INPUT,
    INTERRUPTED,
    NOTHING_EXECUTED,
    Extract,
    Revision,
    RuleOption,
    Split,
    Tasks,
    parse_ks,
    parse_names,
    parse_size,
)
from ml_bench_cli.progress import EvaluationProgress

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.evaluation import Stop
    from ml_bench_metric.judge import Images
    from ml_bench_metric.predictions import Predictions
    from ml_bench_metric.store import RunFolder
    from ml_bench_metric.summary import Group
    from ml_bench_metric.tasks import TaskSet


def evaluate(
    predictions: Annotated[
        Path | None, typer.Argument(help="JSONL or JSON file of predictions; none with --references.")
    ] = None,
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    references: Annotated[bool, typer.Option("--references", help="Execute the references instead.")] = False,
    repositories: Annotated[str, typer.Option(help="Only the tasks of these, separated by commas.")] = "",
    k: Annotated[str, typer.Option(help="Values of k, separated by commas.")] = "1,2,5",
    rule: RuleOption = "original",
    ordered: Annotated[bool, typer.Option("--ordered", help="Lead with the paper's order-based pass@k.")] = False,
    extract: Extract = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run: results as they come, to be gone on with.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Candidates at a time; by default as many as fit.")] = None,
    oversubscribe: Annotated[
        bool, typer.Option("--oversubscribe", help="Let workers share CPUs and memory; verdicts then depend on load.")
    ] = False,
    limit_time: Annotated[
        float | None,
        typer.Option(min=0.1, help="Seconds per candidate; by default the original's (10; vid2vid 4; timm Python 7)."),
    ] = None,
    limit_cpus: Annotated[int, typer.Option(min=1, help="CPUs that a candidate owns.")] = 1,
    limit_memory: Annotated[str, typer.Option(help="Memory per candidate.")] = "8g",
    limit_disk: Annotated[str, typer.Option(help="Disk space per candidate.")] = "8g",
    limit_tmp: Annotated[str, typer.Option(help="Size of /tmp per candidate.")] = "1g",
    limit_output: Annotated[str, typer.Option(help="Output per candidate.")] = "64m",
    limit_processes: Annotated[int, typer.Option(min=8, help="Processes per candidate.")] = 512,
    image: Annotated[str | None, typer.Option(help="Run everything in this image.")] = None,
    strict_input: Annotated[
        bool, typer.Option("--strict-input", help="Stop before anything runs at faulty lines and unknown tasks.")
    ] = False,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Run again what ended with an environment error.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Where --out holds a run with other settings or images, put that aside.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON instead of the table.")] = False,
) -> None:
    """Execute every candidate in a fresh container, and show Pass@k.

    The same command with the same --out goes on where it stopped. Ctrl-C lets what runs come to its end; a second one
    stops at once.
    """
    from pydantic import ValidationError
    from rich.console import Console

    from ml_bench_metric import judge
    from ml_bench_metric.evaluation import Settings, Stop
    from ml_bench_metric.predictions import read_predictions, require_clean
    from ml_bench_metric.report.table import render
    from ml_bench_metric.sandbox import docker_engine
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
    from ml_bench_metric.sandbox.limits import Limits
    from ml_bench_metric.sandbox.protocol import SandboxError
    from ml_bench_metric.workers import allot

    if (predictions is None) != references:
        raise typer.BadParameter("give a file of predictions, or --references, and not both")
    ks = parse_ks(k)
    try:
        limits = Limits(
            cpus=limit_cpus,
            memory_bytes=parse_size(limit_memory),
            disk_bytes=parse_size(limit_disk),
            tmp_bytes=parse_size(limit_tmp),
            output_bytes=parse_size(limit_output),
            processes=limit_processes,
        )
        settings = Settings(extract=extract, seconds=limit_time, limits=limits)
    except ValidationError as error:
        fault = error.errors()[0]
        raise typer.BadParameter(f"limit {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error

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

    with DockerSandbox() as sandbox:
        swept = docker_engine.sweep(sandbox.client)
        if swept:
            console.print(f"removed {swept} containers that an ended evaluation had left")
        images = judge.find_images(sandbox, _repositories(found, tasks), image)
        _require_an_image(images, console)
        capacity = sandbox.capacity()
        team = allot(workers, limits, capacity, oversubscribe=oversubscribe)
        if team.note:
            console.print(f"[yellow]workers:[/] {_shown(team.note)}")
        about = judge.about(sys.argv, capacity, team, tasks)
        identity = judge.identity(settings, tasks, images)
        opened = _open_folder(out, identity, about, restart, console) if out else nullcontext()
        with opened as folder:
            judgement = judge.Judgement(found, tasks, settings, folder, images.digests)
            todo = judgement.todo(retry_errors=retry_errors)
            total = sum(len(prediction.candidates) for prediction in found.items.values())
            if len(todo) < total:
                console.print(
                    f"{total - len(todo)} of {total} candidates have a result in {_shown(out)}; {len(todo)} to go",
                    soft_wrap=True,
                )
            stop = Stop()
            broken: SandboxError | None = None
            try:
                with (
                    _interrupts(stop, console),
                    EvaluationProgress(console, len(todo), rule, visible=not quiet) as progress,
                ):
                    for result in judgement.execute(todo, sandbox, images, team, stop):
                        progress.advance(result)
            except SandboxError as error:
                broken = error
            summary = judgement.summary(ks=ks, rule=rule, estimator="ordered" if ordered else "unbiased")
    if as_json:
        print(summary.to_json(indent=2))
    else:
        render(summary, Console())
    if out:
        console.print(f"results, summary and settings are in {_shown(out)}", soft_wrap=True)
    if broken is not None:
        known = total - summary.overall.pending
        where = f" in {_shown(out)}; start Docker, then the same command goes on" if out else "; --out keeps results"
        console.print(f"{known} of {total} candidates have a result{where}", soft_wrap=True)
        raise broken
    if stop.finish:
        console.print("stopped early; the same command goes on" if out else "stopped early; --out keeps results")
        raise typer.Exit(INTERRUPTED)
    if _nothing_executed(summary.overall):
        raise typer.Exit(NOTHING_EXECUTED)
    if not total:
        console.print("there was no candidate to execute")
        raise typer.Exit(BAD_INPUT)


def _shown(text: object) -> str:
    """Return a text of the user's as it is to be printed among markup."""
    from rich.markup import escape

    from ml_bench_metric.printable import printable

    return escape(printable(str(text)))


def _nothing_executed(group: Group) -> bool:
    """Return whether the sandbox failed everything that it was given; an answer without a program was not."""
    executed = sum(group.outcomes.values()) - group.outcomes["no_program"] - group.environment_errors
    return group.environment_errors > 0 and executed == 0


def _repositories(predictions: Predictions, tasks: TaskSet) -> list[str]:
    """Return the repositories that candidates run in."""
    return list(dict.fromkeys(tasks.by_id[task_id].repository for task_id in predictions.items))


def _open_folder(
    out: Path, identity: Mapping[str, Any], about: Mapping[str, Any], restart: bool, console: Console
) -> RunFolder:
    from ml_bench_metric.store import OtherRunError, RunFolder, put_aside

    try:
        return RunFolder(out, identity, about)
    except OtherRunError:
        if not restart:
            raise
    # Before it is renamed: `.` would go along with the folder.
    place = out.resolve()
    console.print(f"{_shown(out)} held another run; it is now {_shown(put_aside(place))}", soft_wrap=True)
    return RunFolder(place, identity, about)


def _require_an_image(images: Images, console: Console) -> None:
    from ml_bench_metric.sandbox.protocol import SandboxError

    if images.missing and not images.digests:
        raise SandboxError("nothing can be executed: " + "; ".join(images.missing.values()))
    for reason in images.missing.values():
        console.print(f"[yellow]not executed:[/] {_shown(reason)}", soft_wrap=True)


@contextmanager
def _interrupts(stop: Stop, console: Console) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a run's orderly end while this lasts."""

    def ask(number: int, frame: object) -> None:
        if stop.ask() == "finish":
            console.print("stopping: what runs comes to its end; once more stops at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
