"""Building the environments' images, in layers: base, packages, the repositories' files, assets.

Every layer is named after the digest of what goes into it, so an unchanged one is never made again, and recipes with
the same packages share them.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ml_bench_metric.cache_folder import cache_folder
from ml_bench_metric.environments import registry
from ml_bench_metric.environments.base import find_base, make_base
from ml_bench_metric.environments.build_log import BuildError, BuildLog, Progress, writable
from ml_bench_metric.environments.builder import sweep
from ml_bench_metric.environments.engine_calls import patient
from ml_bench_metric.environments.host_settings import host_settings
from ml_bench_metric.environments.images import LATEST, AssetsWanted, image_id
from ml_bench_metric.environments.layers import Plan, plan_image, stack
from ml_bench_metric.environments.recipe import Device, Recipe
from ml_bench_metric.sandbox.execution import Assets

if TYPE_CHECKING:
    from docker import DockerClient

JOBS = 2
"""How many images are built at a time by default: while one waits for the network, another one unpacks."""


@dataclass(frozen=True)
class BuiltImage:
    """The image of a recipe, made now or found unchanged."""

    recipe: str
    name: str
    """`ml-bench/<recipe>:[<kind>-]<12 hex>`."""
    digest: str
    """`sha256:…`, as the engine knows it."""
    assets: Assets
    missing_files: int
    """Files of the repositories' commits that the git mirrors lacked."""
    seconds: float
    """Wall time that it took to make, or to find."""
    size: int
    """In bytes, shared layers included."""
    reused: bool
    """Whether nothing had to be made."""


@dataclass(frozen=True)
class Options:
    """How images are to be built, apart from their recipes."""

    base: str = "auto"
    """`auto` (an existing one, else pulled, else bootstrapped), `pull`, `bootstrap`, or the path of a tar file."""
    repositories: Path | None = None
    """Folder with git mirrors; a repository that has none there is cloned from its URL."""
    assets: AssetsWanted = "auto"
    """`auto`: real ones where all have been fetched, else stand-ins where there are any, else none."""
    device: Device = "cpu"
    """What packages are made for; those of repositories that use no CUDA are always made for a CPU."""
    platform: str = ""
    """Such as `linux/arm64`; empty for the engine's own."""
    checkout: bool = True
    """Whether the repositories' files are in the image; without them only what comes from packages can run."""
    bare: bool = False
    """Whether the image is to have nothing but its base and the repositories' files, for agents that set it up."""


def build(
    names: Iterable[str],
    client: DockerClient,
    options: Options | None = None,
    *,
    jobs: int = JOBS,
    progress: Progress = lambda line: None,
) -> list[BuiltImage]:
    """Build the images of some recipes, and return them. What is unchanged is not made again.

    Where an image cannot be made, the others are; then the error tells of all that could not.

    Args:
        names: of recipes or repositories; empty: all recipes.
        client: of the engine.
        options: how.
        jobs: how many images are built at a time.
        progress: receives a line at the beginning and at the end of every step; from several threads.

    Raises:
        EnvironmentUnknown: a name has no recipe.
        RecipeError: a recipe is faulty.
        BaseUnknown: the base is asked for in a way that does not exist.
        BuildError: an image could not be made; the message ends with the reason.
    """
    chosen = registry.select(names)
    with patient(client):
        session = _Session(client, options or Options(), progress)
        plans: list[Plan] = []
        failures: list[BuildError] = []
        for recipe in chosen:
            try:
                plans.append(session.plan(recipe))
            except BuildError as error:
                progress(str(error))
                failures.append(error)
        complete = all(session.name(plan) is not None for plan in plans)
        with contextlib.nullcontext() if complete else _alone(progress):
            if not complete:
                sweep(client)
            return _all(session, plans, failures, jobs)


