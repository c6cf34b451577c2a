"""Taking images to another machine: whole or not at all, under their own names, and without leftovers."""

from __future__ import annotations

import resource
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ml_bench_metric.environments import byte_count
from ml_bench_metric.environments.archive import ArchiveError
from ml_bench_metric.environments.chosen import chosen
from ml_bench_metric.environments.export import export_images
from ml_bench_metric.environments.images import ASSETS
from ml_bench_metric.environments.load import import_images
from ml_bench_metric.environments.stored import StoredImage, stored_image, stored_images
from ml_bench_metric.sandbox.protocol import SandboxError
from tests.image_archives import labels, write_archive
from tests.stored_images import FakeImages

if TYPE_CHECKING:
    from docker import DockerClient

    from tests.image_builds import ImageBuilds

NAME, LATEST = "ml-bench/r:aaaaaaaaaaaa", "ml-bench/r:latest"
LAYER_DIGEST = "sha256:" + "1" * 64
"""Of the layer of the archives that `write_archive` makes."""


@pytest.fixture
def engine(tmp_path: Path) -> FakeImages:
    engine = FakeImages()
    engine.add(NAME, LATEST, layers="B", labels=labels())
    engine.archive = write_archive(tmp_path / "engine.tar", [((NAME, LATEST), labels())]).read_bytes()
    return engine


def export(engine: FakeImages, path: Path, lines: list[str] | None = None) -> int:
    client: Any = engine
    return export_images(client, stored_images(client), path, ([] if lines is None else lines).append)


# ---------------------------------------------------------------- export


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tgz"])
def test_an_archive_has_all_names_and_appears_when_it_is_whole(engine: FakeImages, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    lines: list[str] = []
    size = export(engine, folder / name, lines)
    assert engine.asked == [NAME, LATEST]
    assert [path.name for path in folder.iterdir()] == [name]
    assert size == (folder / name).stat().st_size
    with tarfile.open(folder / name, "r:" if name == "x.tar" else "r:gz") as archive:
        assert "manifest.json" in archive.getnames()
    assert lines[0].startswith("export: 1 images, 0 kB") and f"are free in {folder}" in lines[0]


def test_the_same_images_give_the_same_compressed_file(engine: FakeImages, tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        export(engine, tmp_path / name)
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_an_engine_that_fails_half_way_leaves_what_was_there_before(engine: FakeImages, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "x.tar").write_text("before")
    engine.archive = write_archive(tmp_path / "y.tar", [], leave_out=["manifest.json"]).read_bytes()
    with pytest.raises(ArchiveError, match="not whole"):
        export(engine, folder / "x.tar")
    engine.archive = write_archive(tmp_path / "y.tar", [(["ml-bench/s:" + "b" * 12], labels("s", "b"))]).read_bytes()
    with pytest.raises(SandboxError, match=f"did not write {NAME}"):
        export(engine, folder / "x.tar")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("x.tar", "before")]


def test_ctrl_c_leaves_no_file(engine: FakeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(count: int) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setattr(byte_count.ByteCount, "add", lambda self, count: interrupted(count))
    with pytest.raises(KeyboardInterrupt):
        export(engine, folder / "x.tar")
    assert list(folder.iterdir()) == []


def test_a_disk_without_room_is_told_before_the_engine_is_asked(
    engine: FakeImages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=9)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ArchiveError, match="not enough space for 0 kB; name another folder"):
        export(engine, tmp_path / "x.tar")
    assert engine.asked == []
    export(engine, tmp_path / "x.tar.gz")  # how small it becomes is not known before


def test_a_disk_that_becomes_full_leaves_no_file(engine: FakeImages, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        with pytest.raises(ArchiveError, match=r"x\.tar cannot be written: File too large"):
            export(engine, folder / "x.tar")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"), [("x.zip", "must end with .tar"), ("no/such/x.tar", "cannot be written: No such file")]
)
def test_a_file_that_cannot_be_written_is_named(engine: FakeImages, tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ArchiveError, match=reason):
        export(engine, tmp_path / name)


def test_an_image_that_another_machine_could_not_use_is_not_exported(engine: FakeImages, tmp_path: Path) -> None:
    engine.add(
        "ml-bench/r:bbbbbbbbbbbb", layers="C", labels={k: v for k, v in labels(digit="b").items() if k != ASSETS}
    )
    with pytest.raises(SandboxError, match=r"ml-bench/r:bbbbbbbbbbbb cannot be exported: no label ml-bench\.assets"):
        export(engine, tmp_path / "x.tar")


def test_without_images_there_is_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="ml-bench images build"):
        export(FakeImages(), tmp_path / "x.tar")


# ---------------------------------------------------------------- import


def load(engine: FakeImages, path: Path, lines: list[str] | None = None) -> tuple[StoredImage, ...]:
    client: Any = engine
    return import_images(client, path, ([] if lines is None else lines).append)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "in.tar", [((NAME,), labels())])


def loads(engine: FakeImages, *names: str, found: dict[str, str] | None = None, layers: str = LAYER_DIGEST) -> None:
    """Let the engine do what it does when it loads an archive: a new image takes over the names."""

    def load() -> list[dict[str, str]]:
        digest = engine.add(layers="", labels=labels() if found is None else found)
        engine.stored[digest]["RootFS"]["Layers"] = [layers]
        for name in names:
            engine.tag(digest, *name.split(":"))
        return [{"stream": "Loaded image"}]

    engine.load = load


