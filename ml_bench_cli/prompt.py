"""`ml-bench prompt`: what a model is asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import Quiet, Revision, Split, Tasks, parse_names
from ml_bench_cli.prompting import (
    BudgetOption,
    FromImages,
    Limit,
    ListArguments,
    Mirrors,
    Prompting,
    Stride,
    TemplateOption,
    Tokenizer,
    UnitOption,
    Window,
)

if TYPE_CHECKING:
    from ml_bench_metric.tasks import Task
    from ml_bench_solvers.prompt import Prompt, Setting
    from ml_bench_solvers.prompts import PromptMaker
    from ml_bench_solvers.retrieval import Found


def prompt(
    task_id: Annotated[str | None, typer.Argument(help="For example dgl/1.")] = None,
    source: Tasks = None,
    split: Split = "L",
    revision: Revision = None,
    all_tasks: Annotated[bool, typer.Option("--all", help="Make the prompts of all tasks, as data.")] = False,
    only: Annotated[
        str, typer.Option("--only", metavar="NAMES", help="With --all: only the tasks of these, separated by commas.")
    ] = "",
    setting: Annotated[
        Literal["code", "retrieval", "oracle", "instruction", "all"],
        typer.Option(
            help="What of the repository is shown: its text, a passage that is searched, the annotated one, or nothing."
        ),
    ] = "oracle",
    explain: Annotated[
        bool, typer.Option("--explain", help="With --setting retrieval: show the best passages and their scores.")
    ] = False,
    top: Annotated[int, typer.Option(min=1, help="With --explain: how many passages.")] = 5,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="With --all: a .parquet or .jsonl; else JSON lines."),
    ] = None,
    mirrors: Mirrors = None,
    from_images: FromImages = False,
    budget: BudgetOption = "100k",
    tokenizer: Tokenizer = None,
    unit: UnitOption = "sentence",
    window: Window = None,
    stride: Stride = 1,
    limit: Limit = None,
    template: TemplateOption = None,
    list_arguments: ListArguments = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read repositories and make indices anew.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines.")] = False,
    quiet: Quiet = False,
) -> None:
    """Show the prompt for a task, or write those for all."""
    from ml_bench_dataset import DataError
    from ml_bench_solvers.prompt import SETTINGS

    if all_tasks == (task_id is not None):
        raise typer.BadParameter("name a task, or give --all")
    if explain and (all_tasks or setting != "retrieval"):
        raise typer.BadParameter("--explain is for one task, with --setting retrieval")
    if (out or only) and not all_tasks:
        raise typer.BadParameter("--out and --only go with --all")
    found = read_tasks(source, split, revision)
    if only:
        found = found.only(parse_names(only))
    settings: tuple[Setting, ...] = SETTINGS if setting == "all" else (setting,)
    makers = Prompting(
        *(mirrors, from_images, budget, tokenizer, unit, window, stride, limit, template, list_arguments),
        no_cache=no_cache,
        quiet=quiet,
    ).makers(settings)
    if task_id is None:
        _write(makers, found.tasks, out)
        return
    if task_id not in found.by_id:
        raise DataError(f"split {split!r} of {found.origin} has no task {task_id!r}; `ml-bench tasks` lists them")
    task = found.by_id[task_id]
    if explain:
        _show_passages(makers[0].search(task, top), as_json)
        return
    for maker in makers:
        _show(maker.make(task), as_json)


def _write(makers: Sequence[PromptMaker], tasks: Iterable[Task], out: Path | None) -> None:
    """Write the prompts that can be made; then list the repositories for which none can.

    Raises:
        PromptError: none could be made at all, or the file cannot be written.
    """
    from ml_bench_metric.printable import printable
    from ml_bench_solvers.prompt_error import PromptError
    from ml_bench_solvers.prompt_table import row_of, write_table

    failures: dict[str, tuple[str, int]] = {}
    if out:
        count = write_table(_made(makers, tasks, failures), out)
    else:
        count = 0
        for made in _made(makers, tasks, failures):
            print(json.dumps(row_of(made)))
            count += 1
    for repository, (reason, lacking) in failures.items():
        print(f"ml-bench: {repository}: {lacking} prompts left out: {printable(reason)}", file=sys.stderr)
    lacking = sum(number for _, number in failures.values())
    if not count:
        raise PromptError(f"no prompt could be made, {lacking} were left out")
    left_out = f", {lacking} left out for want of {len(failures)} repositories" if failures else ""
    print(f"{count} prompts{left_out}{f', in {printable(str(out))}' if out else ''}", file=sys.stderr)


def _made(
    makers: Sequence[PromptMaker], tasks: Iterable[Task], failures: dict[str, tuple[str, int]]
) -> Iterator[Prompt]:
    from ml_bench_solvers.prompt_error import RepositoryError

    for task in tasks:
        for maker in makers:
            try:
                made = maker.make(task)
            except RepositoryError as error:
                failures[task.repository] = str(error), failures.get(task.repository, ("", 0))[1] + 1
            else:
                yield made


def _show(made: Prompt, as_json: bool) -> None:
    from ml_bench_solvers.prompt_table import row_of

    if as_json:
        print(json.dumps(row_of(made)))
        return
    facts = (
        f"{made.task_id}, setting {made.setting}, template {made.template}",
        f"{made.context_characters:,} characters of the repository{', cut' if made.cut else ''}",
        f"digest {made.digest[:12]}",
    )
    print("; ".join(facts), file=sys.stderr)
    for message in made.messages:
        print(f"[{message['role']}]")
        _print_text(message["content"])
        print()


def _show_passages(found: Iterable[Found], as_json: bool) -> None:
    from dataclasses import asdict

    from ml_bench_metric.printable import printable

    for rank, passage in enumerate(found, 1):
        if as_json:
            print(json.dumps(asdict(passage)))
            continue
        print(f"{rank}. score {passage.score:.3f}, passage {passage.place}, in {printable(passage.path)}")
        _print_text("\n".join("    " + line for line in passage.text.split("\n")))
        print()


def _print_text(text: str) -> None:
    """Print a text as it is into a file or pipe; a terminal gets nothing that could move its cursor."""
    from ml_bench_metric.printable import printable

    if _is_terminal():
        # A tab is harmless, and code is unreadable without.
        text = "\n".join(printable(line.expandtabs(4)) for line in text.split("\n"))
    print(text)


def _is_terminal() -> bool:
    return sys.stdout.isatty()
