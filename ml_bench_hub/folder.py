"""A folder that this package writes: whole or not at all, and never over what it did not write.

What it wrote is listed in the folder's manifest, which is published with the rest: so a later build knows its own
folder again, and a later push its own files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ml_bench_hub.errors import HubError, one_line, some
from ml_bench_metric.sandbox.execution import Record

MANIFEST = ".ml-bench.json"
"""Name of the manifest. It begins with a dot, so that `datasets` takes it for no data file."""

Kind = Literal["dataset", "harbor", "space"]
"""What a folder is: the data set, its Harbor tasks, or the metric's Space."""


class File(Record):
    """A file of a folder."""

    size: int
    """In bytes."""
    sha256: str
    blob: str
    """Git's name for the content (SHA-1): the Hub knows small files by it, large ones by their SHA-256."""


class About(Record):
    """What a folder was made for and of."""

    kind: Kind
    name: str
    """The repository's name on the Hub, without its namespace."""
    namespace: str | None
    """For which the folder was made; None: for nobody yet."""
    source: str
    """Where the rows come from: a Hub repository at a commit, `sample`, or `a local folder`, whose path is private."""
    digests: dict[str, str]
    """Split -> SHA-256 of its rows, see `ml_bench_dataset.Split`."""
    harness: str
    """Version of this package."""


class Manifest(About):
    """What is in a folder, and what it was made for and of. It does not list itself."""

    files: dict[str, File]
    """Path below the folder, with `/` -> the file."""

    def to_bytes(self) -> bytes:
        """Return the manifest as the file that holds it; equal manifests give equal bytes."""
        return (json.dumps(self.model_dump(), indent=1, sort_keys=True) + "\n").encode()


def describe(content: bytes) -> File:
    """Return what a manifest says of a file's content."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    return File(size=len(content), sha256=hashlib.sha256(content).hexdigest(), blob=blob.hexdigest())


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Return the manifest that a file holds.

    Raises:
        HubError: it holds none; the message names it as `where`.
    """
    try:
        return Manifest.model_validate(json.loads(content))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the whole"
        raise HubError(f"{where} is no manifest of this version of ml-bench: {place}: {fault['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise HubError(f"{where} is no manifest of ml-bench: {one_line(error)}") from error


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a folder.

    Raises:
        HubError: the folder or its manifest does not exist or cannot be read.
    """
    path = folder / MANIFEST
    try:
        return parse_manifest(path.read_bytes(), str(path))
    except OSError as error:
        raise HubError(
            f"{folder} was not made by `ml-bench hub build`: {MANIFEST} cannot be read ({error.strerror or error})"
        ) from error


def differences(folder: Path, manifest: Manifest) -> list[str]:
    """Return one line for each file of a folder that is not as its manifest says."""
    found = set(_files(folder)) - {MANIFEST}
    lines = [
        f"{name} is not in {MANIFEST}: ml-bench did not write it" for name in sorted(found - manifest.files.keys())
    ]
    lines += [f"{name} is missing" for name in sorted(manifest.files.keys() - found)]
    for name in sorted(manifest.files.keys() & found):
        try:
            as_built = describe((folder / name).read_bytes()) == manifest.files[name]
        except OSError:  # a folder or a dead link in its place
            as_built = False
        if not as_built:
            lines.append(f"{name} was changed after the build")
    return lines


@contextmanager
def writing(out: Path, about: About) -> Iterator[Path]:
    """Yield an empty folder; when the block ends well it gets its manifest and takes the place of `out`.

    It lies beside `out`, and is removed when the block fails.

    Raises:
        HubError: `out` cannot be made, or is not empty and not this package's own, unchanged folder of that kind.
    """
    out = out.expanduser().resolve()
    _require_own(out, about.kind)
    draft = _beside(out)
    try:
        draft.mkdir(parents=True)
    except OSError as error:
        raise HubError(f"{out} cannot be made: {error.strerror or error}") from error
    try:
        yield draft
        files = {name: describe((draft / name).read_bytes()) for name in sorted(_files(draft))}
        (draft / MANIFEST).write_bytes(Manifest(**about.model_dump(), files=files).to_bytes())
        _require_own(out, about.kind)
        _take_place(draft, out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _beside(out: Path) -> Path:
    return out.parent / f".{out.name}.{uuid.uuid4().hex}"


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path.relative_to(folder).as_posix()


def _require_own(out: Path, kind: Kind) -> None:
    way_out = "give another folder, or move it away"
    if not out.exists():
        return
    if not out.is_dir():
        raise HubError(f"{out} is no folder; {way_out}")
    try:
        names = sorted(path.name for path in out.iterdir())
    except OSError as error:
        raise HubError(f"{out} cannot be read: {error.strerror or error}; {way_out}") from error
    if not names:
        return
    if MANIFEST not in names:
        raise HubError(f"{out} holds {names[0]!r} and no {MANIFEST}: ml-bench did not make it; {way_out}")
    manifest = read_manifest(out)
    if manifest.kind != kind:
        raise HubError(f"{out} holds what was built as {manifest.kind}, not as {kind}; {way_out}")
    if changed := differences(out, manifest):
        raise HubError(f"{out} would lose work of yours: {some(changed)}; {way_out}")


def _take_place(draft: Path, out: Path) -> None:
    """Put a folder in the place of another one. Between the two renames there is none, never a half one."""
    old = _beside(out)
    try:
        if out.exists():
            out.rename(old)
        try:
            draft.rename(out)
        except BaseException:
            if old.exists():
                old.rename(out)
            raise
    except OSError as error:
        raise HubError(f"{out} cannot be replaced: {error.strerror or error}; give another folder") from error
    shutil.rmtree(old, ignore_errors=True)
