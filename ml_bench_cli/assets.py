"""`ml-bench assets`: the real weights and data that references need, got from where the recipes say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ml_bench_cli.inputs import read_tasks
from ml_bench_cli.options import BAD_INPUT, NOTHING_EXECUTED, Revision, Tasks, parse_names

if TYPE_CHECKING:
    from ml_bench_metric.environments.assets import AssetError, AssetStore, Listed, Plan
    from ml_bench_metric.environments.recipe import Asset

app = typer.Typer(help="Real weights and data of the repositories.", no_args_is_help=True)

Repositories = Annotated[
    list[str] | None,
    typer.Argument(metavar="[REPOSITORY]...", help="Repositories or recipes; all recipes if none is named."),
]


@app.command()
def fetch(
    repositories: Repositories = None,
    source: Tasks = None,
    split: Annotated[
        str | None, typer.Option(help="Only what the tasks of this split need: L (= full), A (= quarter), full, …")
    ] = None,
    revision: Revision = None,
    only: Annotated[str, typer.Option(metavar="TASK_ID,…", help="Only what these tasks need.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether so much may be downloaded.")] = False,
) -> None:
    """Download what is not here yet. The same command goes on with what an earlier one left."""
    from ml_bench_metric.environments.assets import AssetStore

    store = AssetStore()
    assets = _needed(repositories or (), source, split, revision, parse_names(only))
    plan = store.plan(assets)
    failures: tuple[AssetError, ...] = ()
    if plan.downloads:
        _show(plan, store)
        store.require_room(plan)
        _confirm(yes)
        failures = store.fetch([(one.recipe, one.asset) for one in plan.downloads], _progress)
    for recipe, asset in plan.by_hand:
        typer.echo(f"{recipe}/{asset.name} is to be got by hand: {_line(asset.how)}")
        typer.echo(f"    then: ml-bench assets add {recipe} {asset.name} FILE")
    present = sum(store.sha256(asset) is not None for _, asset in assets)
    typer.echo(f"{present} of {len(assets)} assets are in {store.folder}" if assets else "no assets are needed")
    for failure in failures:
        _progress(f"ml-bench: {_line(str(failure))}")
    if failures:
        raise typer.Exit(NOTHING_EXECUTED)


@app.command("list")
def list_(repositories: Repositories = None) -> None:
    """List what the recipes need, and what of it is here."""
    from ml_bench_metric.environments.assets import AssetStore, needed
    from ml_bench_metric.environments.registry import select

    store = AssetStore()
    assets = needed(select(repositories or ()))
    width = max((len(f"{recipe}/{asset.name}") for recipe, asset in assets), default=0)
    for recipe, asset in assets:
        tasks = ", ".join(asset.tasks) or "all tasks"
        licence = _line(asset.licence) or "no licence named"
        name = f"{recipe}/{asset.name}"
        typer.echo(f"{name:<{width}}  {_size(asset, store):>12}  {_state(asset, store):<9}  {tasks}  {licence}")
    if not assets:
        _progress("none of these recipes lists an asset")


@app.command()
def add(
    repository: Annotated[str, typer.Argument(help="Repository or recipe.")],
    asset: Annotated[str, typer.Argument(help="Name of the asset, see `ml-bench assets list`.")],
    file: Annotated[Path, typer.Argument(help="The file as it is downloaded, not unpacked.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Take it although another file was had of this asset before.")
    ] = False,
) -> None:
    """Take over a file that was got by hand. It is copied, and checked where the recipe has its hash."""
    from ml_bench_metric.environments.assets import AssetStore, needed
    from ml_bench_metric.environments.registry import EnvironmentUnknown, select

    assets = needed(select((repository,)))
    found = [(recipe, one) for recipe, one in assets if one.name == asset]
    # A repository's name may be that of one of its recipes too.
    found = [(recipe, one) for recipe, one in found if recipe == repository] or found
    if not found:
        names = ", ".join(one.name for _, one in assets) or "none"
        raise EnvironmentUnknown(f"{repository} has no asset {asset!r}; it has: {names}")
    if len(found) > 1:
        recipes = ", ".join(recipe for recipe, _ in found)
        raise EnvironmentUnknown(f"several recipes of {repository} have an asset {asset!r}; name one of: {recipes}")
    recipe, one = found[0]
    typer.echo(f"{recipe}/{one.name}: {AssetStore().add(recipe, one, file, replace=replace)}")


def _needed(
    repositories: list[str] | tuple[str, ...],
    source: str | None,
    split: str | None,
    revision: str | None,
    only: tuple[str, ...],
) -> list[Listed]:
    from ml_bench_dataset import DataError
    from ml_bench_metric.environments.assets import needed
    from ml_bench_metric.environments.registry import recipe_for, select

    recipes = select(repositories)
    task_ids = only or None
    if source is not None or split is not None or revision is not None:
        tasks = read_tasks(source, split or "L", revision)
        for task_id in only:
            if task_id not in tasks.by_id:
                raise DataError(
                    f"split {tasks.split!r} of {tasks.origin} has no task {task_id!r}; `ml-bench tasks` lists them"
                )
        task_ids = only or tuple(tasks.by_id)
    for task_id in only:
        repository, _, number = task_id.rpartition("/")
        if not repository or not number.isdecimal():
            raise DataError(f"{task_id!r} is no task; a task is called like bert/1")
        if recipe_for(repository, task_id) not in recipes:
            raise DataError(f"task {task_id!r} belongs to {repository!r}, which is not among the chosen repositories")
    return needed(recipes, task_ids)


def _show(plan: Plan, store: AssetStore) -> None:
    from ml_bench_metric.environments.byte_count import bytes_text

    for one in plan.downloads:
        size = "unknown size" if one.size is None else bytes_text(one.size)
        present = f", {bytes_text(one.present)} of it are here" if one.present else ""
        _progress(f"{one.recipe}/{one.asset.name}: {size}{present}, from {_line(one.asset.url or '')}")
    unknown = f", and {plan.unknown} {'file' if plan.unknown == 1 else 'files'} of unknown size" if plan.unknown else ""
    _progress(f"to be downloaded into {store.folder}: {bytes_text(plan.size)}{unknown}")


def _confirm(yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        _progress("ml-bench: nothing was downloaded: there is no terminal to ask at; give --yes")
        raise typer.Exit(BAD_INPUT)
    typer.confirm("Download it?", abort=True, err=True)


def _size(asset: Asset, store: AssetStore) -> str:
    from ml_bench_metric.environments.byte_count import bytes_text

    path = store.path(asset)
    size = path.stat().st_size if path is not None else asset.bytes
    return "unknown size" if size is None else bytes_text(size)


def _state(asset: Asset, store: AssetStore) -> str:
    if store.path(asset) is not None:
        return "here"
    return "by hand" if asset.url is None else "not here"


def _line(text: str) -> str:
    from ml_bench_metric.printable import printable

    return printable(" ".join(text.split()))


def _progress(line: str) -> None:
    typer.echo(line, err=True)
