"""Looking whether the images that were built are what their recipes say, and do what candidates need."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from ml_bench_metric.environments import registry
from ml_bench_metric.environments.base import find_base
from ml_bench_metric.environments.build_log import BuildError
from ml_bench_metric.environments.engine_calls import told
from ml_bench_metric.environments.files import OWNER
from ml_bench_metric.environments.images import (
    ASSETS,
    CHECKOUT,
    DEVICE,
    MISSING,
    ORIGIN,
    PLATFORM,
    RECIPE_NAME,
    REPOSITORIES,
    AssetsWanted,
)
from ml_bench_metric.environments.inside import ask_inside
from ml_bench_metric.environments.labels import label_faults
from ml_bench_metric.environments.layers import plan_image, stack
from ml_bench_metric.environments.recipe import Device, Recipe
from ml_bench_metric.environments.stored import StoredImage
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import WORKSPACE

if TYPE_CHECKING:
    from docker import DockerClient

LOOK_SECONDS = 600
"""How long one image may take: all imports of the largest need half a minute when nothing is in memory."""

_INSIDE = Path(__file__).parent / "inside_check.py"

State = Literal["ok", "older", "unknown", "fault"]
"""What a finding means. `older`: it was built from another state of its recipe; it does what that one said."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at in an image."""

    image: str
    what: str
    state: State
    detail: str = ""


def check_images(client: DockerClient, images: Iterable[StoredImage], mirrors: Path | None = None) -> Iterator[Finding]:
    """Yield what is found in environment images, one after the other.

    Their labels must be whole. They are compared with what would be built now from their recipes. Python's version, the
    repositories' folders and the recipe's imports are looked at in a container, as a candidate finds them.

    Args:
        client: of the engine.
        images: see `chosen`.
        mirrors: folder with git mirrors, which tells what an incomplete checkout lacks.

    Raises:
        RecipeError: a recipe is faulty.
        SandboxError: the engine failed.
    """
    for image in images:
        with told(f"checking {image.name}"):
            yield from _check(client, image, mirrors)


def _check(client: DockerClient, image: StoredImage, mirrors: Path | None) -> Iterator[Finding]:
    name, labels = str(image.name), image.labels
    faults = label_faults(image)
    if faults:
        yield from (Finding(name, "labels", "fault", f"{fault}; build it again") for fault in faults)
        return
    yield Finding(name, "labels", "ok")
    recipe = next((recipe for recipe in registry.recipes() if recipe.name == labels[RECIPE_NAME]), None)
    if recipe is None:
        yield Finding(name, "recipe", "older", f"there is no recipe {labels[RECIPE_NAME]} any more")
        return
    yield _compared(client, image, recipe, mirrors)
    yield from _inside(client, image, recipe)


def _compared(client: DockerClient, image: StoredImage, recipe: Recipe, mirrors: Path | None) -> Finding:
    """Return whether a build would find the image unchanged."""
    name, labels = str(image.name), image.labels
    if int(labels[MISSING]) and mirrors is None:
        return Finding(name, "recipe", "unknown", "--repositories DIR is needed: its checkout is not complete")
    try:
        present = _present_name(client, image, recipe, mirrors)
    except BuildError as error:
        return Finding(name, "recipe", "unknown", str(error).splitlines()[0])
    if present == name:
        return Finding(name, "recipe", "ok")
    if present is None:
        return Finding(name, "recipe", "unknown", "the engine has no base of its kind, or only an older one")
    return Finding(name, "recipe", "older", f"`ml-bench images build {recipe.name}` makes {present}")


def _present_name(client: DockerClient, image: StoredImage, recipe: Recipe, mirrors: Path | None) -> str | None:
    labels = image.labels
    wanted = cast(AssetsWanted, labels[ASSETS] if labels[ASSETS] in ("stand_in", "real") else "none")
    plan = plan_image(
        recipe,
        repositories=mirrors,
        assets=wanted,
        device=cast(Device, labels[DEVICE]),
        platform=labels[PLATFORM],
        checkout=labels[CHECKOUT] != "no",
        bare=labels[CHECKOUT] == "bare",
    )
    way = labels[ORIGIN].partition(" ")[0]
    base = find_base(client, plan.python, way if way in ("pull", "bootstrap") else "auto", plan.platform)
    return stack(client, plan, base)[-1].name if base else None


def _inside(client: DockerClient, image: StoredImage, recipe: Recipe) -> Iterator[Finding]:
    name, labels = str(image.name), image.labels
    layers = registry.layers(recipe)
    # What it is to be without is what agents install.
    bare = labels[CHECKOUT] == "bare"
    modules = [] if bare else list(dict.fromkeys(module for layer in layers for module in layer.imports))
    directories = [recipe.directories.get(item, item) for item in labels[REPOSITORIES].split(",")]
    wanted = {
        "folders": [f"{WORKSPACE}/{directory}" for directory in directories],
        "may_be_empty": labels[CHECKOUT] == "no",
        "modules": modules,
    }
    program = shlex.join(["python", "-c", _INSIDE.read_text(encoding="utf-8"), json.dumps(wanted)])
    try:
        # A module that ends the process leaves answers out, and is told by that.
        text = ask_inside(client, image.digest, program + "\nexit 0", user=f"{OWNER}:{OWNER}", seconds=LOOK_SECONDS)
    except SandboxError as error:
        state: State = "unknown" if labels[PLATFORM] else "fault"
        yield Finding(name, "container", state, str(error))
        return
    answers = [cast(tuple[str, str, str], json.loads(line)) for line in text.splitlines()]
    yield from _told(name, layers[0].python or "", answers)
    imported = [module for kind, module, _ in answers if kind == "import"]
    if imported != modules:
        yield Finding(name, f"import {modules[len(imported)]}", "fault", "it ended the process")


def _told(name: str, python: str, answers: Sequence[tuple[str, str, str]]) -> Iterator[Finding]:
    for kind, what, fault in answers:
        if kind == "python":
            fault = "" if what == python else f"the recipe has {python}"
        yield Finding(name, f"{kind} {what}", "fault" if fault else "ok", fault)
