"""Finding the image of a task: by labels alone, the best one first, and never one that cannot serve it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from ml_bench_metric.environments import images
from ml_bench_metric.environments.images import (
    AssetsWanted,
    content_digest,
    image_kind,
    image_name,
    list_images,
    serving_images,
)
from ml_bench_metric.environments.recipe import Device
from ml_bench_metric.sandbox.execution import Assets
from tests.recipe_builders import FakeEngine, environment_record

Record = dict[str, Any]


def serving(*records: Record, task: str = "r/1", wanted: AssetsWanted = "auto", device: Device = "cpu") -> list[str]:
    """Return the images that serve a task, by the digit of their digests."""
    engine: Any = FakeEngine(*records)
    found = serving_images(list_images(engine), task.split("/")[0], task, assets=wanted, device=device)
    return [image.digest.removeprefix("sha256:")[0] for image in found]


# ---------------------------------------------------------------- listing


def test_images_are_listed_by_recipe_the_youngest_first() -> None:
    engine: Any = FakeEngine(
        environment_record("s", "a", created=5, latest=True),
        environment_record("r", "b", created=1),
        environment_record("r", "c", created=2, latest=True),
    )
    assert [(image.recipe, image.created, image.current) for image in list_images(engine)] == [
        ("r", 2, True),
        ("r", 1, False),
        ("s", 5, True),
    ]


def test_a_listed_image_says_what_its_labels_say() -> None:
    record = environment_record(
        "r",
        kind="gpu-arm64-real",
        repositories="one,two",
        tasks="one/1,one/2",
        assets="real",
        device="gpu",
        gpu="required",
        lacking="one/2",
        platform="linux/arm64",
        missing=3,
        latest=True,
    )
    engine: Any = FakeEngine(record)
    (image,) = list_images(engine)
    assert image.name == "ml-bench/r:gpu-arm64-real-aaaaaaaaaaaa"
    assert (image.repositories, image.tasks, image.lacking_tasks) == (("one", "two"), ("one/1", "one/2"), ("one/2",))
    assert (image.assets, image.device, image.platform) == ("real", "gpu", "linux/arm64")
    assert (image.missing_files, image.checkout, image.current, image.uses_gpu) == (3, True, True, "required")


def test_an_image_that_lost_its_name_is_not_offered() -> None:
    untagged = {**environment_record("r", "a"), "RepoTags": None}
    renamed = {**environment_record("r", "b"), "RepoTags": ["other:tag"]}
    assert serving(untagged, renamed) == []


@pytest.mark.parametrize("label", [images.ASSETS, images.GPU, images.MISSING, images.TASKS])
def test_an_image_of_an_older_version_is_passed_over(label: str) -> None:
    older = environment_record("r")
    del older["Labels"][label]
    assert serving(older) == []


# ---------------------------------------------------------------- which serves


def test_an_image_serves_the_repositories_of_its_label_and_no_other() -> None:
    record = environment_record("sample", repositories="tiny-gan,tiny-text")
    assert serving(record, task="tiny-text/1") == ["a"]
    assert serving(record, task="tiny/1") == serving(record, task="sample/1") == []


def test_the_image_built_last_serves_a_repository_even_if_another_is_younger() -> None:
    # A recipe that went back to an earlier state finds the earlier image unchanged.
    records = [environment_record("r", "a", latest=True), environment_record("r", "b", created=2)]
    assert serving(*records) == ["a", "b"]


def test_without_that_mark_the_youngest_image_serves() -> None:
    assert serving(environment_record("r", "a"), environment_record("r", "b", created=2)) == ["b", "a"]


def test_an_image_for_some_tasks_serves_these_and_no_others() -> None:
    whole = environment_record("whole", "a", repositories="r", created=3, latest=True, assets="real")
    part = environment_record("part", "b", repositories="r", tasks="r/1,r/12", assets="none")
    assert serving(whole, part, task="r/1") == serving(whole, part, task="r/12") == ["b"]
    assert serving(whole, part, task="r/2") == ["a"]
    assert serving(part, task="r/2") == []


@pytest.mark.parametrize("records", [1, -1])
def test_real_assets_go_before_stand_ins_and_these_before_none(records: int) -> None:
    found = [
        environment_record("r", "a", assets="none", latest=True, created=9),
        environment_record("r", "b", assets="stand_in", kind="stand-in", latest=True),
        environment_record("r", "c", assets="real", kind="real"),
    ]
    assert serving(*found[::records]) == ["c", "b", "a"]


@pytest.mark.parametrize(("wanted", "expected"), [("none", "a"), ("stand_in", "b"), ("real", "c")])
def test_assets_that_are_wanted_are_given_and_no_others(wanted: AssetsWanted, expected: str) -> None:
    records = {
        "a": environment_record("r", "a", assets="none"),
        "b": environment_record("r", "b", assets="stand_in"),
        "c": environment_record("r", "c", assets="real"),
    }
    assert serving(*records.values(), wanted=wanted) == [expected]
    del records[expected]
    assert serving(*records.values(), wanted=wanted) == []


@pytest.mark.parametrize("wanted", get_args(AssetsWanted))
def test_an_image_whose_tasks_need_no_assets_serves_whatever_is_wanted(wanted: AssetsWanted) -> None:
    assert serving(environment_record("r", assets="not_needed"), wanted=wanted) == ["a"]


def test_a_task_whose_asset_an_image_lacks_falls_back_to_the_next_image() -> None:
    real = environment_record("r", "a", assets="real", lacking="r/1,r/12")
    stand_in = environment_record("r", "b", assets="stand_in")
    assert serving(real, stand_in, task="r/1") == serving(real, stand_in, task="r/12") == ["b"]
    assert serving(real, stand_in, task="r/2") == ["a", "b"]
    assert serving(real, stand_in, task="r/1", wanted="real") == []


@pytest.mark.parametrize("gpu", ["optional", "required"])
def test_an_image_whose_references_use_cuda_is_offered_for_its_device_only(gpu: str) -> None:
    cpu, other = environment_record("r", "a", gpu=gpu), environment_record("r", "b", gpu=gpu, device="gpu")
    assert serving(cpu, other) == ["a"]
    assert serving(cpu, other, device="gpu") == ["b"]


def test_an_image_whose_references_use_no_cuda_serves_both_devices_its_own_before_the_other() -> None:
    cpu = environment_record("r", "a", gpu="none")
    gpu = environment_record("r", "b", gpu="none", device="gpu", kind="gpu", latest=True, created=2)
    assert serving(cpu, device="gpu") == ["a"]
    assert serving(cpu, gpu) == ["a", "b"]
    assert serving(cpu, gpu, device="gpu") == ["b", "a"]


@pytest.mark.parametrize("change", [{"checkout": False}, {"platform": "linux/arm64"}, {"platform": "linux/amd64"}])
def test_images_without_repositories_or_for_a_named_platform_are_never_offered(change: dict[str, Any]) -> None:
    assert serving(environment_record("r", **change, latest=True)) == []


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("assets", "device", "platform", "checkout", "expected"),
    [
        ("not_needed", "cpu", "", True, ""),
        ("none", "cpu", "", True, "no-assets"),
        ("stand_in", "cpu", "", True, "stand-in"),
        ("real", "gpu", "", True, "gpu-real"),
        ("stand_in", "gpu", "linux/arm64", True, "gpu-arm64-stand-in"),
        ("not_needed", "cpu", "linux/arm/v7", True, "arm-v7"),
        ("none", "cpu", "", False, "packages-only"),
    ],
)
def test_an_images_tag_says_what_it_is(
    assets: Assets, device: Device, platform: str, checkout: bool, expected: str
) -> None:
    assert image_kind(assets, device, platform, checkout=checkout) == expected
    digest = content_digest("x")
    name = image_name("ml-bench/r", digest, expected)
    assert name == f"ml-bench/r:{expected}{'-' if expected else ''}{digest[:12]}"


def test_digests_take_names_that_are_not_unicode_and_tell_parts_apart() -> None:
    assert content_digest("a\udcff") != content_digest("a")
    assert content_digest("a", "b") != content_digest("ab") != content_digest("a", ["b"])
    assert content_digest({"a": 1, "b": 2}) == content_digest({"b": 2, "a": 1})


# ---------------------------------------------------------------- bare ones


def test_a_bare_image_serves_who_asks_for_one_and_no_candidate() -> None:
    bare = environment_record("r", "b", kind="bare", checkout="bare", created=9, latest=True, gpu="required")
    full = environment_record("r", "a", created=1, latest=True)
    assert serving(bare, full) == ["a"]
    assert serving(bare) == []
    engine: Any = FakeEngine(bare, full)
    (found,) = serving_images(list_images(engine), "r", "r/1", bare=True, assets="real", device="gpu")
    assert found.bare and found.checkout and found.name == f"ml-bench/r:bare-{'b' * 12}"


def test_a_version_that_knows_nothing_of_bare_images_takes_none_for_candidates() -> None:
    # Earlier versions take images whose label says `yes` and no others.
    record = environment_record("r", "b", kind="bare", checkout="bare")
    assert record["Labels"][images.CHECKOUT] not in ("yes", "no")


def test_the_tag_of_a_bare_image_says_that_alone() -> None:
    assert image_kind("none", "gpu", bare=True) == "bare"
    assert image_kind("stand_in", "cpu", "linux/arm64", bare=True) == "arm64-bare"
