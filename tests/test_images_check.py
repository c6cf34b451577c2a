"""Checking images: what was built is compared with its recipe, and looked at as a candidate finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from ml_bench_metric.environments import check as checking
from ml_bench_metric.environments.check import Finding, check_images
from ml_bench_metric.environments.chosen import chosen
from ml_bench_metric.environments.images import ASSETS, CHECKOUT, DEVICE, LAYER, MISSING, RECIPE, REPOSITORIES
from ml_bench_metric.environments.labels import label_faults
from ml_bench_metric.environments.registry import EnvironmentUnknown
from ml_bench_metric.environments.stored import StoredImage, stored_images
from ml_bench_metric.sandbox.protocol import SandboxError
from tests.image_archives import labels
from tests.recipe_builders import RecipeFolder
from tests.stored_images import FakeImages

if TYPE_CHECKING:
    from docker import DockerClient

    from tests.image_builds import ImageBuilds

# ---------------------------------------------------------------- labels


def stored(name: str = "ml-bench/r:aaaaaaaaaaaa", **changed: str) -> StoredImage:
    return StoredImage("sha256:1", (name,), labels(**changed), ("B",), 10)


def test_whole_labels_have_no_faults() -> None:
    assert label_faults(stored()) == []
    gpu = stored("ml-bench/r:gpu-stand-in-aaaaaaaaaaaa", **{DEVICE: "gpu", ASSETS: "stand_in"})
    assert label_faults(gpu) == []


@pytest.mark.parametrize("name", [name for name in labels() if name not in (LAYER, RECIPE)])
def test_every_label_is_needed(name: str) -> None:
    image = stored()
    rest = {key: value for key, value in image.labels.items() if key != name}
    (fault,) = label_faults(StoredImage(image.digest, image.names, rest, image.layers, image.size))
    assert fault == f"no label {name}; an older version made it"


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({ASSETS: "some"}, "label ml-bench.assets is 'some'"),
        ({DEVICE: "tpu"}, "label ml-bench.device is 'tpu', which is none of cpu, gpu"),
        ({CHECKOUT: ""}, "label ml-bench.checkout is ''"),
        ({MISSING: "few"}, "label ml-bench.missing-files is 'few', which is no number"),
        ({REPOSITORIES: ""}, "label ml-bench.repositories names none"),
        ({ASSETS: "stand_in"}, "its labels are those of ml-bench/r:stand-in-aaaaaaaaaaaa"),
    ],
)
def test_labels_that_cannot_be_are_told(changed: dict[str, str], fault: str) -> None:
    assert any(found.startswith(fault) for found in label_faults(stored(**changed)))


# ---------------------------------------------------------------- which images are meant


@pytest.fixture
def engine(recipe_folder: RecipeFolder) -> Any:
    for name in ("r", "s", "t"):
        recipe_folder.recipe(name)
        recipe_folder.repository(f"repository-of-{name}")
    engine = FakeImages()
    engine.add("ml-bench/base:123456789abc", layers="B", labels={LAYER: "base", RECIPE: "9" * 64})
    engine.add("ml-bench/r:aaaaaaaaaaaa", layers="BA", labels=labels("r", "a"))
    engine.add("ml-bench/r:bbbbbbbbbbbb", "ml-bench/r:latest", layers="BB", labels=labels("r", "b"))
    engine.add("ml-bench/r:gpu-cccccccccccc", "ml-bench/r:gpu-latest", layers="BC", labels=labels("r", "c"))
    serves_two = labels("s", "d", **{REPOSITORIES: "one,two"})
    engine.add("ml-bench/s:dddddddddddd", "ml-bench/s:latest", layers="BD", labels=serves_two)
    engine.add("theirs:1", layers="BDX", labels=serves_two)
    return engine


@pytest.mark.parametrize(
    ("names", "digits"),
    [
        ([], "bcd"),
        (["r"], "bc"),
        (["two"], "d"),
        (["s", "one", "r"], "bcd"),
        (["ml-bench/r:aaaaaaaaaaaa"], "a"),
        (["ml-bench/r:gpu-latest"], "c"),
        (["sha256:" + f"{1:064x}"], "a"),
    ],
)
def test_a_name_stands_for_an_image_or_for_the_latest_of_a_recipe_or_repository(
    engine: Any, names: list[str], digits: str
) -> None:
    assert "".join(image.labels[RECIPE][0] for image in chosen(engine, names)) == digits


def test_a_name_without_an_image_is_told_with_the_way_out(engine: Any) -> None:
    with pytest.raises(SandboxError, match="no image of t has been built: `ml-bench images build t`"):
        chosen(engine, ["t"])
    with pytest.raises(SandboxError, match="no environment image theirs:1; `ml-bench images list`"):
        chosen(engine, ["theirs:1"])
    with pytest.raises(EnvironmentUnknown, match="'q'"):
        chosen(engine, ["r", "q"])


# ---------------------------------------------------------------- real images

Change = Callable[[str], str]


def findings(client: DockerClient, builds: ImageBuilds) -> list[Finding]:
    return list(check_images(client, chosen(client, [builds.repository])))


def faults(client: DockerClient, builds: ImageBuilds) -> dict[str, str]:
    return {found.what: found.detail for found in findings(client, builds) if found.state != "ok"}


def spoil(client: DockerClient, name: str, script: str, **changed: str) -> None:
    """Put another image in the place of one: as it was, but for what a script of root's and some labels change."""
    api: Any = client.api
    image = next(image for image in stored_images(client) if image.name == name)
    container = api.create_container(image.digest, ["sh", "-ec", script], user="0:0", network_disabled=True)["Id"]
    try:
        api.start(container)
        assert api.wait(container)["StatusCode"] == 0
        made = api.commit(container, conf={"Labels": {**image.labels, **changed}, "Cmd": []})["Id"]
    finally:
        api.remove_container(container)
    for one in image.names:
        api.tag(made, *one.split(":"))


