"""Pruning: what nothing needs goes, and nothing that anybody may need, be it ours or not."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import pytest

from ml_bench_metric.environments.images import LAYER, RECIPE
from ml_bench_metric.environments.prune import Plan, plan_prune, prune
from ml_bench_metric.environments.stored import exclusive_bytes, stored_image, stored_images
from ml_bench_metric.sandbox.docker_engine import owner
from ml_bench_metric.sandbox.protocol import SandboxError
from tests.image_archives import labels
from tests.stored_images import FakeImages

if TYPE_CHECKING:
    from docker import DockerClient

    from tests.image_builds import ImageBuilds


def name(digit: str, repository: str = "r") -> str:
    return f"ml-bench/{repository}:{digit * 12}"


def packages(digit: str) -> dict[str, str]:
    return {LAYER: "packages", RECIPE: digit * 64}


BASE = {LAYER: "base", RECIPE: "0" * 64}


def planned(engine: FakeImages) -> Plan:
    client: Any = engine
    return plan_prune(client)


def going(engine: FakeImages) -> list[str]:
    return [str(image.name) for image in planned(engine).going]


def left(engine: FakeImages) -> dict[str, str]:
    return {image.name: image.reason for image in planned(engine).left}


@pytest.fixture
def engine() -> FakeImages:
    """A base, packages, the image that was built last on them, and one that another took its place from."""
    engine = FakeImages()
    engine.add(layers="B")
    engine.add("ml-bench/base:123456789abc", layers="BS", labels=BASE, sizes={"B": 1000})
    engine.add(name("a", "packages"), layers="BSP", labels=packages("a"), sizes={"B": 1000, "P": 500})
    engine.add(name("c"), "ml-bench/r:latest", layers="BSPN", labels=labels(digit="c"), sizes={"B": 1000, "P": 500})
    engine.add(name("d"), layers="BSPO", labels=labels(digit="d"), sizes={"B": 1000, "P": 500, "O": 7})
    return engine


def test_a_superseded_image_goes_and_what_the_latest_stands_on_stays(engine: FakeImages) -> None:
    plan = planned(engine)
    assert [image.name for image in plan.going] == [name("d")]
    assert plan.left == ()
    assert plan.freed_bytes == 7


def test_layers_and_bases_on_which_no_current_image_stands_go_behind_what_stands_on_them(engine: FakeImages) -> None:
    engine.add("ml-bench/base:cba987654321", layers="QS", labels=BASE, sizes={"Q": 2000})
    engine.add(name("e", "packages"), layers="QST", labels=packages("e"), sizes={"Q": 2000, "T": 300})
    engine.add(name("f"), layers="QSTU", labels=labels(digit="f"), sizes={"Q": 2000, "T": 300})
    plan = planned(engine)
    assert [str(image.name) for image in plan.going] == [
        name("d"),
        name("f"),
        name("e", "packages"),
        "ml-bench/base:cba987654321",
    ]
    assert plan.freed_bytes == 7 + 10 + 300 + 2000 + 10


def test_the_image_below_one_with_assets_is_none_that_was_superseded(engine: FakeImages) -> None:
    # It has the kind `no-assets`, of which it is not the latest, but the one with stand-ins is made of it.
    kind = labels("s", "e")
    engine.add("ml-bench/s:no-assets-" + "e" * 12, layers="BSPV", labels=kind)
    engine.add("ml-bench/s:stand-in-" + "f" * 12, "ml-bench/s:stand-in-latest", layers="BSPVW", labels=labels("s", "f"))
    assert going(engine) == [name("d")]


def test_a_kind_keeps_its_own_latest(engine: FakeImages) -> None:
    engine.add("ml-bench/r:gpu-" + "e" * 12, "ml-bench/r:gpu-latest", layers="BSPG", labels=labels(digit="e"))
    engine.add("ml-bench/r:gpu-" + "f" * 12, layers="BSPH", labels=labels(digit="f"))
    assert going(engine) == [name("d"), "ml-bench/r:gpu-" + "f" * 12]


def test_an_image_of_an_older_version_goes_because_no_evaluation_finds_it(engine: FakeImages) -> None:
    old = {LAYER: "environment", RECIPE: "e" * 64}
    engine.add(name("e", "old"), "ml-bench/old:latest", layers="BSPX", labels=old)
    assert going(engine) == [name("e", "old"), name("d")]


@pytest.mark.parametrize("names", [["someone/thing:1"], []], ids=["named", "nameless"])
def test_what_somebody_made_of_our_images_is_never_touched_nor_what_it_stands_on(
    engine: FakeImages, names: list[str]
) -> None:
    # It inherits the labels, and so looks like ours but for its name.
    theirs = engine.add(*names, layers="BSPOX", labels=labels(digit="d"))
    assert going(engine) == []
    (reason,) = left(engine).values()
    assert "stands on it" in reason
    assert (names[0] if names else theirs[:19]) in reason


def test_dangling_images_of_others_are_never_touched(engine: FakeImages) -> None:
    engine.add(layers="XY")
    engine.add(layers="XZ", labels=labels(digit="e"))
    assert going(engine) == [name("d")]


def test_what_a_container_uses_is_left_with_all_that_it_stands_on(engine: FakeImages) -> None:
    engine.add(name("e", "packages"), layers="BST", labels=packages("e"))
    used = engine.add(name("f"), layers="BSTU", labels=labels(digit="f"))
    engine.used[used] = "somebodys-container"
    assert going(engine) == [name("d")]
    assert left(engine) == {
        name("f"): "container somebodys-container uses it",
        name("e", "packages"): f"{name('f')} stands on it",
    }


def test_what_somebody_gave_another_name_is_left(engine: FakeImages) -> None:
    engine.stored["sha256:" + f"{4:064x}"]["RepoTags"].append("keep/this:one")
    assert going(engine) == []
    assert left(engine) == {name("d"): "it has another name, keep/this:one"}


def test_removing_takes_our_names_alone_and_reports_each(engine: FakeImages) -> None:
    client: Any = engine
    lines: list[str] = []
    assert prune(client, planned(engine), lines.append) == ()
    assert engine.removed == [name("d")]
    assert lines == [f"{name('d')} is removed"]
    assert going(engine) == []


def test_what_came_into_use_after_it_was_shown_is_left(engine: FakeImages) -> None:
    client: Any = engine
    plan = planned(engine)
    engine.used[plan.going[0].digest] = "a-container"
    (refused,) = prune(client, plan)
    assert (refused.name, refused.reason) == (name("d"), "a container uses it")
    assert engine.removed == []


def test_nothing_is_removed_while_an_image_is_built(engine: FakeImages) -> None:
    client: Any = engine
    engine.builders = [owner()]
    with pytest.raises(SandboxError, match="an image is being built"):
        prune(client, planned(engine))
    assert engine.removed == []


def test_a_container_in_which_nothing_is_built_does_not_stop_it(engine: FakeImages) -> None:
    # Candidates' containers inherit the builder's label, but empty.
    client: Any = engine
    assert prune(client, planned(engine)) == ()


def test_layers_that_others_have_too_are_not_counted_as_freed(engine: FakeImages) -> None:
    client: Any = engine
    first, second = [image for image in stored_images(client) if image.name in (name("c"), name("d"))]
    assert exclusive_bytes(client, [first, second]) == 1000 + 10 + 500 + 10 + 7
    assert exclusive_bytes(client, [first], [second]) == 10


def test_where_steps_and_layers_do_not_fit_the_whole_is_counted(engine: FakeImages) -> None:
    client: Any = engine
    image = next(image for image in stored_images(client) if image.name == name("d"))
    engine.stored[image.digest]["sizes"] = [1000, 0, 500, 7]  # a layer without a byte, and steps without a layer
    assert exclusive_bytes(client, [image]) == image.size


@pytest.mark.docker
def test_on_a_real_engine_a_superseded_image_is_gone_with_its_packages_and_a_used_one_stays(
    image_builds: ImageBuilds, client: DockerClient
) -> None:
    # Packages that change no file would have the layers of their base, and cost nothing.
    image_builds.write("open('/opt/packages', 'w').write('some')\n")
    first = image_builds.build_one()
    image_builds.write("open('/opt/packages', 'w').write('others')\n")
    second = image_builds.build_one()
    image_builds.file.write_text("print('other files')\n")
    third = image_builds.build_one()
    container = client.api.create_container(second.digest, ["true"])["Id"]
    try:
        plan = plan_prune(client)
        mine = [image for image in plan.going if image_builds.name in str(image.name)]
        assert [str(image.name).partition(":")[0] for image in mine] == [
            f"ml-bench/{image_builds.name}",
            "ml-bench/packages",
        ]
        assert mine[0].name == first.name
        assert second.name in {one.name for one in plan.left}
        # What others build on the same engine meanwhile is not this test's.
        prune(client, dataclasses.replace(plan, going=tuple(mine)))
        assert [stored_image(client, str(image.name)) for image in mine] == [None, None]
        for kept in (second, third):
            assert image_builds.output(kept.name, "echo", "whole") == "whole"
    finally:
        client.api.remove_container(container)


@pytest.mark.docker
def test_a_real_engine_refuses_what_a_container_uses_without_taking_its_name(
    image_builds: ImageBuilds, client: DockerClient
) -> None:
    first = image_builds.build_one()
    image_builds.file.write_text("print('other files')\n")
    image_builds.build_one()
    plan = plan_prune(client)
    mine = tuple(image for image in plan.going if image.name == first.name)
    assert len(mine) == 1
    container = client.api.create_container(first.digest, ["true"], name=f"test-prune-{os.getpid()}")["Id"]
    try:
        (refused,) = prune(client, dataclasses.replace(plan, going=mine))
    finally:
        client.api.remove_container(container)
    assert refused.name == first.name
    assert "container" in refused.reason
    assert stored_image(client, first.name) is not None
