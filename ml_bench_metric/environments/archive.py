"""Reading an archive of images before the engine gets it: what is in it, whether it is whole, and whether it is ours.

The form is that of `docker save`: `manifest.json` lists each image's names, its configuration and its layers, all files
of the archive (Docker's image specification 1.2; newer engines store the same beside an OCI layout).
"""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ml_bench_metric.environments.images import LAYER, RECIPE
from ml_bench_metric.environments.stored import latest_name

_CHUNK = 1 << 20
_JSON_BYTES = 4 << 20
"""Files of this size at the most are looked at; the largest configuration of ours is some kilobytes."""


class ArchiveError(ValueError):
    """An archive cannot be used or written; the message names it and the way out."""


@dataclass(frozen=True)
class ArchivedImage:
    """An image in an archive."""

    names: tuple[str, ...]
    labels: Mapping[str, str]
    layers: tuple[str, ...]
    """Digests of its layers, the lowest first."""

    @property
    def name(self) -> str:
        """The name that it has from its digest; `""` if it is no environment image of this project.

        It must have no names but those that a build gives: loading it would take them from other images.
        """
        recipe = self.labels.get(RECIPE, "")
        if self.labels.get(LAYER) != "environment" or len(recipe) != 64:
            return ""
        name = next((n for n in self.names if n.startswith("ml-bench/") and n.endswith(recipe[:12])), "")
        return name if name and set(self.names) <= {name, latest_name(name)} else ""


def read_archive(path: Path, advance: Callable[[int], None] = lambda count: None) -> tuple[ArchivedImage, ...]:
    """Return the images of an archive, which is read to its end; it may be compressed.

    Args:
        path: of the archive.
        advance: receives the number of bytes of the file that were read, again and again.

    Raises:
        ArchiveError: it cannot be read, is not whole, or has anything but environment images of this project.
    """
    try:
        with _Counted(path, advance) as raw, tarfile.open(fileobj=raw, mode="r|*", bufsize=_CHUNK) as archive:
            files, documents = _contents(archive)
    except (EOFError, tarfile.TarError, zlib.error, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ArchiveError(f"{path} is no archive of images, or is not whole: {reason}; export it again") from error
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror or error}") from error
    if "manifest.json" not in files:
        # Engines write it behind the images' files.
        whole = "it is not whole, or was not made by `ml-bench images export`"
        raise ArchiveError(f"{path} has no list of images (manifest.json): {whole}")
    try:
        images = tuple(_image(entry, files, documents) for entry in documents["manifest.json"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{path} is not whole: {error} is missing; export it again") from error
    for image in images:
        if not image.name:
            named = ", ".join(image.names) or "without a name"
            raise ArchiveError(
                f"{path} has an image that is no environment of ml-bench: {named}; nothing was loaded "
                "(`docker load` takes any image)"
            )
    if not images:
        raise ArchiveError(f"{path} has no images")
    return images


def _contents(archive: tarfile.TarFile) -> tuple[set[str], dict[str, Any]]:
    """Return the names of all files, and name -> content of those that are JSON."""
    files, documents = set(), {}
    for member in archive:
        name = member.name.removeprefix("./")
        files.add(name)
        if not member.isfile() or member.size > _JSON_BYTES:
            continue
        file = archive.extractfile(member)
        content = file.read() if file else b""
        if content[:1] in (b"{", b"["):
            documents[name] = json.loads(content)
    return files, documents


def _image(entry: Mapping[str, Any], files: set[str], documents: Mapping[str, Any]) -> ArchivedImage:
    for layer in entry["Layers"]:
        if layer not in files:
            raise KeyError(layer)
    configuration = documents[entry["Config"]]
    return ArchivedImage(
        names=tuple(entry["RepoTags"] or ()),
        labels=configuration["config"]["Labels"] or {},
        layers=tuple(configuration["rootfs"]["diff_ids"]),
    )


class _Counted(io.FileIO):
    """A file that says how much of it was read."""

    def __init__(self, path: Path, advance: Callable[[int], None]) -> None:
        super().__init__(path)
        self._advance = advance

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._advance(len(data))
        return data
