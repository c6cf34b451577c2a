"""Weights and data on the real engine: stand-ins are made as a candidate would, real ones come where they belong."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from ml_bench_metric.environments import asset_layer
from ml_bench_metric.environments.assets import AssetStore
from ml_bench_metric.environments.build_log import BuildError
from ml_bench_metric.environments.images import ASSETS, LACKING, PARENT
from ml_bench_metric.environments.recipe import STAND_INS
from tests.image_builds import ImageBuilds

pytestmark = pytest.mark.docker

MAKES = """
import os, pathlib, socket, sys
pathlib.Path("data").mkdir()
pathlib.Path("data/weights.txt").write_text("made up")
pathlib.Path.home().joinpath("cache.txt").write_text("made up")
pathlib.Path("/opt/assets/weights.txt").write_text("made up")
pathlib.Path("/tmp/left").touch()
try:
    pathlib.Path("/etc/weights.txt").touch()
except PermissionError:
    pass
else:
    sys.exit("it is root")
names = [name for name in os.environ if "PIP_" in name or "proxy" in name.lower()]
print(os.getuid(), os.getgid(), os.getcwd(), os.environ["HOME"], os.environ["SOME_VARIABLE"], names)
print(sorted(name for _, name in socket.if_nameindex()))
"""


# ---------------------------------------------------------------- stand-ins


def test_stand_ins_are_made_as_the_candidate_without_network_in_the_repositorys_folder(
    image_builds: ImageBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    image_builds.write(files={STAND_INS: MAKES}, environment={"SOME_VARIABLE": "x"}, scripts=[])
    image = image_builds.build_one()
    folder = f"/workspace/{image_builds.repository}"
    log = (image_builds.folder.root.parent / "cache/ml-bench/build-logs" / f"{image_builds.name}.log").read_text()
    assert f"1000 1000 {folder} /home/candidate x []\n['lo']\n" in log
    made = f"{folder}/data/weights.txt /home/candidate/cache.txt /opt/assets/weights.txt"
    assert image_builds.output(image.name, "sh", "-c", f"stat -c %u {made}; cat {made}; ls /tmp") == (
        "1000\n1000\n1000\nmade upmade upmade up"
    )
    assert image_builds.output(image.name, "printenv", "SOME_VARIABLE") == "x"


def test_the_kind_of_assets_is_in_the_tag_the_labels_and_what_evaluations_see(image_builds: ImageBuilds) -> None:
    image_builds.write(files={STAND_INS: "open('weights', 'w').write('made up')"}, scripts=[])
    stand_in = image_builds.build_one()
    assert (stand_in.assets, image_builds.labels(stand_in.name)[ASSETS]) == ("stand_in", "stand_in")
    assert stand_in.name.startswith(f"ml-bench/{image_builds.name}:stand-in-")
    none = image_builds.build_one(assets="none")
    assert none.reused, "it is the layer below the stand-ins"
    assert (none.assets, none.name) == ("none", image_builds.labels(stand_in.name)[PARENT])
    assert none.name.startswith(f"ml-bench/{image_builds.name}:no-assets-")
    assert [image.assets for image in image_builds.serving()] == ["stand_in", "none"]
    assert [image.name for image in image_builds.serving(assets="none")] == [none.name]
    assert image_builds.serving(assets="real") == []
    assert image_builds.output(none.name, "ls", image_builds.repository) == "run.py"


def test_stand_ins_are_made_again_only_when_their_program_changes(image_builds: ImageBuilds) -> None:
    step = "stand-ins for weights and data"
    image_builds.write(files={STAND_INS: "pass"}, scripts=[])
    first = image_builds.build_one()
    assert image_builds.build_one().name == first.name
    assert len(image_builds.steps(step)) == 1
    image_builds.write(files={STAND_INS: "pass  # otherwise"}, scripts=[])
    image_builds.lines.clear()
    second = image_builds.build_one()
    assert len(image_builds.steps(step)) == len(image_builds.steps(f"save as {second.name}")) == 1
    assert [line for line in image_builds.lines if "save as" in line and second.name not in line] == []
    assert second.name != first.name


def test_stand_ins_that_fail_make_no_image_and_their_last_words_are_told(image_builds: ImageBuilds) -> None:
    image_builds.write(files={STAND_INS: "raise SystemExit('no module of that name')"}, scripts=[])
    with pytest.raises(BuildError, match=r"stand-ins for weights and data: ended with status 1(.|\n)*no module of"):
        image_builds.build()
    assert image_builds.serving(assets="stand_in") == []


def test_stand_ins_that_never_end_are_stopped(image_builds: ImageBuilds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asset_layer, "STAND_IN_SECONDS", 1)
    image_builds.write(files={STAND_INS: "import time; time.sleep(1000)"}, scripts=[])
    with pytest.raises(BuildError, match="stand-ins for weights and data: not finished after 1 s"):
        image_builds.build()


# ---------------------------------------------------------------- real ones


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of downloaded files; the store is one of the test."""
    monkeypatch.setenv("ML_BENCH_ASSETS", str(tmp_path / "store"))
    folder = tmp_path / "downloads"
    (folder / "content" / "inner").mkdir(parents=True)
    (folder / "content" / "inner" / "b.txt").write_text("b")
    (folder / "content" / "a.sh").write_text("a")
    with zipfile.ZipFile(folder / "some.zip", "w") as archive:
        archive.write(folder / "content" / "a.sh", "a.sh")
        archive.write(folder / "content" / "inner" / "b.txt", "inner/b.txt")
    with tarfile.open(folder / "some.tar.gz", "w:gz") as tar:
        tar.add(folder / "content", "some-1.0")
    (folder / "some.bin").write_bytes(b"weights")
    (folder / "some.txt.gz").write_bytes(gzip.compress(b"text"))
    return folder


