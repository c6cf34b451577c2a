"""The layers of an environment's image: what each is called, and how it is made of the one below."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ml_bench_metric.environments import registry
from ml_bench_metric.environments.asset_layer import AssetLayer, plan_assets
from ml_bench_metric.environments.base import Base
from ml_bench_metric.environments.build_log import BuildLog
from ml_bench_metric.environments.builder import VARIABLES, Builder, StepFailed
from ml_bench_metric.environments.checkout import Source, checked_out, find_source
from ml_bench_metric.environments.files import OWNER, fingerprint, packed
from ml_bench_metric.environments.host_settings import NO_SETTINGS, HostSettings
from ml_bench_metric.environments.images import (
    ASSETS,
    CHECKOUT,
    DEVICE,
    GPU,
    LACKING,
    LAYER,
    MISSING,
    ORIGIN,
    PARENT,
    PLATFORM,
    RECIPE,
    RECIPE_NAME,
    REPOSITORIES,
    TASKS,
    AssetsWanted,
    content_digest,
    image_kind,
    image_name,
)
from ml_bench_metric.environments.recipe import Device, Layer, Recipe
from ml_bench_metric.environments.requirements import normalised
from ml_bench_metric.sandbox.execution import Assets
from ml_bench_metric.tasks import WORKSPACE

if TYPE_CHECKING:
    from docker import DockerClient

APT_SECONDS = 900
PIP_SECONDS = 3600
SCRIPT_SECONDS = 600
IMPORT_SECONDS = 300

PACKAGES = "ml-bench/packages"

VENV = "/opt/env"
"""The Python environment of a bare image, which is its user's own and first on the path: with no rights but its own an
agent could install nothing otherwise, and what it has installed must be found where it is judged."""
_VENV = f"""
mkdir -p {VENV} && chown {OWNER}:{OWNER} {VENV}
setpriv --reuid={OWNER} --regid={OWNER} --clear-groups env HOME=/home/candidate python -m venv {VENV}
"""
_PART_BYTES = 100_000
"""How much of a file one environment variable hands over; Linux takes 131,071 bytes."""

_APT = """
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends {packages}
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*.log /var/log/apt
"""
_PIP = """
printf %s {parts} > /tmp/requirements.txt
PIP_ROOT_USER_ACTION=ignore python -m pip install --no-cache-dir --no-input --progress-bar off \
--disable-pip-version-check --no-deps --require-hashes -r /tmp/requirements.txt
"""


@dataclass(frozen=True)
class Plan:
    """What goes into a recipe's image, as far as it can be known without making anything."""

    recipe: Recipe
    packages: tuple[Layer, ...]
    """Layers of packages, the lowest first; without those that add nothing."""
    sources: tuple[Source, ...]
    """Of the repositories that come from git; empty where the image is to be without them."""
    assets: AssetLayer | None
    """What is put on top; None for nothing."""
    device: Device
    platform: str
    checkout: bool
    bare: bool = False

    @property
    def python(self) -> str:
        """The Python of its base."""
        return registry.layers(self.recipe)[0].python or ""

    @property
    def missing_files(self) -> int:
        """Number of files that the mirrors lack."""
        return sum(len(source.missing) for source in self.sources)

    @property
    def kind_of_assets(self) -> Assets:
        """Which weights and data the finished image has."""
        if self.assets is not None:
            return self.assets.kind
        return "none" if self.recipe.needs_assets else "not_needed"


def plan_image(
    recipe: Recipe,
    *,
    repositories: Path | None,
    assets: AssetsWanted,
    device: Device,
    platform: str,
    checkout: bool,
    bare: bool = False,
) -> Plan:
    """Return what goes into a recipe's image.

    Args:
        recipe: of the image.
        repositories: folder with git mirrors; None: clone.
        assets: which it is to have, see `plan_assets`.
        device: what packages are made for; those of repositories that use no CUDA are always made for a CPU.
        platform: such as `linux/arm64`; empty for the engine's own.
        checkout: whether the repositories' files, and with them assets, are to be in it.
        bare: whether these files are to be all that is on the base: no packages, no assets, no variables.

    Raises:
        RecipeError: the recipe, or what it extends, is faulty.
        BuildError: mirrors lack the commit, or assets are not there.
    """
    return Plan(
        recipe=recipe,
        packages=tuple(layer for layer in registry.layers(recipe) if layer.has_packages and not bare),
        sources=tuple(find_source(item, repositories) for item in recipe.checkouts if checkout),
        assets=plan_assets(recipe, assets) if checkout and not bare else None,
        device=device if recipe.gpu != "none" and not bare else "cpu",
        platform=platform,
        checkout=checkout,
        bare=bare,
    )


