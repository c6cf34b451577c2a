"""The weights and data of an image: the real ones that were fetched, or generated stand-ins."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ml_bench_metric.environments.assets import AssetStore, unpacked
from ml_bench_metric.environments.build_log import BuildError, BuildLog
from ml_bench_metric.environments.builder import Builder
from ml_bench_metric.environments.files import OWNER, packed, packed_file
from ml_bench_metric.environments.images import AssetsWanted, content_digest
from ml_bench_metric.environments.recipe import Asset, Recipe
from ml_bench_metric.tasks import WORKSPACE

STAND_IN_SECONDS = 600
FOLDER_SECONDS = 60


@dataclass(frozen=True)
class AssetLayer:
    """What is put on top of an image that has packages and repositories."""

    kind: Literal["stand_in", "real"]
    digest: str
    """SHA-256 (hex) of what decides on its contents."""
    lacking_tasks: tuple[str, ...]
    """Tasks that need an asset which is not in it."""
    put: Callable[[Builder, BuildLog], None]
    """Puts it into a container without network."""


def plan_assets(recipe: Recipe, wanted: AssetsWanted, store: AssetStore | None = None) -> AssetLayer | None:
    """Return the assets that a recipe's image is to get; None for none.

    Args:
        recipe: whose tasks need them.
        wanted: `auto`: real ones where all have been fetched, else stand-ins where the recipe has some, else none.
        store: where fetched ones are.

    Raises:
        BuildError: real ones are wanted and none, or one that all tasks need, has not been fetched; or stand-ins are
            wanted, and the recipe has no program that makes them.
    """
    if not recipe.needs_assets or wanted == "none":
        return None
    store = store or AssetStore()
    here = {asset.name: digest for asset in recipe.assets if (digest := store.sha256(asset)) is not None}
    if wanted == "real" or (wanted == "auto" and recipe.assets and len(here) == len(recipe.assets)):
        return _real(recipe, store, here)
    if recipe.stand_ins is not None:
        return _stand_ins(recipe, recipe.stand_ins)
    if wanted == "stand_in":
        raise BuildError(f"{recipe.name}: there are no stand-ins for its assets; build it with --assets real or none")
    return None


def _real(recipe: Recipe, store: AssetStore, here: dict[str, str]) -> AssetLayer:
    if not recipe.assets:
        raise BuildError(f"{recipe.name}: it lists no real assets; build it with --assets stand-in or none")
    lacking = [asset for asset in recipe.assets if asset.name not in here]
    if not here or any(not asset.tasks for asset in lacking):
        names = ", ".join(asset.name for asset in lacking)
        raise BuildError(
            f"{recipe.name}: real assets are not here: {names}; `ml-bench assets fetch {recipe.name}` brings them"
        )

    def put(builder: Builder, log: BuildLog) -> None:
        if lacking:
            log.note(f"without {', '.join(asset.name for asset in lacking)}, which have not been fetched")
        for asset in recipe.assets:
            if asset.name in here:
                _put_asset(asset, store, builder, log)

    parts = [(asset.name, asset.to, asset.unpack, here[asset.name]) for asset in recipe.assets if asset.name in here]
    tasks = sorted({task_id for asset in lacking for task_id in asset.tasks})
    return AssetLayer("real", content_digest("real", parts, tasks), tuple(tasks), put)


def _put_asset(asset: Asset, store: AssetStore, builder: Builder, log: BuildLog) -> None:
    path = store.path(asset)
    if path is None:
        raise BuildError(f"asset {asset.name} has gone from the store; `ml-bench assets fetch` brings it again")
    folder, name = posixpath.split(asset.to)
    # As the candidate where that is allowed, so that it may write beside the asset.
    make = f"mkdir -p {shlex.quote(folder)}"
    builder.run(
        f"folder of {asset.name}",
        f"setpriv --reuid={OWNER} --regid={OWNER} --clear-groups {make} 2>/dev/null || {make}",
        seconds=FOLDER_SECONDS,
    )
    with log.step(f"asset {asset.name}"), unpacked(asset, path) as ready:
        pack = packed(ready, name, caches=True) if ready.is_dir() else packed_file(ready, name)
        with pack as archive:
            builder.put(folder, archive)


def _stand_ins(recipe: Recipe, program: str) -> AssetLayer:
    directory = next(iter(recipe.directories.values()))

    def put(builder: Builder, log: BuildLog) -> None:
        builder.run(
            "stand-ins for weights and data",
            f'cd {shlex.quote(f"{WORKSPACE}/{directory}")}\npython -c "$PROGRAM"\nfind /tmp -mindepth 1 -delete',
            seconds=STAND_IN_SECONDS,
            user=f"{OWNER}:{OWNER}",
            variables={"PROGRAM": program, "HOME": "/home/candidate", "PYTHONDONTWRITEBYTECODE": "1"},
        )

    return AssetLayer("stand_in", content_digest("stand-in", program), (), put)
