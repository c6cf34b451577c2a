"""`ml-bench cache`: the executions that are known, so that they are not made again."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="The cache of executions.", no_args_is_help=True)


@app.command()
def info() -> None:
    """Show where it is and how much is in it."""
    from ml_bench_metric.environments.byte_count import bytes_text
    from ml_bench_metric.execution_cache import ExecutionCache

    cache = ExecutionCache()
    size = cache.size()
    typer.echo(f"{size.executions} executions, {bytes_text(size.bytes)}, in {cache.folder}")


@app.command()
def clear(
    older_than: Annotated[
        float, typer.Option(metavar="DAYS", min=0.0, help="Only what was stored before so many days; 0: all.")
    ] = 0.0,
) -> None:
    """Remove executions. Runs keep theirs; other runs will execute the same candidates again."""
    from ml_bench_metric.environments.byte_count import bytes_text
    from ml_bench_metric.execution_cache import ExecutionCache
    from ml_bench_metric.store import RunError

    cache = ExecutionCache()
    try:
        removed = cache.clear(older_than)
    except OSError as error:
        raise RunError(f"{cache.folder} cannot be cleared: {error.strerror or error}; remove it by hand") from error
    typer.echo(f"removed {removed.executions} executions, {bytes_text(removed.bytes)}, from {cache.folder}")