@dataclass(frozen=True)
class ImageLayer:
    """One layer: an image that is made of the one below."""

    name: str
    """Ends with the first 12 hex digits of the digest of all that goes into it and what is below."""
    digest: str
    make: Callable[[str, BuildLog], None]
    """Makes it, given the name of the image below."""


def stack(client: DockerClient, plan: Plan, base: Base, settings: HostSettings = NO_SETTINGS) -> list[ImageLayer]:
    """Return the layers of an image, the lowest first; the last is the image.

    Args:
        client: of the engine on which they are made.
        plan: what goes into it.
        base: below all of them.
        settings: of the host, for what is installed from the network.

    Raises:
        RecipeError: the recipe's package cannot be used.
    """
    maker = _Maker(client, plan, base, settings)
    found, digest = [], base.digest
    for layer in plan.packages:
        found.append(maker.packages(layer, digest))
        digest = found[-1].digest
    found.append(maker.bare(digest) if plan.bare else maker.repositories(digest))
    if plan.assets is not None:
        found.append(maker.assets(plan.assets, found[-1].digest))
    return found


class _Maker:
    def __init__(self, client: DockerClient, plan: Plan, base: Base, settings: HostSettings) -> None:
        self._client = client
        self._plan = plan
        self._base = base
        self._settings = settings

    def packages(self, layer: Layer, below: str) -> ImageLayer:
        plan = self._plan
        requirements = layer.requirements(plan.device)
        scripts = [(layer.folder / script).read_text(encoding="utf-8") for script in layer.scripts]
        digest = content_digest("packages", below, layer.apt, normalised(requirements), layer.pip_index, scripts)
        name = image_name(PACKAGES, digest, layer.name.lower())

        def make(parent: str, log: BuildLog) -> None:
            with Builder(self._client, parent, log, self._settings, platform=plan.platform) as builder:
                if layer.apt:
                    builder.run("apt-get install", _APT.format(packages=shlex.join(layer.apt)), seconds=APT_SECONDS)
                if requirements:
                    _install(layer, requirements, builder, log)
                for script, text in zip(layer.scripts, scripts, strict=True):
                    builder.run(script, 'python -c "$SCRIPT"', seconds=SCRIPT_SECONDS, variables={"SCRIPT": text})
                builder.run("clean up", "find /tmp -mindepth 1 -delete; rm -rf /root/.cache", seconds=SCRIPT_SECONDS)
                builder.commit(name, labels={LAYER: "packages", RECIPE: digest, PARENT: parent}, variables={})

        return ImageLayer(name, digest, make)

    def repositories(self, below: str) -> ImageLayer:
        plan, recipe = self._plan, self._plan.recipe
        imports = tuple(dict.fromkeys(name for layer in registry.layers(recipe) for name in layer.imports))
        parts = (recipe.directories, _files_digests(plan), imports, dict(recipe.environment), recipe.tasks, recipe.gpu)
        digest = content_digest("environment", below, *parts)
        assets: Assets = "none" if recipe.needs_assets else "not_needed"
        name = self._name(digest, assets)

        def make(parent: str, log: BuildLog) -> None:
            with Builder(self._client, parent, log, NO_SETTINGS, network=False, platform=plan.platform) as builder:
                self._put_repositories(builder, log)
                if imports:
                    builder.run(
                        "import " + ", ".join(imports),
                        # Not in /workspace, where a repository's folder may have a module's name.
                        f"cd /; python -c 'import {', '.join(imports)}'; find /tmp -mindepth 1 -delete",
                        seconds=IMPORT_SECONDS,
                        user=f"{OWNER}:{OWNER}",
                        variables={**recipe.environment, "HOME": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"},
                    )
                builder.commit(name, labels=self._labels(digest, parent, assets, ()), variables=recipe.environment)

        return ImageLayer(name, digest, make)

    def bare(self, below: str) -> ImageLayer:
        """Return the layer of an image in which an agent sets up everything."""
        plan, recipe = self._plan, self._plan.recipe
        variables = {
            "PATH": f"{VENV}/bin:{VARIABLES['PATH']}",
            "VIRTUAL_ENV": VENV,
            # What pip would keep in the home folder is changes that agents leave, and of no use to anybody.
            "PIP_NO_CACHE_DIR": "1",
        }
        parts = (recipe.directories, _files_digests(plan), recipe.tasks, _VENV, variables)
        digest = content_digest("bare environment", below, *parts)
        assets: Assets = "none" if recipe.needs_assets else "not_needed"
        name = self._name(digest, assets)

        def make(parent: str, log: BuildLog) -> None:
            with Builder(self._client, parent, log, NO_SETTINGS, network=False, platform=plan.platform) as builder:
                self._put_repositories(builder, log)
                builder.run(f"python -m venv {VENV}", _VENV, seconds=SCRIPT_SECONDS)
                builder.commit(name, labels=self._labels(digest, parent, assets, ()), variables=variables)

        return ImageLayer(name, digest, make)

    def assets(self, layer: AssetLayer, below: str) -> ImageLayer:
        digest = content_digest("assets", below, layer.digest)
        name = self._name(digest, layer.kind)

        def make(parent: str, log: BuildLog) -> None:
            with Builder(
                self._client, parent, log, NO_SETTINGS, network=False, platform=self._plan.platform
            ) as builder:
                layer.put(builder, log)
                builder.commit(
                    name,
                    labels=self._labels(digest, parent, layer.kind, layer.lacking_tasks),
                    variables=self._plan.recipe.environment,
                )

        return ImageLayer(name, digest, make)

    def _name(self, digest: str, assets: Assets) -> str:
        plan = self._plan
        return image_name(
            plan.recipe.image,
            digest,
            image_kind(assets, plan.device, plan.platform, checkout=plan.checkout, bare=plan.bare),
        )

    def _labels(self, digest: str, parent: str, assets: Assets, lacking_tasks: Sequence[str]) -> dict[str, str]:
        plan, recipe = self._plan, self._plan.recipe
        return {
            LAYER: "environment",
            RECIPE: digest,
            RECIPE_NAME: recipe.name,
            REPOSITORIES: ",".join(recipe.directories),
            TASKS: ",".join(recipe.tasks),
            ASSETS: assets,
            LACKING: ",".join(lacking_tasks),
            DEVICE: plan.device,
            GPU: recipe.gpu,
            PLATFORM: plan.platform,
            CHECKOUT: "bare" if plan.bare else "yes" if plan.checkout else "no",
            MISSING: str(plan.missing_files),
            PARENT: parent,
            ORIGIN: self._base.origin,
        }

    def _put_repositories(self, builder: Builder, log: BuildLog) -> None:
        recipe = self._plan.recipe
        if not self._plan.checkout:
            folders = " ".join(shlex.quote(f"{WORKSPACE}/{name}") for name in recipe.directories.values())
            builder.run("empty folders", f"mkdir -p {folders}", seconds=SCRIPT_SECONDS, user=f"{OWNER}:{OWNER}")
        elif recipe.package is not None:
            for directory in recipe.directories.values():
                with (
                    log.step(f"files of {directory}"),
                    packed(recipe.package_folder() / directory, directory, caches=False) as archive,
                ):
                    builder.put(WORKSPACE, archive)
        for source in self._plan.sources:
            directory = source.repository.directory
            with (
                checked_out(source, log) as folder,
                log.step(f"files of {directory}"),
                packed(folder, directory, caches=True) as archive,
            ):
                builder.put(WORKSPACE, archive)


def _install(layer: Layer, requirements: str, builder: Builder, log: BuildLog) -> None:
    step = f"pip install {len(normalised(requirements))} requirements of {layer.name}"
    # Through variables: where the host's files are mounted, the engine does not copy files without leaving traces.
    starts = range(0, len(requirements), _PART_BYTES)
    variables = {f"PART_{start}": requirements[start : start + _PART_BYTES] for start in starts}
    command = _PIP.format(parts=" ".join(f'"${name}"' for name in variables))
    try:
        builder.run(step, command, seconds=PIP_SECONDS, variables=variables)
    except StepFailed as error:
        # A host with its own index or wheels may be unable to reach the further one, so that comes second.
        if layer.pip_index is None or "No matching distribution" not in str(error):
            raise
        log.note(f"not everything is to be had from the host's own package sources; asking {layer.pip_index} too")
        builder.run(
            f"{step}, with {layer.pip_index}",
            'export PIP_EXTRA_INDEX_URL="${PIP_EXTRA_INDEX_URL:-} $INDEX"\n' + command,
            seconds=PIP_SECONDS,
            variables={**variables, "INDEX": layer.pip_index},
        )


def _files_digests(plan: Plan) -> dict[str, str]:
    """Return name of each repository -> what tells its files from others: a commit, or a digest."""
    recipe = plan.recipe
    if not plan.checkout:
        return {}
    if recipe.package is not None:
        folder = recipe.package_folder()
        return {name: fingerprint(folder / directory) for name, directory in recipe.directories.items()}
    return {source.repository.name: source.digest for source in plan.sources}
