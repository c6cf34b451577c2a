"""The real weights and data that recipes list: downloading them, and the folder of this machine that keeps them.

A file lies in the folder under its SHA-256, and gets that name only when it is whole and verified. What a recipe gives
no hash for is held to what came first: its hash is recorded in `assets.lock.json`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ml_bench_metric.cache_folder import cache_folder
from ml_bench_metric.environments import registry, unpacking
from ml_bench_metric.environments.build_log import BuildError, Progress
from ml_bench_metric.environments.byte_count import bytes_text
from ml_bench_metric.environments.download import (
    DiskFull,
    Downloader,
    DownloadError,
    Part,
    Report,
    require_room,
)
from ml_bench_metric.environments.recipe import Asset, Recipe
from ml_bench_metric.environments.registry import EnvironmentUnknown
from ml_bench_metric.environments.unpacking import UnpackError

VARIABLE = "ML_BENCH_ASSETS"
"""Environment variable that names another folder for the store."""
LOCK_FILE = "assets.lock.json"

Listed = tuple[str, Asset]
"""An asset, and the name of the recipe that lists it."""

_VERIFIED = 1577836800
"""2020-01-01: the time of change of every verified file. Whoever writes to one changes it, and it is verified again."""
_CHUNK = 1 << 20


class AssetError(BuildError):
    """An asset cannot be had or used, and so no image with it. The message is one line with what to do."""


@dataclass(frozen=True)
class Download:
    """An asset that is still to be downloaded."""

    recipe: str
    asset: Asset
    size: int | None
    """Of the whole file, in bytes; None where neither recipe nor server say."""
    present: int
    """Bytes of it that an earlier download left."""


@dataclass(frozen=True)
class Plan:
    """What is to be done for some assets."""

    downloads: tuple[Download, ...]
    present: tuple[Listed, ...]
    by_hand: tuple[Listed, ...]
    """Those that no program can download, and that are not here."""

    @property
    def size(self) -> int:
        """Bytes that are still to come, as far as they are known."""
        return sum(max(0, one.size - one.present) for one in self.downloads if one.size is not None)

    @property
    def unknown(self) -> int:
        """Number of downloads whose size nobody knows."""
        return sum(one.size is None for one in self.downloads)


class AssetStore:
    """The folder where assets are kept. Several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        """Name the folder; nothing is read or written.

        Args:
            folder: None: the one that `ML_BENCH_ASSETS` names, else `ml-bench/assets` in the user's cache.
        """
        self.folder = folder or _default_folder()

    def sha256(self, asset: Asset) -> str | None:
        """Return the hash (hex) of the verified file of an asset; None if it is not here.

        Raises:
            AssetError: the store cannot be read.
        """
        expected = self._expected(asset)
        return expected if expected is not None and self._holds(expected) else None

    def path(self, asset: Asset) -> Path | None:
        """Return the verified file of an asset, which must not be written to; None if it is not here.

        Raises:
            AssetError: the store cannot be read.
        """
        sha256 = self.sha256(asset)
        return None if sha256 is None else self._file(sha256)

    def plan(self, assets: Iterable[Listed]) -> Plan:
        """Return what is to be done for some assets. Servers are asked for sizes that the recipes do not give.

        Raises:
            AssetError: the store cannot be read.
        """
        present: list[Listed] = []
        by_hand: list[Listed] = []
        missing: dict[str, Listed] = {}
        for recipe, asset in assets:
            if self.sha256(asset) is not None:
                present.append((recipe, asset))
            elif asset.url is None:
                by_hand.append((recipe, asset))
            else:
                missing.setdefault(asset.url, (recipe, asset))
        downloads = []
        with Downloader() as client, self._explained():
            for url, (recipe, asset) in missing.items():
                part = self._part(url)
                size = asset.bytes or part.facts.total or client.size(url)
                downloads.append(Download(recipe, asset, size, part.size))
        return Plan(tuple(downloads), tuple(present), tuple(by_hand))

    def require_room(self, plan: Plan) -> None:
        """Raise `AssetError` if the disk has no room for what a plan downloads."""
        folder = next(folder for folder in (self.folder, *self.folder.parents) if folder.is_dir())
        try:
            require_room(folder, plan.size)
        except DiskFull as error:
            raise AssetError(f"{error}; {_ROOM}") from error

    def fetch(self, assets: Iterable[Listed], progress: Progress) -> tuple[AssetError, ...]:
        """Download what is not here of some assets, one after the other; return an error for each that was not had.

        Those without a URL are passed over. The same call goes on with what an earlier one left.

        Args:
            assets: which.
            progress: receives lines.

        Raises:
            AssetError: the disk is full, or the store cannot be written: no other asset could be had either.
        """
        failures: list[AssetError] = []
        with Downloader() as client:
            for recipe, asset in assets:
                if asset.url is None or self.sha256(asset) is not None:
                    continue
                try:
                    self._fetch(recipe, asset, asset.url, client, progress)
                except DiskFull as error:
                    raise _error(recipe, asset, f"{error}; {_ROOM}, and run the same command again") from error
                except DownloadError as error:
                    way_out = _AGAIN if error.passing else _BY_HAND.format(recipe=recipe, asset=asset.name)
                    failures.append(_error(recipe, asset, f"{error}; {way_out}"))
        return tuple(failures)

    def add(self, recipe: str, asset: Asset, file: Path, *, replace: bool = False) -> Path:
        """Take over a file that a person has got, and return where it is kept. The file itself stays as it is.

        Args:
            recipe: that lists the asset.
            asset: what the file is.
            file: which.
            replace: whether it may differ from what was had of this asset first. The recipe's hash holds in any case.

        Raises:
            AssetError: the file cannot be read, or is another than the recipe's or the first one; or it cannot be kept.
        """
        expected = asset.sha256 if replace else self._expected(asset)
        part = self._part(_key(asset))
        with self._explained(recipe, asset), self._alone_with(part, lambda: None):
            if not file.is_file() or not file.stat().st_size:
                raise _error(recipe, asset, f"{file} is no file, or empty; name the downloaded file")
            draft = part.path.with_suffix(".added")
            try:
                require_room(self._parts, file.stat().st_size)
                found = _copy(file, draft)
                if expected not in (None, found):
                    where = "the recipe's" if asset.sha256 else f"that of the first one, see {self._lock_file}"
                    mend = "get the right file" + ("" if asset.sha256 else ", or give --replace if this one is right")
                    raise _error(recipe, asset, f"{file} has sha256 {found}, and not {where}, {expected}; {mend}")
                if asset.sha256 is None and not unpacking.is_a(asset.unpack, draft):
                    raise _error(recipe, asset, f"{file} is no {asset.unpack} file; name the file as it was downloaded")
                self._keep(draft, asset, found, replace=replace)
            except DiskFull as error:
                raise _error(recipe, asset, f"{error}; {_ROOM}") from error
            finally:
                draft.unlink(missing_ok=True)
            part.drop()
        return self._file(found)

    def _fetch(self, recipe: str, asset: Asset, url: str, client: Downloader, progress: Progress) -> None:
        def report(line: str) -> None:
            progress(f"{recipe}/{asset.name}: {line}")

        part = self._part(url)
        with (
            self._explained(recipe, asset),
            self._alone_with(part, lambda: report("another process is at it; waiting for its end")),
        ):
            if self.sha256(asset) is not None:
                report("is here now")
                return
            try:
                found = self._downloaded(asset, url, part, client, report)
            except KeyboardInterrupt:
                report(f"interrupted; {bytes_text(part.size)} are kept for the next time")
                raise
            self._keep(part.path, asset, found)
            part.drop()
            report(f"done, sha256 {found}")

    def _downloaded(self, asset: Asset, url: str, part: Part, client: Downloader, report: Report) -> str:
        """Complete a part, and return its hash, which is the expected one."""
        expected = self._expected(asset)
        for last in (False, True):
            at_once = client.download(url, part, certain=expected is not None, about=asset.bytes, report=report)
            found = _digest(part.path)
            if expected in (None, found):
                if asset.sha256 is None and not unpacking.is_a(asset.unpack, part.path):
                    part.drop()
                    raise DownloadError(f"what the server sends is no {asset.unpack} file")
                return found
            part.drop()
            if at_once or last:
                break
            # Of what was joined, one piece may be old or broken.
            report("the pieces do not make the right file; downloading it in one")
        where = "the recipe's" if asset.sha256 else f"that of the first download, which {self._lock_file} records"
        mend = "" if asset.sha256 else "; if the new file is right, remove that record and run the same command again"
        raise DownloadError(f"the file has sha256 {found}, and not {where}, {expected}{mend}")

    def _keep(self, draft: Path, asset: Asset, sha256: str, *, replace: bool = False) -> None:
        """Give a verified file its name in the store."""
        file = self._file(sha256)
        file.parent.mkdir(exist_ok=True)
        draft.chmod(0o444)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        os.utime(draft, (_VERIFIED, _VERIFIED))
        draft.replace(file)
        if asset.sha256 is None:
            with _alone(self._lock_file.with_suffix(".lock"), lambda: None):
                recorded = self._recorded()
                if replace or _key(asset) not in recorded:
                    text = json.dumps({**recorded, _key(asset): sha256}, indent=2, sort_keys=True) + "\n"
                    _write_whole(self._lock_file, text)

    def _expected(self, asset: Asset) -> str | None:
        return asset.sha256 or self._recorded().get(_key(asset))

    def _holds(self, sha256: str) -> bool:
        file = self._file(sha256)
        with self._explained():
            if not file.is_file():
                return False
            if file.stat().st_mtime == _VERIFIED:
                return True
            if _digest(file) != sha256:
                return False
            with contextlib.suppress(PermissionError):  # then it is verified each time
                os.utime(file, (_VERIFIED, _VERIFIED))
        return True

    def _recorded(self) -> dict[str, str]:
        """Return URL -> hash of what was first had of it."""
        try:
            with self._explained():
                if not self._lock_file.exists():
                    return {}
                content = json.loads(self._lock_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise AssetError(f"{self._lock_file}: is not JSON: {error}; mend or remove it") from error
        if not isinstance(content, dict) or not all(map(_is_sha256, content.values())):
            raise AssetError(f"{self._lock_file}: must map addresses to sha256 values; mend or remove it")
        return content

    @contextlib.contextmanager
    def _explained(self, recipe: str = "", asset: Asset | None = None) -> Iterator[None]:
        """Turn errors of the file system into `AssetError`."""
        try:
            yield
        except OSError as error:
            where = f"{error.filename or self.folder} cannot be read or written: {error.strerror or error}"
            reason = f"{where}; mend that, or set {VARIABLE} to another folder"
            raise (AssetError(reason) if asset is None else _error(recipe, asset, reason)) from error

    @contextlib.contextmanager
    def _alone_with(self, part: Part, waiting: Callable[[], None]) -> Iterator[None]:
        """Keep other processes and threads from a part while this lasts."""
        self._parts.mkdir(parents=True, exist_ok=True)
        with _alone(part.lock, waiting):
            yield

    def _file(self, sha256: str) -> Path:
        return self.folder / "files" / sha256

    def _part(self, url: str) -> Part:
        return Part(self._parts, url)

    @property
    def _parts(self) -> Path:
        return self.folder / "partial"

    @property
    def _lock_file(self) -> Path:
        return self.folder / LOCK_FILE


def needed(recipes: Iterable[Recipe], task_ids: Collection[str] | None = None) -> list[Listed]:
    """Return the assets of some recipes, or only those that some tasks need.

    Args:
        recipes: which.
        task_ids: None: all tasks. Tasks that no recipe serves need nothing.

    Raises:
        RecipeError: a recipe is faulty.
    """
    if task_ids is None:
        return [(recipe.name, asset) for recipe in recipes for asset in recipe.assets]
    found = []
    for recipe in recipes:
        served = {task_id for task_id in task_ids if _serves(recipe, task_id)}
        found += [(recipe.name, asset) for asset in recipe.assets if served & set(asset.tasks or served)]
    return found


@contextlib.contextmanager
def unpacked(asset: Asset, path: Path) -> Iterator[Path]:
    """Yield an asset's file or folder as it is to be copied to `asset.to`; it is temporary if it had to be unpacked.

    An archive whose content is one folder of the same name as `asset.to` is taken without that folder.

    Args:
        asset: what the file is.
        path: the file, see `AssetStore.path`.

    Raises:
        AssetError: it cannot be unpacked.
    """
    if asset.unpack == "none":
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="ml-bench-asset-") as name:
        target = Path(name) / "content"
        try:
            if asset.unpack == "gz":
                unpacking.gunzip(path, target)
            else:
                target.mkdir()
                unpacking.unpack(path, asset.unpack, target)
        except UnpackError as error:
            mend = "correct its `unpack` in the recipe, or give a right file to `ml-bench assets add`"
            raise AssetError(f"asset {asset.name} ({asset.url or path}) cannot be unpacked: {error}; {mend}") from error
        except OSError as error:
            mend = f"{error.strerror}: {error.filename or name}; free some space, or set TMPDIR to another folder"
            raise AssetError(f"asset {asset.name} ({asset.url or path}) cannot be unpacked: {mend}") from error
        inner = unpacking.inner_folder(target) if target.is_dir() else None
        yield inner if inner is not None and inner.name == PurePosixPath(asset.to).name else target


