"""`ml-bench register`: the bare names `ml-bench` and `ml_bench` on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from ml_bench_cli.options import Revision, Tasks


def register(
    source: Tasks = None,
    revision: Revision = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what this command made, and nothing else.")] = False,
) -> None:
    """Make load_dataset("ml-bench") and evaluate.load("ml_bench") work in any folder, and offline.

    What cannot be had from the source is left out; without a network that is all but the sample and the list of
    repositories. A clone of this project in the current folder that is called ml-bench is seen to as well.
    """
    import sys
    from itertools import groupby

    from datasets import disable_progress_bars

    from ml_bench_hub.register import Step, register, unregister

    if not sys.stderr.isatty():
        disable_progress_bars()
    steps = unregister() if remove else register(source, revision=revision)
    if not steps:
        print("nothing is registered")
    for (action, detail), members in groupby(steps, lambda step: (step.action, step.detail)):
        print(Step(", ".join(step.subject for step in members), action, detail))
