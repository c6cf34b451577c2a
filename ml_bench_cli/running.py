"""Running candidates: what the commands have in common that execute any."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from ml_bench_cli.options import INTERRUPTED, assets_wanted, parse_size
from ml_bench_cli.progress import EvaluationProgress

if TYPE_CHECKING:
    from rich.console import Console

    from ml_bench_metric.checks import Rule
    from ml_bench_metric.environments.images import AssetsWanted
    from ml_bench_metric.environments.recipe import Device
    from ml_bench_metric.evaluation import Candidate, Settings, Stop
    from ml_bench_metric.judge import Images, Judgement
    from ml_bench_metric.predictions import Predictions
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox
    from ml_bench_metric.sandbox.execution import Assets
    from ml_bench_metric.sandbox.process_sandbox import ProcessSandbox
    from ml_bench_metric.sandbox.protocol import Capacity, SandboxError
    from ml_bench_metric.store import RunFolder
    from ml_bench_metric.tasks import Task, TaskSet
    from ml_bench_metric.validation import ImageValidation
    from ml_bench_metric.workers import Workers


@dataclass(frozen=True)
class Way:
    """How candidates are to run: what a command's options say."""

    settings: Settings
    image: str | None
    assets: AssetsWanted
    out: Path | None
    workers: int | None
    oversubscribe: bool
    retry_errors: bool
    restart: bool
    quiet: bool
    repeats: int = 1
    cache: bool = False
    """Whether executions that are known are not made again."""
    sandbox: Literal["docker", "process"] = "docker"
    skip_checks: bool = False
    """Whether the machine is not tried out before anything runs."""
    bare: bool = False
    """Whether images are bare ones, in which agents have set everything up."""

    @property
    def device(self) -> Device:
        """What the images must be made for."""
        return "gpu" if self.settings.limits.gpus else "cpu"