def asset(file: Path, to: str, unpack: str = "none", **facts: object) -> dict[str, object]:
    digest = sha256(file.read_bytes()).hexdigest()
    url = f"https://127.0.0.1:1/{file.name}"
    return {"name": file.name, "url": url, "sha256": digest, "to": to, "unpack": unpack, **facts}


def fetched(image_builds: ImageBuilds, downloads: Path, *assets: dict[str, object], lacking: str = "") -> None:
    """Write the recipe, and give the store all of its assets but one."""
    recipe = image_builds.write(assets=assets, scripts=[])
    for one in recipe.assets:
        if one.name != lacking:
            AssetStore().add(recipe.name, one, downloads / one.name)


def test_real_assets_come_where_they_belong_and_are_the_candidates(image_builds: ImageBuilds, downloads: Path) -> None:
    folder = f"/workspace/{image_builds.repository}"
    fetched(
        image_builds,
        downloads,
        asset(downloads / "some.bin", "/home/candidate/.cache/hub/weights.bin"),
        asset(downloads / "some.zip", f"{folder}/data/zipped", "zip"),
        asset(downloads / "some.tar.gz", "/srv/data", "tar"),
        asset(downloads / "some.txt.gz", "/opt/assets/some.txt", "gz"),
    )
    image = image_builds.build_one()
    assert (image.assets, image_builds.labels(image.name)[ASSETS]) == ("real", "real")
    assert image.name.startswith(f"ml-bench/{image_builds.name}:real-")
    program = (
        f"cat /home/candidate/.cache/hub/weights.bin {folder}/data/zipped/a.sh {folder}/data/zipped/inner/b.txt "
        "/srv/data/some-1.0/a.sh /srv/data/some-1.0/inner/b.txt /opt/assets/some.txt; echo;"
        f"stat -c %u:%a /home/candidate/.cache /home/candidate/.cache/hub/weights.bin {folder}/data "
        f"{folder}/data/zipped /srv/data /srv/data/some-1.0/a.sh /opt/assets/some.txt; ls {folder}"
    )
    assert image_builds.output(image.name, "sh", "-c", program).split() == [
        "weightsababtext",
        *("1000:755", "1000:644", "1000:755", "1000:755", "1000:755", "1000:644", "1000:644"),
        *("data", "run.py"),
    ]
    assert [found.assets for found in image_builds.serving()] == ["real", "none"]


def test_a_task_whose_asset_was_not_fetched_is_not_served_by_the_image_and_others_are(
    image_builds: ImageBuilds, downloads: Path
) -> None:
    one, two = f"{image_builds.repository}/1", f"{image_builds.repository}/2"
    fetched(
        image_builds,
        downloads,
        asset(downloads / "some.bin", "/opt/assets/some.bin", tasks=[one]),
        asset(downloads / "some.zip", "/opt/assets/zipped", "zip", tasks=[two]),
        lacking="some.zip",
    )
    assert image_builds.build_one().assets == "none", "not all are here, and it has no stand-ins"
    image = image_builds.build_one(assets="real")
    assert image_builds.labels(image.name)[LACKING] == two
    assert image_builds.serving(one)[0].name == image.name
    assert [found.assets for found in image_builds.serving(two)] == ["none"]
    assert [line for line in image_builds.lines if line.endswith("without some.zip, which have not been fetched")]
    assert image_builds.output(image.name, "ls", "/opt/assets") == "some.bin"


def test_another_file_is_another_image(image_builds: ImageBuilds, downloads: Path) -> None:
    names = []
    for content in (b"one", b"two"):
        (downloads / "some.bin").write_bytes(content)
        fetched(image_builds, downloads, asset(downloads / "some.bin", "/opt/assets/some.bin"))
        names.append(image_builds.build_one().name)
    assert names[0] != names[1]
    assert [image_builds.output(name, "cat", "/opt/assets/some.bin") for name in names] == ["one", "two"]