def _all(session: _Session, plans: Sequence[Plan], failures: list[BuildError], jobs: int) -> list[BuiltImage]:
    """Make what is missing of the planned images, and return them all; tell of those too that could not be planned."""
    wanted = len(plans) + len(failures)
    built: list[BuiltImage] = []
    with ThreadPoolExecutor(jobs, thread_name_prefix="ml-bench-build") as pool:
        futures = [pool.submit(session.build, plan) for plan in plans]
        try:
            for future in futures:
                try:
                    built.append(future.result())
                except BuildError as error:
                    failures.append(error)
        except BaseException:
            # Ctrl-C, or a fault of ours: nothing new begins, and what runs in a container ends with it.
            session.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    if failures:
        done = f"\n{len(built)} of {wanted} images are ready; the same command goes on" if wanted > 1 else ""
        raise BuildError("\n".join(map(str, failures)) + done)
    return built


class _Session:
    """The builds of one call: what several images need is made once, by who comes first."""

    def __init__(self, client: DockerClient, options: Options, progress: Progress) -> None:
        self._client = client
        self._options = options
        self._progress = progress
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._stop = threading.Event()

    def plan(self, recipe: Recipe) -> Plan:
        """Return what goes into a recipe's image.

        Raises:
            RecipeError: the recipe, or what it extends, is faulty.
            BuildError: mirrors lack the commit, or assets are not there.
        """
        options = self._options
        return plan_image(
            recipe,
            repositories=options.repositories,
            assets=options.assets,
            device=options.device,
            platform=options.platform,
            checkout=options.checkout,
            bare=options.bare,
        )

    def name(self, plan: Plan) -> str | None:
        """Return the name of the finished image; None if the engine does not have it.

        Raises:
            RecipeError: the recipe's package cannot be used.
        """
        base = find_base(self._client, plan.python, self._options.base, plan.platform)
        if base is None:
            return None
        name = stack(self._client, plan, base)[-1].name
        return name if image_id(self._client, name) is not None else None

    def build(self, plan: Plan) -> BuiltImage:
        """Make what is missing of an image, and return it.

        Raises:
            BuildError: it could not be made.
        """
        start = time.monotonic()
        name = self.name(plan)
        reused = name is not None
        if name is None:
            name = self._make(plan)
        repository, _, tag = (name[:-12] + LATEST).rpartition(":")
        self._client.api.tag(name, repository, tag)
        facts = self._client.api.inspect_image(name)
        self._progress(f"{plan.recipe.name}: {name} {'is unchanged' if reused else 'is ready'}")
        return BuiltImage(
            recipe=plan.recipe.name,
            name=name,
            digest=facts["Id"],
            assets=plan.kind_of_assets,
            missing_files=plan.missing_files,
            seconds=time.monotonic() - start,
            size=facts["Size"],
            reused=reused,
        )

    def stop(self) -> None:
        """Let nothing new begin, and end the steps that run; from another thread."""
        self._stop.set()

    def _make(self, plan: Plan) -> str:
        options, settings = self._options, host_settings()
        file = cache_folder() / "build-logs" / f"{plan.recipe.name}.log"
        with BuildLog(file, self._progress, plan.recipe.name, self._stop) as log:
            with self._alone_with(f"base {plan.python}", log):
                base = find_base(self._client, plan.python, options.base, plan.platform) or make_base(
                    self._client, plan.python, options.base, settings, log, plan.platform
                )
            below = base.name
            for layer in stack(self._client, plan, base, settings):
                with self._alone_with(layer.name, log):
                    if image_id(self._client, layer.name) is None:
                        layer.make(below, log)
                below = layer.name
            return below

    @contextlib.contextmanager
    def _alone_with(self, name: str, log: BuildLog) -> Iterator[None]:
        """Keep the other threads from making the same image."""
        with self._guard:
            lock = self._locks.setdefault(name, threading.Lock())
        if not lock.acquire(blocking=False):
            log.note(f"waiting for {name}, which another image needs too")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


@contextlib.contextmanager
def _alone(progress: Progress) -> Iterator[None]:
    """Keep other builds of this user waiting: two that make the same image would replace each other's."""
    with writable(cache_folder() / "build.lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            progress("another build is running; waiting for its end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
