"""The cache of `datasets`, with entries under the bare name `ml-bench`.

Where no folder and no Hub repository has the name that `load_dataset` was given, `datasets` looks into its cache, at
`<name>/<configuration>/<version>/<hash>`. Without the name of a configuration it takes the newest folder there is, and
refuses when folders of several configurations share that one's version and hash. Hence two precautions here:

- The folder of `default` is dated ahead. A folder gets a new date when `Dataset.map` stores its result in it, and other
  folders appear when a local folder called `ml-bench` is loaded.
- The other configurations share one hash, so that a bare name never means one of them: it is refused.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ml_bench_dataset import DataError
from ml_bench_metric.sandbox.execution import Record

NAME = "ml-bench"
"""The name that `load_dataset` is given."""

MARK = "ml-bench-registration.json"
"""The file that tells an entry of ours from all others."""

INFO = "dataset_info.json"
"""The file in which `datasets` describes an entry."""

_AHEAD = 10 * 365 * 24 * 3600


class Registration(Record):
    """What an entry holds."""

    configuration: str
    source: str
    """Where its rows come from: a Hub repository at a commit, the path of a folder, `sample`, or `this package`."""
    fingerprint: str
    """Changes with everything that decides the rows."""
    rows: dict[str, int]
    """Split -> number of rows."""
    files: dict[str, int]
    """Name -> size in bytes."""


@dataclass(frozen=True)
class Entry:
    """A configuration that is ready: in its place, or still in the draft."""

    folder: Path
    registration: Registration

    @property
    def intact(self) -> bool:
        """Whether all of its files are there in their size."""
        return all(_size(self.folder / name) == size for name, size in self.registration.files.items())


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


def marked_folders(root: Path) -> Iterator[Path]:
    """Yield every folder of ours in the cache of `datasets`."""
    for mark in sorted((root / NAME).glob(f"*/*/*/{MARK}")):
        yield mark.parent


def find_entries(root: Path) -> dict[str, Entry]:
    """Return configuration -> its entry, of those that are in order."""
    found = {}
    for folder in marked_folders(root):
        try:
            registration = Registration.model_validate_json((folder / MARK).read_bytes())
        except ValidationError:
            continue
        entry = Entry(folder, registration)
        if entry.intact and folder.parts[-3] == registration.configuration:
            found[registration.configuration] = entry
    return found


def prepare(configuration: str, source: str | None, earlier: Entry | None, draft: Path) -> Entry:
    """Return the entry of a configuration: the earlier one where nothing has changed, else a new one in the draft.

    Args:
        configuration: its name.
        source: as `MLBench` takes it; None for what this package holds itself.
        earlier: the entry that is there.
        draft: where a new one is made, in a folder of the cache's form.

    Raises:
        DataError: the configuration's rows cannot be had from the source.
        OSError: the draft cannot be written.
    """
    from ml_bench_dataset import MLBench

    builder: Any = MLBench(
        cache_dir=str(draft), dataset_name=NAME, config_name=configuration, hash="register", source=source
    )
    if earlier is not None and earlier.registration.fingerprint == builder.hash:
        return earlier
    _write(builder)
    folder = Path(builder.cache_dir)
    registration = Registration(
        configuration=configuration,
        source=source or "this package",
        fingerprint=builder.hash,
        rows={name: split.num_examples for name, split in builder.info.splits.items()},
        files={path.name: path.stat().st_size for path in sorted(folder.iterdir())},
    )
    (folder / MARK).write_text(registration.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return Entry(folder, registration)


def _write(builder: Any) -> None:
    try:
        builder.download_and_prepare()
    except Exception as error:
        # What the generator of the rows raises comes wrapped, once or twice.
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, (DataError, OSError)):
                raise cause from None
            cause = cause.__cause__
        raise


def put_in_place(root: Path, entries: Mapping[str, Entry], draft: Path) -> dict[str, Entry]:
    """Move entries to where `datasets` looks for them, remove all others of ours, and return the moved ones.

    Each is moved by one renaming, so a reader finds it whole or not at all.
    """
    placed = {}
    for configuration, entry in entries.items():
        version = entry.folder.parts[-2]
        target = root / NAME / configuration / version / _hash(configuration, entries)
        if entry.folder != target:
            discard(target, draft)
            target.parent.mkdir(parents=True, exist_ok=True)
            entry.folder.rename(target)
        placed[configuration] = Entry(target, entry.registration)
    if "default" in placed:
        date = time.time() + _AHEAD
        os.utime(placed["default"].folder, (date, date))
    keep = {entry.folder for entry in placed.values()}
    for folder in list(marked_folders(root)):
        if folder not in keep:
            remove(root, folder, draft)
    return placed


def _hash(configuration: str, entries: Mapping[str, Entry]) -> str:
    sharing = [configuration] if configuration == "default" else sorted(entries.keys() - {"default"})
    texts = [f"{name} {entries[name].registration.fingerprint}\n" for name in sharing]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def remove(root: Path, folder: Path, draft: Path) -> None:
    """Remove an entry, the locks that `datasets` made beside it, and the folders above it that are empty then."""
    discard(folder, draft)
    for lock in folder.parent.glob(f"{folder.name}*.lock"):
        lock.unlink(missing_ok=True)
    for parent in folder.parents:
        if parent == root or any(parent.iterdir()):
            break
        parent.rmdir()


def discard(folder: Path, draft: Path) -> None:
    """Remove a folder if it exists: first its name, at once, then its content."""
    if folder.exists():
        away = draft / f"discarded-{time.monotonic_ns()}"
        folder.rename(away)
        shutil.rmtree(away, ignore_errors=True)
