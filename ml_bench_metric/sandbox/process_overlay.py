"""Applying an overlay to a candidate's own copy of a repository, without following any link out of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ml_bench_metric.sandbox import overlay_archive
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import WORKSPACE


def apply(overlay: Overlay, workspace: Path, repository: str) -> None:
    """Change a copy as an overlay says.

    Args:
        overlay: what is changed.
        workspace: the folder that plays the part of `/workspace`.
        repository: name of the folder below it that is there.

    Raises:
        SandboxError: the overlay is refused, changes something else than this repository, or goes through a link.
    """
    overlay_archive.check(overlay)
    modes: list[tuple[Path, int]] = []
    try:
        for path in overlay.deleted:
            remove(_place(path, workspace, repository))
        for entry in overlay_archive.entries(overlay):
            if entry.path == WORKSPACE and entry.facts.isdir():
                continue
            place = _place(entry.path, workspace, repository)
            place.parent.mkdir(parents=True, exist_ok=True)
            if entry.facts.isdir():
                if place.is_symlink() or not place.is_dir():
                    remove(place)
                    place.mkdir()
                modes.append((place, entry.facts.mode))
                continue
            remove(place)
            if entry.facts.issym():
                place.symlink_to(entry.facts.linkname)
                continue
            with place.open("xb") as file:
                for data in entry.blocks():
                    file.write(data)
            place.chmod(entry.facts.mode)
            os.utime(place, (entry.facts.mtime, entry.facts.mtime))
        # Last: what lies in a folder that nobody may write is there by then.
        for place, mode in reversed(modes):
            place.chmod(mode)
    except (OSError, ValueError) as error:
        raise SandboxError(f"the overlay could not be applied: {error}") from error


def _place(path: str, workspace: Path, repository: str) -> Path:
    """Return where a path lies in the copy; all folders above it are folders, or not there."""
    root = f"{WORKSPACE}/{repository}"
    if path != root and not path.startswith(f"{root}/"):
        raise SandboxError(
            f"the overlay changes {path}, and the process sandbox has only {root} to change: use containers"
        )
    place = workspace
    *above, name = path.removeprefix(f"{WORKSPACE}/").split("/")
    for part in above:
        place = place / part
        if place.is_symlink():
            raise SandboxError(f"the overlay changes {path} through a link, which the process sandbox does not follow")
    return place / name


def remove(place: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; do nothing where there is none.

    Raises:
        OSError: it cannot be removed.
    """
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
