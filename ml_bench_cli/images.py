"""`ml-bench images`: building the environments' images, and looking after those that were built."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ml_bench_cli.options import UNEXPECTED, assets_wanted

if TYPE_CHECKING:
    from ml_bench_metric.environments.images import EnvironmentImage
    from ml_bench_metric.environments.recipe import Recipe

app = typer.Typer(help="The images in which candidates run.", no_args_is_help=True)

Mirrors = Annotated[
    Path | None,
    typer.Option(
        "--repositories",
        metavar="DIR",
        exists=True,
        file_okay=False,
        help="Folder with git mirrors, bare or not; a repository without one is cloned from its URL.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="As JSON lines.")]


@app.command()
def build(
    repositories: Annotated[
        list[str] | None,
        typer.Argument(metavar="[REPOSITORY]...", help="Repositories or recipes; all recipes if none is named."),
    ] = None,
    base: Annotated[
        str,
        typer.Option(
            metavar="auto|pull|bootstrap|FILE.tar",
            help="What the base image is made from. auto: an existing one, else pulled, else bootstrapped.",
        ),
    ] = "auto",
    mirrors: Mirrors = None,
    assets: Annotated[
        Literal["auto", "none", "stand-in", "real"],
        typer.Option(
            help="Weights and data. auto: real ones where `ml-bench assets fetch` has brought all, else stand-ins."
        ),
    ] = "auto",
    device: Annotated[
        Literal["cpu", "gpu"], typer.Option(help="What the packages are made for; building for a GPU needs none.")
    ] = "cpu",
    platform: Annotated[
        str, typer.Option(metavar="OS/ARCH", help="Such as linux/arm64; by default the engine's own.")
    ] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Images that are built at a time.")] = 2,
    without_checkout: Annotated[
        bool,
        typer.Option(
            "--without-checkout",
            help="Packages only, with empty folders for the repositories: shows whether the packages can be had.",
        ),
    ] = False,
    bare: Annotated[
        bool,
        typer.Option(
            "--bare", help="Base and repositories alone, for agents that set everything up; for no candidate."
        ),
    ] = False,
) -> None:
    """Build images. What is unchanged is not built again; where one fails, the others are built."""
    from ml_bench_metric.environments import build as building
    from ml_bench_metric.environments.byte_count import bytes_text
    from ml_bench_metric.environments.registry import select
    from ml_bench_metric.sandbox.docker_engine import connect

    if bare and (without_checkout or device != "cpu" or assets != "auto"):
        raise typer.BadParameter("--bare has files and nothing else; leave out --without-checkout, --device, --assets")
    options = building.Options(
        base=base,
        repositories=mirrors,
        assets=assets_wanted(assets),
        device=device,
        platform=platform,
        checkout=not without_checkout,
        bare=bare,
    )
    with _terminable():
        select(repositories or ())  # a wrong name is told before an engine is looked for
        built = building.build(repositories or (), connect(), options, jobs=jobs, progress=_progress)
    for image in built:
        state = "unchanged" if image.reused else "built"
        facts = [bytes_text(image.size), _assets_text(image.assets), *_missing_text(image.missing_files)]
        typer.echo(f"{image.name}  {', '.join(facts)}  {state} in {image.seconds:.1f} s  {image.digest}")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the images that were built."""
    from ml_bench_metric.environments.engine_calls import told
    from ml_bench_metric.environments.images import list_images
    from ml_bench_metric.sandbox.docker_engine import connect

    client = connect()
    with told("listing the images"):
        images = list_images(client)
    if not images:
        _progress("no images yet; ml-bench images build makes them")
    for image in images:
        typer.echo(json.dumps(asdict(image)) if as_json else _image_text(image))


@app.command()
def recipes(as_json: Json = False) -> None:
    """List what images can be built, and the repositories of the benchmark of which nothing but a name is known."""
    import ml_bench_dataset
    from ml_bench_metric.environments import registry

    for recipe in registry.recipes():
        typer.echo(json.dumps(_recipe_facts(recipe)) if as_json else _recipe_text(recipe))
    for repository in ml_bench_dataset.REPOSITORIES:
        if repository.url is None:
            unknown = {"name": repository.name, "unknown": True}
            text = f"{repository.name}: unknown; neither its URL nor its commit is published, and no task needs it"
            typer.echo(json.dumps(unknown) if as_json else text)


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Images, repositories or recipes; without any, all that were built last."
        ),
    ] = None,
    mirrors: Mirrors = None,
) -> None:
    """Look whether images are what their recipes say, and do what candidates need. Status 1 where one does not."""
    from ml_bench_metric.environments.check import check_images
    from ml_bench_metric.environments.chosen import chosen
    from ml_bench_metric.sandbox.docker_engine import connect

    faulty = False
    with _terminable():
        client = connect()
        images = chosen(client, names or ())
        if not images:
            _progress("no images yet; ml-bench images build makes them")
        for finding in check_images(client, images, mirrors):
            faulty = faulty or finding.state == "fault"
            detail = f": {finding.detail}" if finding.detail else ""
            typer.echo(f"{finding.state:<7}  {finding.image}  {finding.what}{detail}")
    if faulty:
        raise typer.Exit(UNEXPECTED)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar", help="FILE.tar.gz is compressed.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPOSITORY]...", help="Repositories, recipes or images; without any, all that were built last."
        ),
    ] = None,
) -> None:
    """Write images into a file, for a machine that cannot build them."""
    from ml_bench_metric.environments.byte_count import bytes_text
    from ml_bench_metric.environments.chosen import chosen
    from ml_bench_metric.environments.export import export_images
    from ml_bench_metric.sandbox.docker_engine import connect

    with _terminable():
        client = connect()
        images = chosen(client, names or ())
        size = export_images(client, images, file, _progress)
    for image in images:
        typer.echo(f"{image.name}  {image.digest}")
    _progress(f"{file}: {bytes_text(size)}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.tar", help="What `ml-bench images export` has written.")],
) -> None:
    """Take images from a file of another machine. What was built here under the same names is replaced."""
    from ml_bench_metric.environments.load import import_images
    from ml_bench_metric.sandbox.docker_engine import connect

    with _terminable():
        images = import_images(connect(), file, _progress)
    for image in images:
        typer.echo(f"{image.name}  {image.digest}")


