"""What tells one image from another: a change gives its layer and all above it another name, and nothing else does."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from ml_bench_metric.environments import layers as module
from ml_bench_metric.environments import registry
from ml_bench_metric.environments.asset_layer import AssetLayer
from ml_bench_metric.environments.base import Base
from ml_bench_metric.environments.checkout import Source
from ml_bench_metric.environments.layers import Plan, stack
from ml_bench_metric.environments.recipe import GPU_REQUIREMENTS, REQUIREMENTS, STAND_INS, Checkout, Recipe
from tests.recipe_builders import HASH, RecipeFolder, lock

BASE = Base("sha256:" + "0" * 64, "bootstrap bookworm", "", "ml-bench/base:000000000000")
NOBODY: Any = None
"""Names are found without an engine."""


def planned(recipe: Recipe, **changes: Any) -> Plan:
    plan = Plan(
        recipe=recipe,
        packages=tuple(layer for layer in registry.layers(recipe) if layer.has_packages),
        sources=(),
        assets=None,
        device="cpu",
        platform="",
        checkout=True,
    )
    return dataclasses.replace(plan, **changes)


def names(plan: Plan, base: Base = BASE) -> list[str]:
    return [layer.name for layer in stack(NOBODY, plan, base)]


class Three:
    """A recipe on a set on a set, which a test may change; its image has four layers."""

    def __init__(self, folder: RecipeFolder) -> None:
        self.folder = folder
        self.facts: dict[str, dict[str, object]] = {"low": {"scripts": ["s.py"]}, "high": {"extends": "low"}}
        self.files = {"low": {**lock("numpy==1.26.4"), "s.py": "print('script')"}, "high": lock("timm==0.6.13")}
        self.recipe: dict[str, object] = {"extends": "high", "apt": ["procps"], "imports": ["numpy"]}
        self.repository = folder.repository("one")

    def names(self, **changes: Any) -> list[str]:
        for name, facts in self.facts.items():
            self.folder.package_set(name, self.files[name], **facts)
        return names(planned(self.folder.recipe("r", None, **self.recipe), **changes))


@pytest.fixture
def three(recipe_folder: RecipeFolder) -> Three:
    return Three(recipe_folder)


def test_layers_are_named_after_their_sets_and_the_image_after_the_recipe(three: Three) -> None:
    assert [name.rstrip("0123456789abcdef") for name in three.names()] == [
        *("ml-bench/packages:low-", "ml-bench/packages:high-", "ml-bench/packages:r-"),
        "ml-bench/r:",
    ]


def first_changed(before: list[str], after: list[str]) -> int:
    """Return the index of the lowest layer that changed; all above it must have changed too."""
    changed = [old != new for old, new in zip(before, after, strict=True)]
    assert changed == sorted(changed)
    return changed.index(True) if True in changed else len(changed)


def change_lowest_pin(three: Three) -> None:
    three.files["low"][REQUIREMENTS] = lock("numpy==1.26.3")[REQUIREMENTS]


def change_hash(three: Three) -> None:
    three.files["low"][REQUIREMENTS] = three.files["low"][REQUIREMENTS].replace("a" * 64, "b" * 64)


def change_script(three: Three) -> None:
    three.files["low"]["s.py"] = "print('another')"


def leave_out_script(three: Three) -> None:
    three.facts["low"]["scripts"] = []


def change_index(three: Three) -> None:
    three.facts["low"]["pip_index"] = "https://example.org/simple"


def change_higher_pin(three: Three) -> None:
    three.files["high"] = lock("timm==0.9.12")


def add_debian_package(three: Three) -> None:
    three.facts["high"]["apt"] = ["libgl1"]


def change_recipes_debian_packages(three: Three) -> None:
    three.recipe["apt"] = ["procps", "git"]


def change_imports(three: Three) -> None:
    three.recipe["imports"] = ["timm"]


def change_imports_of_a_set(three: Three) -> None:
    three.facts["low"]["imports"] = ["os"]


def change_variables(three: Three) -> None:
    three.recipe["environment"] = {"A": "b"}


def change_tasks(three: Three) -> None:
    three.recipe["tasks"] = ["one/1"]


def change_need_of_a_gpu(three: Three) -> None:
    three.recipe["gpu"] = "required"


def change_file(three: Three) -> None:
    three.repository.write_text("print(2)\n")


def add_file(three: Three) -> None:
    (three.repository.parent / "b.py").touch()


def add_repository(three: Three) -> None:
    three.folder.repository("two")


def make_executable(three: Three) -> None:
    three.repository.chmod(0o755)


@pytest.mark.parametrize(
    ("change", "lowest"),
    [
        *((change_lowest_pin, 0), (change_hash, 0), (change_script, 0), (leave_out_script, 0), (change_index, 0)),
        *((change_higher_pin, 1), (add_debian_package, 1), (change_recipes_debian_packages, 2)),
        *((change_imports, 3), (change_imports_of_a_set, 3), (change_variables, 3), (change_tasks, 3)),
        (change_need_of_a_gpu, 3),
        *((change_file, 3), (add_file, 3), (add_repository, 3), (make_executable, 3)),
    ],
)
def test_a_change_makes_its_own_layer_and_those_above_again(
    three: Three, change: Callable[[Three], None], lowest: int
) -> None:
    before = three.names()
    change(three)
    assert first_changed(before, three.names()) == lowest


def reword_lock(three: Three) -> None:
    pin = three.files["low"][REQUIREMENTS]
    three.files["low"][REQUIREMENTS] = "# why\n\n" + pin.replace(" --hash", " \\\n    --hash") + "    # via nothing\n"


def change_notes(three: Three) -> None:
    three.facts["low"]["notes"] = three.recipe["notes"] = three.recipe["licences"] = "more"


def add_known_issue(three: Three) -> None:
    three.recipe["known_issues"] = [{"tasks": ["one/1"], "cause": "reference", "reason": "x"}]


def add_locked_input(three: Three) -> None:
    three.files["high"]["requirements.in"] = "timm"


def add_requirements_for_gpus(three: Three) -> None:
    three.files["low"][GPU_REQUIREMENTS] = f"numpy==1.0 {HASH}\n"


def run_program(three: Three) -> None:
    cache = three.repository.parent / "__pycache__"
    cache.mkdir()
    (cache / "run.pyc").write_bytes(b"x")
    os.utime(three.repository, (1, 1))


@pytest.mark.parametrize(
    "change", [reword_lock, change_notes, add_known_issue, add_locked_input, add_requirements_for_gpus, run_program]
)
def test_what_does_not_go_into_an_image_does_not_change_its_name(three: Three, change: Callable[[Three], None]) -> None:
    before = three.names()
    change(three)
    assert three.names() == before


def test_another_base_makes_everything_again(three: Three) -> None:
    before = three.names()
    after = names(planned(registry.recipe_for("one")), dataclasses.replace(BASE, digest="sha256:" + "1" * 64))
    assert first_changed(before, after) == 0


def test_recipes_with_the_same_packages_share_their_layers(three: Three) -> None:
    first = three.names()
    other = names(planned(three.folder.recipe("other", extends="high")))
    assert other[:-1] == first[:2]
    assert other[-1].startswith("ml-bench/other:")


def test_a_layer_that_adds_nothing_is_none(three: Three) -> None:
    three.folder.package_set("empty", extends="high", imports=["numpy"])
    plan = planned(three.folder.recipe("r", extends="empty")) if three.names() else None
    assert plan is not None
    assert [layer.name for layer in plan.packages] == ["low", "high"]


def test_images_for_a_gpu_take_its_requirements_and_say_so(three: Three) -> None:
    add_requirements_for_gpus(three)
    cpu, gpu = three.names(), three.names(device="gpu")
    assert first_changed(cpu, gpu) == 0
    assert gpu[-1].startswith("ml-bench/r:gpu-")


def test_images_of_one_recipe_for_both_devices_are_two_even_with_the_same_packages(three: Three) -> None:
    cpu, gpu = three.names(), three.names(device="gpu")
    assert first_changed(cpu, gpu) == len(cpu) - 1


# ---------------------------------------------------------------- repositories from git


CHECKOUT = Checkout("dgl", "https://example.org/dgl", "1" * 40, "dgl")


@pytest.fixture
def from_git(recipe_folder: RecipeFolder) -> Recipe:
    return recipe_folder.recipe("r", repositories=["dgl"])


def test_an_incomplete_checkout_is_another_image_and_its_label_counts_what_is_missing(from_git: Recipe) -> None:
    plans = [planned(from_git, sources=(Source(CHECKOUT, None, missing),)) for missing in ((), ("a",), ("a", "b"))]
    assert [plan.missing_files for plan in plans] == [0, 1, 2]
    assert len({names(plan)[-1] for plan in plans}) == 3


def test_it_does_not_matter_where_a_commits_files_come_from(from_git: Recipe, tmp_path: Path) -> None:
    plans = [planned(from_git, sources=(Source(CHECKOUT, mirror, ()),)) for mirror in (None, tmp_path)]
    assert names(plans[0]) == names(plans[1])
    other = dataclasses.replace(CHECKOUT, commit="2" * 40)
    assert names(planned(from_git, sources=(Source(other, None, ()),))) != names(plans[0])


def test_an_image_without_repositories_says_so_in_its_name(from_git: Recipe) -> None:
    whole = names(planned(from_git, sources=(Source(CHECKOUT, None, ()),)))
    bare = names(planned(from_git, checkout=False))
    assert bare[-1].startswith("ml-bench/r:packages-only-")
    assert bare[-1][-12:] != whole[-1][-12:]


# ---------------------------------------------------------------- assets


def test_the_kind_of_assets_is_in_the_name_and_the_plan(recipe_folder: RecipeFolder) -> None:
    recipe_folder.repository("one")
    without = planned(recipe_folder.recipe("r"))
    assert without.kind_of_assets == "not_needed"
    recipe = recipe_folder.recipe("r", {STAND_INS: "pass"})
    none = planned(recipe)
    assert none.kind_of_assets == "none"
    assert names(none)[-1].startswith("ml-bench/r:no-assets-")
    assert names(none)[-1][-12:] == names(without)[-1][-12:]
    for kind, said in (("stand_in", "stand-in"), ("real", "real")):
        layer = AssetLayer(cast(Any, kind), "1" * 64, (), lambda builder, log: None)
        plan = planned(recipe, assets=layer)
        assert plan.kind_of_assets == kind
        assert names(plan)[:-1] == names(none), "the layer below is that of the image without assets"
        assert names(plan)[-1].startswith(f"ml-bench/r:{said}-")
        assert names(dataclasses.replace(plan, assets=dataclasses.replace(layer, digest="2" * 64))) != names(plan)


def test_a_long_lock_is_handed_over_in_parts_that_linux_takes(recipe_folder: RecipeFolder) -> None:
    given: dict[str, str] = {}

    class Recorder:
        def run(self, step: str, script: str, *, variables: dict[str, str], **_: object) -> None:
            given.update(variables, step=step, script=script)

    layer = recipe_folder.package_set("s", lock(*(f"package-{number}==1.0" for number in range(3000))))
    module._install(layer, layer.requirements("cpu"), cast(Any, Recorder()), cast(Any, None))
    assert given.pop("step") == "pip install 3000 requirements of s"
    script = given.pop("script")
    assert "--require-hashes" in script and "--no-deps" in script
    assert max(len(part) for part in given.values()) < 131_000
    assert "".join(given.values()) == layer.requirements("cpu")
    assert [name for name in given if f'"${name}"' not in script] == []


def test_a_bare_image_is_one_layer_on_its_base_that_packages_do_not_change(recipe_folder: RecipeFolder) -> None:
    three = Three(recipe_folder)
    bare = three.names(packages=(), bare=True)
    assert len(bare) == 1 and bare[0].startswith("ml-bench/r:bare-")
    three.files["high"] = lock("timm==0.6.14")
    three.recipe["imports"] = ["numpy", "timm"]
    assert three.names(packages=(), bare=True) == bare
    recipe_folder.repository("one", "print(2)\n")
    assert three.names(packages=(), bare=True) != bare


def test_the_plan_of_a_bare_image_has_neither_packages_nor_assets(recipe_folder: RecipeFolder) -> None:
    three = Three(recipe_folder)
    three.names()
    recipe = recipe_folder.recipe("r", None, **three.recipe)
    plan = module.plan_image(
        recipe, repositories=None, assets="auto", device="gpu", platform="", checkout=True, bare=True
    )
    assert (plan.packages, plan.assets, plan.device, plan.kind_of_assets) == ((), None, "cpu", "not_needed")
