"""Writing images into an archive, to be taken to a machine that cannot build them."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from ml_bench_metric.environments.archive import ArchiveError, read_archive
from ml_bench_metric.environments.build_log import Progress
from ml_bench_metric.environments.byte_count import ByteCount, bytes_text
from ml_bench_metric.environments.engine_calls import patient, told
from ml_bench_metric.environments.labels import label_faults
from ml_bench_metric.environments.stored import StoredImage, exclusive_bytes
from ml_bench_metric.sandbox.protocol import SandboxError

if TYPE_CHECKING:
    from docker import DockerClient

_CHUNK = 1 << 20
_GZIP_LEVEL = 3
"""Binaries hardly become smaller with more, and it takes several times as long."""


def export_images(
    client: DockerClient, images: Sequence[StoredImage], path: Path, progress: Progress = lambda line: None
) -> int:
    """Write images with all their names and labels into one archive, and return its size in bytes.

    The file appears under its name when it is complete and was read again; one that was there before is replaced.
    Layers that images share are in it once.

    Args:
        client: of the engine.
        images: see `chosen`.
        path: ends with `.tar`, or with `.tar.gz` or `.tgz` for a compressed one.
        progress: receives a line at the beginning and every few seconds.

    Raises:
        ArchiveError: the name's end says no kind of archive, there are no images, or the file cannot be written.
        SandboxError: an image has not the labels that it must have, or the engine failed.
    """
    compressed = path.name.endswith((".tar.gz", ".tgz"))
    if not compressed and not path.name.endswith(".tar"):
        raise ArchiveError(f"{path}: the name must end with .tar or .tar.gz")
    if not images:
        raise ArchiveError("there is nothing to export; `ml-bench images build` makes images")
    for image in images:
        if faults := label_faults(image):
            raise SandboxError(f"{image.name} cannot be exported: {faults[0]}; build it again")
    names = {image: [name for name in (image.name, image.latest) if name] for image in images}
    with patient(client), told("export"):
        size = exclusive_bytes(client, images)
        free = _free_bytes(path)
        progress(
            f"export: {len(images)} images, {bytes_text(size)}{' before compression' if compressed else ''}; "
            f"{bytes_text(free)} are free in {path.absolute().parent}"
        )
        if not compressed and size > free:
            raise ArchiveError(f"{path}: there is not enough space for {bytes_text(size)}; name another folder")
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            count = ByteCount(progress, "export", size)
            with _written(path), temporary.open("wb") as raw, _form(raw, compressed) as file:
                for chunk in _saved(client, [name for both in names.values() for name in both]):
                    file.write(chunk)
                    count.add(len(chunk))
            _check(temporary, names, progress)
            with _written(path):
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return path.stat().st_size


def _saved(client: DockerClient, names: Sequence[str]) -> Iterator[bytes]:
    """Yield the archive that the engine makes of some images; the client's own method takes one image only."""
    api = client.api
    answer = api.get(
        f"{api.base_url}/v{api.api_version}/images/get", params={"names": names}, stream=True, timeout=api.timeout
    )
    with answer:
        answer.raise_for_status()
        yield from answer.iter_content(_CHUNK)


def _check(path: Path, names: Mapping[StoredImage, Sequence[str]], progress: Progress) -> None:
    """Look whether an archive has what was asked for: an engine that fails half-way ends it as if it were complete."""
    count = ByteCount(progress, "export: reading it again", path.stat().st_size)
    found = {name for image in read_archive(path, count.add) for name in image.names}
    for image, wanted in names.items():
        if not found.issuperset(wanted):
            raise SandboxError(
                f"the engine did not write {image.name}; `ml-bench images check` tells whether it is whole"
            )


def _free_bytes(path: Path) -> int:
    with _written(path):
        return shutil.disk_usage(path.absolute().parent).free


@contextlib.contextmanager
def _form(raw: IO[bytes], compressed: bool) -> Iterator[IO[bytes]]:
    if not compressed:
        yield raw
        return
    # Without the name and the time that gzip would put at the beginning: the same images give the same file.
    with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as file:
        yield cast(IO[bytes], file)


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into one line; the client's errors, OSErrors too, are not."""
    from requests.exceptions import RequestException

    try:
        yield
    except RequestException:
        raise
    except OSError as error:
        more = "; free some, or name another folder" if error.errno == errno.ENOSPC else ""
        raise ArchiveError(f"{path} cannot be written: {error.strerror or error}{more}") from error