@app.command()
def prune(
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this it is only shown.")] = False,
) -> None:
    """Show which images of this project nothing needs any more; with --yes, remove them. Others are never touched."""
    from ml_bench_metric.environments.byte_count import bytes_text
    from ml_bench_metric.environments.prune import plan_prune
    from ml_bench_metric.environments.prune import prune as remove
    from ml_bench_metric.sandbox.docker_engine import connect

    client = connect()
    plan = plan_prune(client)
    for image in plan.going:
        typer.echo(f"remove  {image.name}  {bytes_text(image.size)} with what it shares")
    for left in plan.left:
        typer.echo(f"leave   {left.name}: {left.reason}")
    if not plan.going:
        _progress("there is nothing to remove")
    elif not yes:
        _progress(f"nothing was removed; --yes does it, and frees about {bytes_text(plan.freed_bytes)}")
    else:
        for left in remove(client, plan, _progress):
            typer.echo(f"leave   {left.name}: {left.reason}")


def _image_text(image: EnvironmentImage) -> str:
    from ml_bench_metric.environments.byte_count import bytes_text

    serves = ", ".join(image.repositories) + (f" ({len(image.tasks)} tasks)" if image.tasks else "")
    facts = [bytes_text(image.size), image.device, _assets_text(image.assets), *_missing_text(image.missing_files)]
    if image.platform:
        facts.append(image.platform)
    if not image.checkout:
        facts.append("packages only")
    if image.bare:
        facts.append("bare")
    if not image.current:
        facts.append("not the latest")
    return f"{image.name}  {serves}  {', '.join(facts)}  {image.digest}"


def _assets_text(assets: str) -> str:
    return {"not_needed": "no assets needed", "none": "without assets", "stand_in": "stand-ins"}.get(
        assets, f"{assets} assets"
    )


def _missing_text(count: int) -> list[str]:
    return [f"{count} files missing"] if count else []


def _recipe_facts(recipe: Recipe) -> dict[str, Any]:
    from ml_bench_metric.environments import registry

    layers = registry.layers(recipe)
    return {
        "name": recipe.name,
        "repositories": list(recipe.directories),
        "tasks": list(recipe.tasks),
        "python": layers[0].python,
        "extends": [layer.name for layer in layers[:-1]],
        "gpu": recipe.gpu,
        "assets": [asset.model_dump(mode="json") for asset in recipe.assets],
        "stand_ins": recipe.stand_ins is not None,
        "known_issues": [issue.model_dump(mode="json") for issue in recipe.known_issues],
        "licences": recipe.licences,
        "notes": recipe.notes,
        "unknown": False,
    }


def _recipe_text(recipe: Recipe) -> str:
    from ml_bench_metric.environments import registry
    from ml_bench_metric.environments.byte_count import bytes_text

    layers = registry.layers(recipe)
    facts = [f"Python {layers[0].python}"]
    if len(layers) > 1:
        facts.append(f"on packages {layers[-2].name}")
    if list(recipe.directories) != [recipe.name]:
        facts.append(f"serves {', '.join(recipe.directories)}")
    if recipe.tasks:
        facts.append(f"only {len(recipe.tasks)} tasks")
    if recipe.gpu != "none":
        facts.append(f"GPU {recipe.gpu}")
    if recipe.assets:
        sizes = [asset.bytes for asset in recipe.assets if asset.bytes]
        at_least = "" if len(sizes) == len(recipe.assets) else "at least "
        size = f"{at_least}{bytes_text(sum(sizes))}" if sizes else "size unknown"
        facts.append(f"{len(recipe.assets)} assets ({size})")
    if recipe.stand_ins is not None:
        facts.append("has stand-ins")
    if recipe.known_issues:
        tasks = {task_id for issue in recipe.known_issues for task_id in issue.tasks}
        facts.append(f"known issues of {len(tasks)} references")
    return f"{recipe.name}: {', '.join(facts)}"


def _progress(line: str) -> None:
    typer.echo(line, err=True)


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into what Ctrl-C does while this lasts, so that containers and unfinished files go then too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
