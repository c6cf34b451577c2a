"""Archives of images as `docker save` writes them, made without an engine."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
)


def labels(recipe: str = "r", digit: str = "a", **changed: str) -> dict[str, str]:
    """Labels of a whole environment image, whose digest repeats one hex digit."""
    return {
        LAYER: "environment",
        RECIPE: digit * 64,
        RECIPE_NAME: recipe,
        REPOSITORIES: recipe,
        TASKS: "",
        ASSETS: "not_needed",
        LACKING: "",
        DEVICE: "cpu",
        GPU: "none",
        PLATFORM: "",
        CHECKOUT: "yes",
        MISSING: "0",
        PARENT: "ml-bench/packages:r-0123456789ab",
        ORIGIN: "bootstrap bookworm",
        **changed,
    }


def write_archive(
    path: Path,
    images: Sequence[tuple[Sequence[str], Mapping[str, str]]],
    *,
    mode: str = "w",
    leave_out: Sequence[str] = (),
    layer: bytes = b"files of the layer",
) -> Path:
    """Write an archive.

    Args:
        path: of the archive.
        images: names and labels of each.
        mode: of `tarfile`: `w`, or `w:gz`.
        leave_out: files that are not written though the list of images names them.
        layer: content of the one layer, which the images share.
    """
    files: dict[str, bytes] = {}
    manifest: list[dict[str, Any]] = []
    for names, found in images:
        facts = {"config": {"Labels": dict(found)}, "rootfs": {"diff_ids": ["sha256:" + "1" * 64]}}
        text = json.dumps(facts).encode()
        configuration = hashlib.sha256(text).hexdigest() + ".json"
        files[configuration] = text
        manifest.append({"Config": configuration, "RepoTags": list(names), "Layers": ["1/layer.tar"]})
    files["1/layer.tar"] = layer
    files["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            if name not in leave_out:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path
