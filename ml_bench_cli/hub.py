"""`ml-bench hub`: the repository folders on the Hugging Face Hub, their check and their publication."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ml_bench_cli.options import BAD_INPUT, Revision, Tasks, parse_ks

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from ml_bench_hub.push import Plan

app = typer.Typer(help="Publishing on the Hugging Face Hub: data set, Space, results.", no_args_is_help=True)

Namespace = Annotated[str | None, typer.Option(help="User or organisation on the Hub.")]


@app.command()
def build(
    out: Annotated[Path, typer.Argument(help="New folder, or one that this command has made.")],
    source: Tasks = None,
    revision: Revision = None,
    namespace: Namespace = None,
    format: Annotated[
        Literal["parquet", "harbor"],
        typer.Option(help="parquet: the data set; harbor: split A as tasks for the agent framework Harbor."),
    ] = "parquet",
    no_eval_yaml: Annotated[
        bool,
        typer.Option(
            "--no-eval-yaml",
            help="Define no leaderboards. The Hub takes them only from frameworks that it knows.",
        ),
    ] = False,
) -> None:
    """Write a complete data set repository into a folder."""
    from ml_bench_hub.build import build_dataset
    from ml_bench_hub.harbor import build_harbor

    build_folder = build_dataset if format == "parquet" else build_harbor
    manifest = build_folder(
        out,
        source=source,
        revision=revision,
        namespace=namespace,
        eval_yaml=not no_eval_yaml,
        progress=_progress,
    )
    size = sum(file.size for file in manifest.files.values())
    typer.echo(f"{out}: {len(manifest.files)} files, {size / 1e6:.2f} MB, from {manifest.source}")


@app.command()
def check(
    out: Annotated[Path, typer.Argument(help="Folder of a data set repository.")],
    croissant: Annotated[
        bool, typer.Option("--croissant", help="The Croissant description too; needs 'ml-bench[croissant]'.")
    ] = False,
) -> None:
    """Check what the Hub's viewer and `datasets` need of a folder: a line for each problem, and status 2."""
    from ml_bench_hub.check import check_folder

    problems = check_folder(out, croissant=croissant, note=lambda line: _progress(f"note: {line}"))
    for problem in problems:
        typer.echo(problem)
    if problems:
        raise typer.Exit(BAD_INPUT)
    typer.echo(f"{out}: ok")


@app.command()
def push(
    out: Annotated[Path | None, typer.Argument(help="Folder that `hub build` has made; none pushes the Space.")] = None,
    namespace: Namespace = None,
    space: Annotated[bool, typer.Option("--space", help="Push the metric's Space too, or alone.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this it is only shown.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make new repositories private.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace files on the Hub that ml-bench did not write.")
    ] = False,
) -> None:
    """Show what publishing would change on the Hub; with --yes, publish: one commit for each repository."""
    from ml_bench_hub.check import check_folder
    from ml_bench_hub.client import connect
    from ml_bench_hub.errors import HubError
    from ml_bench_hub.folder import read_manifest
    from ml_bench_hub.push import plan_push
    from ml_bench_hub.space import build_space, space_sdk

    if out is None and not space:
        raise typer.BadParameter("give a folder, or --space, or both")
    with tempfile.TemporaryDirectory(prefix="ml-bench-space-") as scratch:
        api = connect()
        plans = []
        if out is not None:
            manifest = read_manifest(out)
            if problems := check_folder(out):
                raise HubError(f"{out} has problems, see `ml-bench hub check`; the first: {problems[0]}")
            plans.append(plan_push(api, out, namespace, overwrite=overwrite))
            namespace = namespace or manifest.namespace
        if space:
            if namespace is None:
                raise HubError("the Space needs a namespace: give --namespace")
            folder = Path(scratch) / "space"
            build_space(folder, namespace)
            plans.append(plan_push(api, folder, namespace, space_sdk=space_sdk(folder), overwrite=overwrite))
        for plan in plans:
            _show(plan)
        _finish(api, plans, yes, private)


@app.command()
def results(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run of split L.")],
    k: Annotated[str | None, typer.Option(help="Values of k, separated by commas; by default all of the run.")] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="ID", help="Data set on the Hub that has the leaderboards.")
    ] = None,
    source_url: Annotated[str | None, typer.Option(help="Address of what stands behind the numbers.")] = None,
    without_real_assets: Annotated[
        bool,
        typer.Option(
            "--without-real-assets",
            help="Also where candidates ran with stand-ins for weights and data, or without any; the entry says so.",
        ),
    ] = False,
    push: Annotated[
        str | None, typer.Option(metavar="MODEL_ID", help="Write them into this model's repository.")
    ] = None,
    pull_request: Annotated[
        bool, typer.Option("--pull-request", help="Propose them there, where it is not your model.")
    ] = False,
) -> None:
    """Show a run's numbers as a model's repository states them; with --push, write them there."""
    from ml_bench_hub.client import connect
    from ml_bench_hub.eval_results import RESULTS_PATH, entries_to_yaml, push_entries, read_entries

    entries = read_entries(
        run,
        dataset=dataset,
        ks=parse_ks(k) if k else (),
        source_url=source_url,
        without_real_assets=without_real_assets,
    )
    typer.echo(entries_to_yaml(entries), nl=False)
    if push:
        _progress(push_entries(connect(), push, entries, pull_request=pull_request))
    else:
        _progress(f"this is {RESULTS_PATH} of a model's repository; --push MODEL_ID writes it there")


def _show(plan: Plan) -> None:
    state = "is new" if plan.creates else f"has {len(plan.changes)} files to change"
    typer.echo(f"{plan.repo_type} {plan.repo_id} {state if plan.changes else 'is up to date'}")
    signs = {"added": "+", "changed": "~", "removed": "-"}
    for change in plan.changes:
        sizes = " -> ".join(f"{size:,} bytes" for size in (change.before, change.after) if size is not None)
        typer.echo(f"  {signs[change.kind]} {change.path}  {sizes}")
    for path in plan.kept:
        typer.echo(f"  = {path}  stays: it is not of this build, but somebody else has changed it")


def _finish(api: HfApi, plans: list[Plan], yes: bool, private: bool) -> None:
    from ml_bench_hub.push import push as push_plan

    changing = [plan for plan in plans if plan.changes]
    if changing and not yes:
        _progress("nothing was sent: this is a dry run; --yes publishes")
        return
    for plan in changing:
        typer.echo(push_plan(api, plan, private=private))


def _progress(line: str) -> None:
    typer.echo(line, err=True)
