"""Taking images from an archive that another machine has exported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ml_bench_metric.environments.archive import ArchivedImage, read_archive
from ml_bench_metric.environments.build_log import Progress
from ml_bench_metric.environments.byte_count import ByteCount, bytes_text
from ml_bench_metric.environments.engine_calls import engine_failed, patient, told
from ml_bench_metric.environments.stored import StoredImage, latest_name, stored_image
from ml_bench_metric.sandbox.docker_engine import one_line

if TYPE_CHECKING:
    from docker import DockerClient

_CHUNK = 1 << 20


def import_images(client: DockerClient, path: Path, progress: Progress = lambda line: None) -> tuple[StoredImage, ...]:
    """Load the images of an archive, mark each as the one built last of its recipe and kind, and return them.

    The archive is read to its end before the engine gets anything, so a broken one changes nothing. Images whose names
    the loaded ones take over are removed, unless something uses them.

    Args:
        client: of the engine.
        path: of an archive that `export_images` has written.
        progress: receives a line at the beginning and every few seconds.

    Raises:
        ArchiveError: it is not whole, or has images that are not this project's.
        SandboxError: the engine failed.
    """
    with patient(client), told("import"):
        size = path.stat().st_size if path.is_file() else 0
        free = _free_bytes(client)
        progress(
            f"import: {bytes_text(size)}{f'; {bytes_text(free)} are free where the engine stores them' if free else ''}"
        )
        archived = read_archive(path, ByteCount(progress, "import: checking", size).add)
        before = [found for image in archived for name in image.names if (found := stored_image(client, name))]
        _load(client, path, ByteCount(progress, "import: loading", size))
        loaded = tuple(_loaded(client, image) for image in archived)
        _remove_nameless(client, before, progress)
        return loaded


def _free_bytes(client: DockerClient) -> int | None:
    """Return how much is free on the engine's disk; None where it is not this machine's."""
    if not str(client.api.base_url).startswith("http+docker://"):
        return None
    folder = str(client.info()["DockerRootDir"])
    try:
        return shutil.disk_usage(folder).free
    except OSError:  # it runs on this machine, but in a file system of its own
        return None


def _load(client: DockerClient, path: Path, count: ByteCount) -> None:
    for event in client.api.load_image(_chunks(path, count), quiet=True):
        if "error" in event:
            raise engine_failed("import", " ".join(str(event["error"]).split()))


def _chunks(path: Path, count: ByteCount) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
            count.add(len(chunk))


def _loaded(client: DockerClient, archived: ArchivedImage) -> StoredImage:
    found = stored_image(client, archived.name)
    if found is None or found.labels != archived.labels or found.layers != archived.layers:
        raise engine_failed("import", f"{archived.name} is not what the archive has")
    repository, _, tag = latest_name(archived.name).rpartition(":")
    client.api.tag(found.digest, repository, tag)
    return stored_image(client, archived.name) or found


def _remove_nameless(client: DockerClient, before: Sequence[StoredImage], progress: Progress) -> None:
    """Remove those of some images that have no name any more."""
    from docker.errors import APIError

    for digest in dict.fromkeys(image.digest for image in before):
        image = stored_image(client, digest)
        if image is None or image.names:
            continue
        try:
            client.api.remove_image(digest)
        except APIError as error:
            if error.status_code != 409:
                raise
            progress(f"import: {digest[:19]}, which was replaced, is left without a name: {one_line(error)}")
