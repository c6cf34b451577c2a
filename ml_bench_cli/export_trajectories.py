"""`ml-bench export-trajectories`: what agents did, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export_trajectories(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run of agents.")],
    out: Annotated[Path, typer.Option(help="File .jsonl for all, one a line; or a folder for a file of each attempt.")],
) -> None:
    """Write the trajectories of a run in ATIF, Harbor's format for what agents did."""
    from ml_bench_cli.running import shown
    from ml_bench_metric.store import read_run
    from ml_bench_solvers.agents.export import export

    read_run(run)
    print(f"{export(run, out)} trajectories are in {shown(out)}")
