"""`ml-bench cache`: what is known already: executions, and the texts and indices of prompts."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="What is kept so that it is not made again.", no_args_is_help=True)


@app.command()
def info() -> None:
    """Show where it is and how much is in it."""
    from ml_bench_metric.environments.byte_count import bytes_text
    from ml_bench_metric.execution_cache import ExecutionCache
    from ml_bench_solvers.digest_cache import KINDS, DigestCache

    cache = ExecutionCache()
    size = cache.size()
    typer.echo(f"{size.executions} executions, {bytes_text(size.bytes)}, in {cache.folder}")
    for prompts in map(DigestCache, KINDS):
        count, held = prompts.size()
        typer.echo(f"{count} {prompts.folder.name.replace('-', ' ')}, {bytes_text(held)}, in {prompts.folder}")


@app.command()
def clear(
    older_than: Annotated[
        float, typer.Option(metavar="DAYS", min=0.0, help="Only what was stored before so many days; 0: all.")
    ] = 0.0,
) -> None:
    """Remove executions, and texts and indices. Runs keep theirs; other runs will make the same again."""
    from ml_bench_metric.environments.byte_count import bytes_text
    from ml_bench_metric.execution_cache import ExecutionCache
    from ml_bench_metric.store import RunError
    from ml_bench_solvers.digest_cache import KINDS, DigestCache

    cache = ExecutionCache()
    try:
        removed = cache.clear(older_than)
        typer.echo(f"removed {removed.executions} executions, {bytes_text(removed.bytes)}, from {cache.folder}")
        for prompts in map(DigestCache, KINDS):
            count, freed = prompts.clear(older_than)
            name = prompts.folder.name.replace("-", " ")
            typer.echo(f"removed {count} {name}, {bytes_text(freed)}, from {prompts.folder}")
    except OSError as error:
        raise RunError(f"{error.filename or cache.folder} cannot be cleared: {error.strerror or error}") from error