def read_way(
    *,
    extract: Literal["auto", "none"],
    limit_time: float | None,
    limit_cpus: int,
    limit_memory: str,
    limit_disk: str,
    limit_tmp: str,
    limit_output: str,
    limit_processes: int,
    gpus: int,
    image: str | None,
    assets: Literal["auto", "none", "stand-in", "real"],
    out: Path | None,
    workers: int | None,
    oversubscribe: bool,
    retry_errors: bool,
    restart: bool,
    quiet: bool,
    repeats: int = 1,
    cache: bool = False,
    sandbox: Literal["docker", "process"] = "docker",
    skip_checks: bool = False,
) -> Way:
    """Return what the options of these names say.

    Raises:
        typer.BadParameter: a limit is none.
    """
    from pydantic import ValidationError

    from ml_bench_metric.evaluation import Settings
    from ml_bench_metric.sandbox.limits import Limits

    try:
        limits = Limits(
            cpus=limit_cpus,
            gpus=gpus,
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
    return Way(
        settings=settings,
        image=image,
        assets=assets_wanted(assets),
        out=out,
        workers=workers,
        oversubscribe=oversubscribe,
        retry_errors=retry_errors,
        restart=restart,
        quiet=quiet,
        repeats=repeats,
        cache=cache,
        sandbox=sandbox,
        skip_checks=skip_checks,
    )


@dataclass(frozen=True)
class Place:
    """Where candidates run, and how many at a time."""

    sandbox: DockerSandbox | ProcessSandbox
    capacity: Capacity
    workers: Workers

    def images(self, tasks: tuple[Task, ...], way: Way) -> Images:
        """Return the images of some tasks."""
        import ml_bench_sample
        from ml_bench_metric import judge
        from ml_bench_metric.environments import folders
        from ml_bench_metric.sandbox.process_sandbox import ProcessSandbox

        if isinstance(self.sandbox, ProcessSandbox):
            folder = Path(way.image) if way.image else ml_bench_sample.repositories()
            return judge.Images(*folders.find(self.sandbox, folder, tasks))
        return judge.find_images(self.sandbox, tasks, way.image, assets=way.assets, device=way.device, bare=way.bare)


@contextmanager
def open_place(way: Way, console: Console) -> Iterator[Place]:
    """Give the place where candidates run while this lasts.

    Raises:
        SandboxError: the engine does not answer, or has not the GPUs that are asked for.
    """
    from ml_bench_metric.claims import claimed
    from ml_bench_metric.workers import allot

    with _open_sandbox(way, console) as sandbox:
        capacity = sandbox.capacity()
        with contextlib.ExitStack() as owned:
            own = capacity
            if not way.oversubscribe:
                own = owned.enter_context(
                    claimed(
                        capacity,
                        way.settings.limits,
                        way.workers,
                        waiting=lambda reason: console.print(f"[yellow]workers:[/] {shown(reason)}", soft_wrap=True),
                    )
                )
            workers = allot(way.workers, way.settings.limits, own, machine=capacity, oversubscribe=way.oversubscribe)
            if workers.note:
                console.print(f"[yellow]workers:[/] {shown(workers.note)}", soft_wrap=True)
            yield Place(sandbox, capacity, workers)


@contextmanager
def _open_sandbox(way: Way, console: Console) -> Iterator[DockerSandbox | ProcessSandbox]:
    """Give the sandbox that is asked for, after what dead evaluations have left was removed."""
    from ml_bench_metric.sandbox import docker_engine, docker_sandbox, process_sandbox

    def warn(line: str) -> None:
        console.print(f"[yellow]warning:[/] {shown(line)}", soft_wrap=True)

    sandbox: DockerSandbox | ProcessSandbox
    if way.sandbox == "process":
        with process_sandbox.ProcessSandbox(warn=warn) as sandbox:
            yield sandbox
        return
    with docker_sandbox.DockerSandbox() as sandbox:
        swept = docker_engine.sweep(sandbox.client)
        if swept:
            console.print(f"removed {swept} containers that an ended evaluation had left")
        yield sandbox


@dataclass(frozen=True)
class Executed:
    """What became of an execution."""

    judgement: Judgement
    candidates: int
    """All of them, those that had a result before among them."""
    known: int
    """Those that have a result now."""
    stopped: bool
    """Whether somebody ended it early."""
    broken: SandboxError | None
    """What ended it, where the engine did not answer any more."""
    parts: Sequence[Mapping[str, Any]]
    """What `run.json` tells of each time the run was begun or gone on with, oldest first."""

    @property
    def checks_skipped(self) -> bool:
        """Whether any of it was executed on a machine that was not tried out before."""
        from ml_bench_metric.store import checks_skipped

        return checks_skipped(self.parts)


@contextmanager
def executed(
    kind: Literal["evaluation", "validation", "agent"],
    predictions: Predictions,
    tasks: TaskSet,
    images: Images,
    place: Place,
    way: Way,
    console: Console,
    rule: Rule | None = None,
    validations: Mapping[str, ImageValidation] | None = None,
    more_identity: Mapping[str, Any] | None = None,
) -> Iterator[Executed]:
    """Execute the candidates that have no result yet, and give what became of it while the run's folder is open.

    Args:
        kind: what the run is for. A folder holds runs of one kind.
        predictions: the candidates.
        tasks: the tasks that count.
        images: of the tasks that are to be executed.
        place: where they run.
        way: how.
        console: what is said on the way goes there.
        rule: of the running score; None for none.
        validations: digest of an image -> what is known of it: tasks whose reference takes long come first.
        more_identity: what else results must have in common to belong to one run, as JSON values.

    Raises:
        SandboxError: no task has an image, the engine does not give a GPU to containers, or the machine is broken.
        RunError: the folder of the run cannot be used.
    """
    from ml_bench_metric import judge
    from ml_bench_metric.environments import ready_made
    from ml_bench_metric.evaluation import Stop
    from ml_bench_metric.execution_cache import ExecutionCache
    from ml_bench_metric.sandbox.gpus import try_out
    from ml_bench_metric.sandbox.protocol import SandboxError
    from ml_bench_metric.store import read_run
    from ml_bench_metric.validation import expected_seconds

    images.require_one()
    for reason in images.reasons:
        console.print(f"[yellow]not executed:[/] {shown(reason)}", soft_wrap=True)
    for note in ready_made.notes(images.by_task.values()):
        console.print(f"[yellow]image:[/] {shown(note)}", soft_wrap=True)
    more = more_identity or {}
    identity = {"kind": kind, **more, **judge.identity(way.settings, tasks, images, predictions.form)}
    about = judge.about(sys.argv, place.capacity, place.workers, tasks, predictions, way.repeats)
    opened = open_folder(way.out, identity, about, way.restart, console) if way.out else nullcontext()
    with opened as folder:
        judgement = judge.Judgement(
            predictions,
            tasks,
            way.settings,
            folder,
            repeats=way.repeats,
            # What a machine has executed that nobody has tried out is for this run alone.
            cache=ExecutionCache() if way.cache and not way.skip_checks else None,
            digests=images.digests,
            seconds=expected_seconds(tasks, images.digests, way.settings, validations or {}),
        )
        todo = judgement.todo(retry_errors=way.retry_errors)
        total = way.repeats * sum(len(prediction.candidates) for prediction in predictions.items.values())
        if len(todo) < total:
            console.print(
                f"{total - len(todo)} of {total} candidates have a result in {shown(way.out)}; {len(todo)} to go",
                soft_wrap=True,
            )
        if way.settings.limits.gpus and todo:
            # An engine that gives no GPU would fail every candidate, one after the other.
            serving = next(iter(images.by_task.values()))
            try_out(place.sandbox, serving.digest, serving.user, way.settings.limits, place.workers.slots[0])
        checks = _try_out(judgement, todo, place, images, way, console) if todo else None
        if folder is not None and checks:
            folder.tell(checks=checks)
        stop = Stop()
        broken: SandboxError | None = None
        try:
            with (
                interrupts(stop, console),
                EvaluationProgress(console, len(todo), rule, visible=not way.quiet) as progress,
            ):
                for result in judgement.execute(
                    todo,
                    place.sandbox,
                    images,
                    place.workers,
                    stop,
                    report=lambda line: console.print(f"[yellow]waiting:[/] {shown(line)}", soft_wrap=True),
                ):
                    progress.advance(result)
        except SandboxError as error:
            broken = error
        known = total - len(judgement.todo()) if broken or stop.finish else total
        parts = read_run(folder.path)["parts"] if folder is not None else [{**about, "checks": checks}]
        yield Executed(judgement, total, known, stop.finish, broken, parts)


def _try_out(
    judgement: Judgement, todo: Sequence[Candidate], place: Place, images: Images, way: Way, console: Console
) -> Literal["passed", "skipped"] | None:
    """Try out the machine, say what is not as it should be, and return what is to be told of that.

    None where no candidate will be executed.

    Raises:
        SandboxError: the machine is broken, or the engine does not answer.
    """
    from ml_bench_metric.doctor import require_healthy

    if way.skip_checks:
        console.print("[yellow]checks skipped:[/] nobody has looked whether this machine is fit for verdicts")
        return "skipped"
    findings = judgement.try_out(todo, place.sandbox, images, place.workers)
    for finding in findings:
        if finding.state == "warning":
            said = f"{finding.name}: {finding.detail}; {finding.remedy}"
            console.print(f"[yellow]warning:[/] {shown(said)}", soft_wrap=True)
    require_healthy(findings, "--skip-checks")
    return "passed" if findings else None


def assets_of(images: Images) -> Callable[[Task], Assets]:
    """Return what tells the weights and data of a task's image; none where it has no image."""

    def of(task: Task) -> Assets:
        image = images.by_task.get(task.task_id)
        return image.assets if image else "none"

    return of


def end_early(ended: Executed, out: Path | None, console: Console) -> None:
    """Say how to go on with what was not executed to its end; do nothing where it was.

    Raises:
        SandboxError: that ended it.
        typer.Exit: it was ended early.
    """
    if ended.broken is not None:
        where = (
            f" in {shown(out)}; when the sandbox works again, the same command goes on"
            if out
            else "; --out keeps results"
        )
        console.print(f"{ended.known} of {ended.candidates} candidates have a result{where}", soft_wrap=True)
        raise ended.broken
    if ended.stopped:
        console.print("stopped early; the same command goes on" if out else "stopped early; --out keeps results")
        raise typer.Exit(INTERRUPTED)


def shown(text: object) -> str:
    """Return a text of the user's as it is to be printed among markup."""
    from rich.markup import escape

    from ml_bench_metric.printable import printable

    return escape(printable(str(text)))


def open_folder(
    out: Path, identity: Mapping[str, Any], about: Mapping[str, Any], restart: bool, console: Console
) -> RunFolder:
    """Return the folder of a run, open; with `restart` another run that it holds is put aside before.

    Raises:
        RunError: it cannot be used.
    """
    from ml_bench_metric.store import OtherRunError, RunFolder, put_aside

    try:
        return RunFolder(out, identity, about)
    except OtherRunError:
        if not restart:
            raise
    # Before it is renamed: `.` would go along with the folder.
    place = out.resolve()
    console.print(f"{shown(out)} held another run; it is now {shown(put_aside(place))}", soft_wrap=True)
    return RunFolder(place, identity, about)


@contextmanager
def interrupts(stop: Stop, console: Console) -> Iterator[None]:
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