_ROOM = f"free some, or set {VARIABLE} to a folder with more"
_AGAIN = "run the same command again later, it goes on with what is here"
_BY_HAND = "get the file in another way, and give it to `ml-bench assets add {recipe} {asset} FILE`"


def _default_folder() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return cache_folder() / "assets"


def _key(asset: Asset) -> str:
    """Return what an asset is recorded under."""
    return asset.url or f"{asset.name} -> {asset.to}"


def _error(recipe: str, asset: Asset, reason: str) -> AssetError:
    return AssetError(f"asset {recipe}/{asset.name} ({asset.url or 'to be got by hand'}): {reason}")


def _serves(recipe: Recipe, task_id: str) -> bool:
    repository = task_id.rpartition("/")[0]
    if repository not in recipe.directories:
        return False
    with contextlib.suppress(EnvironmentUnknown):
        return registry.recipe_for(repository, task_id).name == recipe.name
    return False


def _is_sha256(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _copy(source: Path, target: Path) -> str:
    """Copy a file, and return the hash of the copy."""
    shutil.copyfile(source, target)
    return _digest(target)


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


@contextlib.contextmanager
def _alone(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock between threads and processes, and remove its file behind."""
    while True:
        with lock.open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(file, fcntl.LOCK_EX)
            # Who held it before has removed the file, and a third one may have a new file of that name by now.
            try:
                current = lock.stat().st_ino == os.fstat(file.fileno()).st_ino
            except FileNotFoundError:
                current = False
            if current:
                try:
                    yield
                finally:
                    lock.unlink()
                return
