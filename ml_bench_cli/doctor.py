"""`ml-bench doctor`: whether verdicts that are made on this machine can be trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from ml_bench_cli.options import UNEXPECTED, Image

if TYPE_CHECKING:
    from ml_bench_metric.doctor import Finding, Patient, State
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox


def doctor(
    image: Image = None,
    only_quick: Annotated[bool, typer.Option("--quick", help="Only what takes a second.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines.")] = False,
) -> None:
    """Try out the engine, every limit of the sandbox, images and a reference. Exit status 1: something is wrong."""
    from ml_bench_metric.sandbox.docker_sandbox import DockerSandbox

    faults = count = 0
    with DockerSandbox() as sandbox:
        for finding in _findings(sandbox, image, only_quick):
            count += 1
            faults += finding.state == "fault"
            if as_json:
                print(json.dumps(asdict(finding)), flush=True)
            else:
                _print(finding)
    if not as_json:
        typer.echo(f"{count} checks, {faults} faults", err=True)
    if faults:
        raise typer.Exit(UNEXPECTED)


def _print(finding: Finding) -> None:
    """Print what was found, and what to do about it."""
    from ml_bench_metric.printable import printable

    typer.echo(f"{finding.state:<8} {finding.name}: {printable(finding.detail)}")
    if finding.remedy and finding.state != "ok":
        typer.echo(f"{'':<8} {printable(finding.remedy)}")


def _findings(sandbox: DockerSandbox, image: str | None, only_quick: bool) -> Iterator[Finding]:
    from ml_bench_metric import doctor as examining
    from ml_bench_metric.environments.check import check_images
    from ml_bench_metric.environments.chosen import chosen

    patient = _patient_of(sandbox, image)
    if patient is None:
        yield examining.Finding(
            "images", "fault", "the engine has none of this project", "`ml-bench images build sample` makes a small one"
        )
        return
    yield from examining.quick(patient)
    if only_quick:
        return
    yield from examining.full(patient)
    for image_name, of_image in groupby(
        check_images(sandbox.client, chosen(sandbox.client, ())), lambda one: one.image
    ):
        looked = list(of_image)
        wrong = [one for one in looked if one.state != "ok"]
        state: State = "ok" if not wrong else "fault" if any(one.state == "fault" for one in wrong) else "warning"
        detail = "; ".join(f"{one.what} ({one.state}): {one.detail}" for one in wrong)
        yield examining.Finding(
            f"image {image_name}", state, detail or f"{len(looked)} checks", "build it again" if wrong else ""
        )


def _patient_of(sandbox: DockerSandbox, image: str | None) -> Patient | None:
    """Return what is to be examined on an engine; None where it has no image of this project.

    Args:
        sandbox: on the engine.
        image: in which the trials run; None for that of the sample, else any that was built.
    """
    from ml_bench_metric.doctor import Patient
    from ml_bench_metric.environments.images import list_images

    built = list_images(sandbox.client)
    if image is not None:
        serving = next((one.repositories for one in built if one.name == image), ())
        return Patient(sandbox, image, serving, dict(sandbox.client.info()))
    best = sorted(built, key=lambda one: (one.recipe != "sample", not one.current))
    return Patient(sandbox, best[0].name, best[0].repositories, dict(sandbox.client.info())) if best else None
