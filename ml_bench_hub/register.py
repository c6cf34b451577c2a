"""`load_dataset("ml-bench")` and `evaluate.load("ml_bench")` on this machine: anywhere, and offline."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ml_bench_dataset import CONFIGURATIONS, DataError, read_split
from ml_bench_hub import register_clones, register_datasets, register_evaluate
from ml_bench_hub.errors import HubError
from ml_bench_hub.register_datasets import Entry, Registration

_DRAFT = ".ml-bench-register-"
_LOCK = "ml-bench-register.lock"
_WAIT = 600
_FROM_SOURCE = ("default", "ML-Bench-L", "ML-Bench-A")


@dataclass(frozen=True)
class Step:
    """What was done about one thing."""

    subject: str
    """A configuration, `evaluate.load("ml_bench")`, or the path of a clone."""
    action: Literal["registered", "unchanged", "kept", "left out", "removed"]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.action}: {self.subject}" + (f" ({self.detail})" if self.detail else "")


def register(source: str | None = None, *, revision: str | None = None, beside: Path | None = None) -> list[Step]:
    """Make the bare names work on this machine, and return what was done about each configuration and place.

    Done again, it does only what has changed. What cannot be had is left out; the sample and the list of repositories
    always can. All configurations come from the same rows: of a Hub repository, from one commit of it.

    Args:
        source: `sample`, a folder, or a Hub id, see `ml_bench_dataset.read_split`. None: the environment variable
            `ML_BENCH_SOURCE`, else upstream's repository on the Hub.
        revision: of the Hub repository.
        beside: the folder whose clone of this project, if it has one called `ml-bench`, is filled too, because it would
            hide the registered rows; the current folder if None.

    Raises:
        HubError: a cache cannot be read or written, or the source is a single file.
        DataError: a source was named, and no configuration can be had from it. Nothing was changed.
    """
    import datasets

    root = Path(datasets.config.HF_DATASETS_CACHE)
    named = source if source is not None else os.environ.get("ML_BENCH_SOURCE", "").strip() or None
    if named is not None and Path(named).expanduser().is_file():
        raise HubError(f"{named} is one file, which holds one split; put it into a folder, as L.jsonl, and give that")
    with _workspace(root) as draft:
        earlier = register_datasets.find_entries(root)
        entries: dict[str, Entry] = {}
        reasons: dict[str, DataError] = {}
        try:
            pinned = _pin(named, revision)
        except DataError as error:
            pinned = None
            reasons = dict.fromkeys(_FROM_SOURCE, error)
        for configuration in [name for name in CONFIGURATIONS if name not in reasons]:
            origin = pinned if configuration in _FROM_SOURCE else None
            try:
                entries[configuration] = register_datasets.prepare(
                    configuration, origin, earlier.get(configuration), draft
                )
            except DataError as error:
                reasons[configuration] = error
        if not entries.keys() & set(_FROM_SOURCE):
            if named is not None or revision is not None:
                raise reasons[_FROM_SOURCE[0]]
            # A network that fails must not cost what was registered before.
            entries |= {name: entry for name, entry in earlier.items() if name in _FROM_SOURCE}
        placed = register_datasets.put_in_place(root, entries, draft)
        steps = [_step(name, placed.get(name), earlier.get(name), reasons.get(name)) for name in CONFIGURATIONS]
        steps.append(_register_module())
        steps += [_fill(clone, placed) for clone in register_clones.find_clones(beside or Path.cwd())]
    return steps


def unregister(beside: Path | None = None) -> list[Step]:
    """Remove everything that `register` made, nothing else, and return what was removed.

    Args:
        beside: as for `register`.

    Raises:
        HubError: something cannot be removed.
    """
    import datasets

    root = Path(datasets.config.HF_DATASETS_CACHE)
    steps = []
    if root.is_dir():
        with _workspace(root) as draft:
            for folder in list(register_datasets.marked_folders(root)):
                register_datasets.remove(root, folder, draft)
                steps.append(Step(folder.parts[-3], "removed"))
            (root / _LOCK).unlink(missing_ok=True)
    with _explained(_modules_cache()):
        if register_evaluate.remove(_modules_cache()):
            steps.append(Step(_METRIC, "removed"))
        for clone in register_clones.find_clones(beside or Path.cwd()):
            if register_clones.empty(clone):
                steps.append(Step(str(clone), "removed", f"the rows in {register_clones.FOLDER}"))
    return steps


_METRIC = f'evaluate.load("{register_evaluate.NAME}")'


def _pin(named: str | None, revision: str | None) -> str:
    """Return the source as all configurations shall read it: a Hub repository at the commit that it has now.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return read_split(named, "L", revision=revision).origin
    except DataError:
        with suppress(DataError):  # a source of split A alone
            return read_split(named, "A", revision=revision).origin
        raise


def _step(name: str, entry: Entry | None, before: Entry | None, reason: DataError | None) -> Step:
    why = " ".join(str(reason).split())
    if entry is None:
        return Step(name, "left out", why)
    if reason is not None:
        return Step(name, "kept", f"{_described(entry.registration)}; it cannot be had anew: {why}")
    unchanged = before is not None and before.registration.fingerprint == entry.registration.fingerprint
    return Step(name, "unchanged" if unchanged else "registered", _described(entry.registration))


def _described(registration: Registration) -> str:
    counts = ", ".join(f"{split} {rows}" for split, rows in registration.rows.items())
    return f"{counts}, from {registration.source}"


def _modules_cache() -> Path:
    import evaluate.config

    return Path(evaluate.config.HF_MODULES_CACHE, str(evaluate.config.MODULE_NAME_FOR_DYNAMIC_MODULES))


def _register_module() -> Step:
    from evaluate.loading import init_dynamic_modules

    with _explained(_modules_cache()):
        modules = Path(init_dynamic_modules())
        return Step(_METRIC, "registered" if register_evaluate.add(modules) else "unchanged")


def _fill(clone: Path, entries: dict[str, Entry]) -> Step:
    try:
        changed = register_clones.fill(clone, entries)
    except OSError as error:
        return Step(str(clone), "left out", f"it hides what is registered, and cannot be written: {error.strerror}")
    return Step(str(clone), "registered" if changed else "unchanged", f"the rows in {register_clones.FOLDER}")


@contextmanager
def _workspace(root: Path) -> Iterator[Path]:
    """Yield an empty folder in the cache of `datasets`, for one process at a time."""
    from filelock import FileLock, Timeout

    with _explained(root):
        root.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(root / _LOCK, timeout=_WAIT):
                for left in root.glob(f"{_DRAFT}*"):  # by a process that was killed
                    shutil.rmtree(left, ignore_errors=True)
                draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=root))
                try:
                    yield draft
                finally:
                    shutil.rmtree(draft, ignore_errors=True)
        except Timeout as error:
            raise HubError(
                f"another `ml-bench register` has been at work in {root} for {_WAIT} s; try later"
            ) from error


@contextmanager
def _explained(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"{error.filename or place} cannot be read or written: {error.strerror or error}"
        raise HubError(f"{reason}; the environment variable HF_HOME names another folder for all caches") from error