def test_an_imported_image_is_the_latest_even_if_the_archive_does_not_say_so(archive: Path) -> None:
    engine = FakeImages()
    loads(engine, NAME)
    (image,) = load(engine, archive)
    assert engine.loaded == archive.read_bytes()
    assert image.names == (NAME, LATEST)
    assert image.latest == LATEST


def test_an_image_that_lost_its_names_to_an_imported_one_is_removed(archive: Path) -> None:
    engine = FakeImages()
    old = engine.add(NAME, LATEST, layers="B", labels=labels())
    loads(engine, NAME)
    load(engine, archive)
    assert old not in engine.stored
    assert len(engine.stored) == 1


def test_an_image_that_still_has_another_name_or_a_container_is_left(archive: Path) -> None:
    engine = FakeImages()
    old = engine.add(NAME, "keep/this:one", layers="B", labels=labels())
    loads(engine, NAME)
    load(engine, archive)
    assert engine.stored[old]["RepoTags"] == ["keep/this:one"]
    engine = FakeImages()
    old = engine.add(NAME, layers="B", labels=labels())
    engine.used[old] = "somebodys-container"
    loads(engine, NAME)
    lines: list[str] = []
    load(engine, archive, lines)
    assert old in engine.stored
    assert lines[-1].startswith(f"import: {old[:19]}, which was replaced, is left without a name: a container uses it")


def test_an_archive_that_is_not_whole_never_reaches_the_engine(archive: Path) -> None:
    engine = FakeImages()
    archive.write_bytes(archive.read_bytes()[:3000])
    with pytest.raises(ArchiveError):
        load(engine, archive)
    assert engine.loaded == b""


def test_what_the_engine_refuses_is_told_in_one_line_with_the_way_out(archive: Path) -> None:
    engine = FakeImages()
    engine.load = lambda: [{"error": "write /x:\n no space left on device"}]
    with pytest.raises(SandboxError, match=r"^import: .*no space left on device.*`ml-bench images prune`") as error:
        load(engine, archive)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", [{"layers": "sha256:other"}, {"found": labels(**{ASSETS: "real"})}])
def test_an_engine_that_loaded_something_else_is_noticed(archive: Path, change: dict[str, Any]) -> None:
    engine = FakeImages()
    loads(engine, NAME, **change)
    with pytest.raises(SandboxError, match="is not what the archive has"):
        load(engine, archive)


def test_long_transfers_say_how_far_they_are(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_count, "LINE_SECONDS", 0.0)
    engine = FakeImages()
    loads(engine, NAME)
    lines: list[str] = []
    load(engine, archive, lines)
    size = byte_count.bytes_text(archive.stat().st_size)
    assert lines[0] == f"import: {size}"
    assert lines[-1] == f"import: loading: {size} of {size}"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 kB"), (999_499, "999 kB"), (10**6, "1 MB"), (45_600_000, "46 MB"), (2_312_345_678, "2.31 GB")],
)
def test_sizes_are_written_for_people(count: int, text: str) -> None:
    assert byte_count.bytes_text(count) == text


# ---------------------------------------------------------------- a real engine


@pytest.fixture
def nothing_dangling(client: DockerClient) -> Iterator[None]:
    def dangling() -> set[str]:
        found: list[dict[str, Any]] = client.api.images(
            filters={"dangling": True, "label": "ml-bench.layer=environment"}
        )
        return {record["Id"] for record in found}

    before = dangling()
    yield
    assert dangling() <= before


@pytest.mark.docker
@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz"])
def test_an_image_comes_back_as_it_went(
    image_builds: ImageBuilds, client: DockerClient, tmp_path: Path, name: str, nothing_dangling: None
) -> None:
    image_builds.write(environment={"SOME_VARIABLE": "some value"})
    built = image_builds.build_one()
    (before,) = chosen(client, [image_builds.repository])
    export_images(client, [before], tmp_path / name)
    for one in before.names:
        client.api.remove_image(one)
    assert stored_image(client, built.name) is None
    (after,) = import_images(client, tmp_path / name)
    assert after == before
    assert image_builds.output(built.name, "printenv", "SOME_VARIABLE") == "some value"
    assert image_builds.build_one().reused


@pytest.mark.docker
def test_an_import_takes_over_the_names_and_leaves_nothing_without_one(
    image_builds: ImageBuilds, client: DockerClient, tmp_path: Path, nothing_dangling: None
) -> None:
    first = image_builds.build_one()
    export_images(client, chosen(client, [image_builds.repository]), tmp_path / "x.tar")
    for name in chosen(client, [image_builds.repository])[0].names:
        client.api.remove_image(name)
    again = image_builds.build_one()
    assert (again.name, again.digest != first.digest) == (first.name, True)
    image_builds.file.write_text("print('second')\n")
    later = image_builds.build_one()
    (after,) = import_images(client, tmp_path / "x.tar")
    assert after.digest == first.digest
    assert stored_image(client, again.digest) is None
    assert [image.name for image in chosen(client, [image_builds.repository])] == [first.name]
    still = stored_image(client, later.name)
    assert still is not None and still.latest is None
