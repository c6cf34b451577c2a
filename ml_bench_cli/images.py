"""`ml-bench images`: building the environments' images, and listing them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

app = typer.Typer(help="The images in which candidates run.", no_args_is_help=True)


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
    mirrors: Annotated[
        Path | None,
        typer.Option(
            "--repositories",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Folder with git mirrors, bare or not; a repository without one is cloned from its URL.",
        ),
    ] = None,
) -> None:
    """Build images. What is unchanged is not built again."""
    from ml_bench_metric.environments import build as building
    from ml_bench_metric.environments.registry import select
    from ml_bench_metric.sandbox.docker_engine import connect

    with _terminable():
        select(repositories or ())
        built = building.build(repositories or (), connect(), base=base, repositories=mirrors, progress=_progress)
    for image in built:
        state = "unchanged" if image.reused else "built"
        typer.echo(f"{image.name}  {image.size / 1e6:.0f} MB  {state} in {image.seconds:.1f} s  {image.digest}")


@app.command("list")
def list_() -> None:
    """List the images that were built."""
    from ml_bench_metric.environments.images import list_images
    from ml_bench_metric.sandbox.docker_engine import connect

    images = list_images(connect())
    if not images:
        typer.echo("no images yet; ml-bench images build makes them", err=True)
    for image in images:
        mark = "" if image.current else "  (not the latest)"
        repositories = ", ".join(image.repositories)
        typer.echo(f"{image.name}  {image.size / 1e6:.0f} MB  {repositories}  {image.digest}{mark}")


def _progress(line: str) -> None:
    typer.echo(line, err=True)


@contextmanager
def _terminable() -> Iterator[None]:
    """Turn SIGTERM into what Ctrl-C does while this lasts, so that a build removes its containers then too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