@pytest.mark.docker
def test_a_fresh_image_is_as_it_must_be(image_builds: ImageBuilds, client: DockerClient) -> None:
    image_builds.write(imports=["json", "sqlite3"], environment={"PYTHONPATH": "/nowhere"})
    built = image_builds.build_one()
    assert findings(client, image_builds) == [
        Finding(built.name, what, "ok")
        for what in (
            "labels",
            "recipe",
            "python 3.11",
            f"folder /workspace/{image_builds.repository}",
            "import json",
            "import sqlite3",
        )
    ]


@pytest.mark.docker
def test_an_image_whose_recipe_has_changed_is_older_and_no_fault(
    image_builds: ImageBuilds, client: DockerClient
) -> None:
    built = image_builds.build_one()
    image_builds.file.write_text("print('second')\n")
    (found,) = [found for found in findings(client, image_builds) if found.state != "ok"]
    assert (found.image, found.what, found.state) == (built.name, "recipe", "older")
    later = image_builds.build_one()
    assert found.detail == f"`ml-bench images build {image_builds.name}` makes {later.name}"
    assert [found.state for found in check_images(client, chosen(client, [built.name]))][1] == "older"
    assert faults(client, image_builds) == {}


@pytest.mark.docker
def test_modules_that_do_not_import_are_told_each(image_builds: ImageBuilds, client: DockerClient) -> None:
    script = (
        "import pathlib, site\n"
        "folder = pathlib.Path(site.getsitepackages()[0])\n"
        "(folder / 'noisy_module.py').write_text('print(1)')\n"
        "(folder / 'exits_quietly.py').write_text('import sys; sys.exit(0)')\n"
        "(folder / 'ends_all.py').write_text('import os; os._exit(0)')\n"
    )
    image_builds.write(script)
    image_builds.build_one()
    image_builds.write(script, imports=["noisy_module", "no_such_module", "exits_quietly", "ends_all", "json"])
    found = faults(client, image_builds)
    assert found.pop("recipe")
    assert found == {
        "import no_such_module": "ModuleNotFoundError: No module named 'no_such_module'",
        "import exits_quietly": "SystemExit: 0",
        "import ends_all": "it ended the process",
    }


@pytest.mark.docker
@pytest.mark.parametrize(
    ("script", "detail"),
    [
        ("rm -r {folder}", "is not there"),
        ("rm {folder}/*", "is empty"),
        ("mkdir -p {folder}/a/b", "candidates cannot write in {folder}/a"),
    ],
)
def test_a_repository_that_candidates_cannot_use_is_a_fault(
    image_builds: ImageBuilds, client: DockerClient, script: str, detail: str
) -> None:
    folder = f"/workspace/{image_builds.repository}"
    spoil(client, image_builds.build_one().name, script.format(folder=folder))
    assert faults(client, image_builds) == {f"folder {folder}": detail.format(folder=folder)}


@pytest.mark.docker
def test_another_python_than_the_recipes_is_a_fault(image_builds: ImageBuilds, client: DockerClient) -> None:
    image_builds.build_one()
    image_builds.write(python="3.12")
    found = faults(client, image_builds)
    assert found["python 3.11"] == "the recipe has 3.12"


@pytest.mark.docker
def test_an_image_in_which_nothing_can_run_is_a_fault(image_builds: ImageBuilds, client: DockerClient) -> None:
    spoil(client, image_builds.build_one().name, "rm /usr/bin/timeout")
    assert "no timeout in the image" in faults(client, image_builds)["container"]


@pytest.mark.docker
def test_broken_labels_are_a_fault_and_nothing_else_is_looked_at(
    image_builds: ImageBuilds, client: DockerClient
) -> None:
    spoil(client, image_builds.build_one().name, "true", **{MISSING: "few"})
    (found,) = findings(client, image_builds)
    assert (found.what, found.state) == ("labels", "fault")


@pytest.mark.docker
def test_what_cannot_be_compared_with_its_recipe_is_unknown_with_the_reason(
    image_builds: ImageBuilds, client: DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = image_builds.build_one()
    monkeypatch.setattr(checking, "find_base", lambda *_: None)
    assert [(found.state, found.detail) for found in findings(client, image_builds)][1] == (
        "unknown",
        "the engine has no base of its kind, or only an older one",
    )
    spoil(client, built.name, "true", **{MISSING: "3"})
    assert [(found.state, found.detail) for found in findings(client, image_builds)][1] == (
        "unknown",
        "--repositories DIR is needed: its checkout is not complete",
    )


@pytest.mark.docker
def test_an_image_without_its_recipe_is_older(
    image_builds: ImageBuilds, client: DockerClient, recipe_folder: RecipeFolder
) -> None:
    image_builds.build_one()
    (recipe_folder.root / image_builds.name / "environment.yaml").unlink()
    assert [(found.what, found.state) for found in findings(client, image_builds)] == [
        ("labels", "ok"),
        ("recipe", "older"),
    ]


@pytest.mark.docker
def test_an_image_without_checkout_has_empty_folders(image_builds: ImageBuilds, client: DockerClient) -> None:
    image_builds.build_one(checkout=False)
    assert faults(client, image_builds) == {}
