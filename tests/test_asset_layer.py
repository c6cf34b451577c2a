"""Which weights and data an image gets, and which of its tasks it then cannot serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ml_bench_metric.environments.asset_layer import AssetLayer, plan_assets
from ml_bench_metric.environments.build_log import BuildError
from ml_bench_metric.environments.images import AssetsWanted
from ml_bench_metric.environments.recipe import STAND_INS, Asset, Recipe
from tests.recipe_builders import RecipeFolder

BOTH: list[dict[str, object]] = [
    {"name": "weights", "url": "https://example.org/w", "to": "/opt/assets/w", "tasks": ["some/1", "some/2"]},
    {"name": "data", "url": "https://example.org/d", "to": "/opt/assets/d", "tasks": ["some/2", "some/3"]},
]


class FakeStore:
    """A store that has some assets, by name."""

    def __init__(self, **digests: str) -> None:
        self.digests = digests

    def sha256(self, asset: Asset) -> str | None:
        return self.digests.get(asset.name)

    def path(self, asset: Asset) -> Path | None:
        return Path(asset.name) if asset.name in self.digests else None


def plan(recipe: Recipe, wanted: AssetsWanted, **here: str) -> AssetLayer | None:
    store: Any = FakeStore(**here)
    return plan_assets(recipe, wanted, store)


@pytest.fixture
def recipe(recipe_folder: RecipeFolder) -> Recipe:
    recipe_folder.repository("some")
    return recipe_folder.recipe("r", {STAND_INS: "print('made')"}, assets=BOTH)


@pytest.mark.parametrize(
    ("wanted", "here", "kind"),
    [
        ("auto", {}, "stand_in"),
        ("auto", {"weights": "1"}, "stand_in"),
        ("auto", {"weights": "1", "data": "2"}, "real"),
        ("stand_in", {"weights": "1", "data": "2"}, "stand_in"),
        ("real", {"weights": "1", "data": "2"}, "real"),
        ("real", {"weights": "1"}, "real"),
    ],
)
def test_real_ones_are_taken_where_all_are_here_or_they_are_asked_for(
    recipe: Recipe, wanted: AssetsWanted, here: dict[str, str], kind: str
) -> None:
    found = plan(recipe, wanted, **here)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize("wanted", ["auto", "stand_in", "real", "none"])
def test_a_recipe_that_needs_none_gets_none_whatever_is_wanted(
    recipe_folder: RecipeFolder, wanted: AssetsWanted
) -> None:
    assert plan(recipe_folder.recipe("r"), wanted) is None


def test_none_are_given_where_none_are_wanted_or_to_be_had(recipe_folder: RecipeFolder, recipe: Recipe) -> None:
    assert plan(recipe, "none", weights="1", data="2") is None
    (recipe.folder / STAND_INS).unlink()
    assert plan(recipe, "auto", weights="1") is None


def test_tasks_whose_asset_is_not_here_are_told_and_not_served(recipe: Recipe) -> None:
    complete, partial = plan(recipe, "real", weights="1", data="2"), plan(recipe, "real", weights="1")
    assert complete is not None and partial is not None
    assert complete.lacking_tasks == ()
    assert partial.lacking_tasks == ("some/2", "some/3")


def test_stand_ins_serve_every_task(recipe: Recipe) -> None:
    found = plan(recipe, "stand_in")
    assert found is not None
    assert found.lacking_tasks == ()


def test_without_real_ones_it_is_said_which_are_missing_and_what_brings_them(recipe: Recipe) -> None:
    with pytest.raises(BuildError) as error:
        plan(recipe, "real")
    assert str(error.value) == ("r: real assets are not here: weights, data; `ml-bench assets fetch r` brings them")


def test_an_asset_that_all_tasks_need_cannot_be_left_out(recipe_folder: RecipeFolder) -> None:
    needed_by_all = {name: value for name, value in BOTH[0].items() if name != "tasks"}
    recipe = recipe_folder.recipe("r", assets=[needed_by_all, BOTH[1]])
    with pytest.raises(BuildError, match="real assets are not here: weights;"):
        plan(recipe, "real", data="2")
    assert plan(recipe, "real", weights="1") is not None


def test_stand_ins_that_nobody_wrote_are_told_with_the_way_out(recipe_folder: RecipeFolder) -> None:
    recipe = recipe_folder.recipe("r", assets=BOTH)
    with pytest.raises(BuildError, match="no stand-ins for its assets; build it with --assets real or none"):
        plan(recipe, "stand_in")


def test_real_ones_of_a_recipe_that_lists_none_are_not_said_to_be_had_by_fetching(recipe_folder: RecipeFolder) -> None:
    recipe = recipe_folder.recipe("r", {STAND_INS: "pass"})
    with pytest.raises(BuildError) as error:
        plan(recipe, "real")
    assert "lists no real assets" in str(error.value)
    assert "fetch" not in str(error.value)


def test_a_digest_changes_with_all_that_decides_on_the_layer(recipe_folder: RecipeFolder, recipe: Recipe) -> None:
    def digest(recipe: Recipe, **here: str) -> str:
        found = plan(recipe, "real" if here else "stand_in", **here)
        assert found is not None
        return found.digest

    def with_asset(**changes: object) -> Recipe:
        return recipe_folder.recipe("r", assets=[BOTH[0], {**BOTH[1], **changes}])

    here = {"weights": "1", "data": "2"}
    digests = [
        digest(recipe, **here),
        digest(recipe, weights="1", data="3"),
        digest(recipe, weights="1"),
        digest(recipe),
        digest(recipe_folder.recipe("r", {STAND_INS: "print('other')"}, assets=BOTH)),
        digest(with_asset(to="/opt/assets/elsewhere"), **here),
        digest(with_asset(unpack="zip"), **here),
        # Which tasks the image lacks stands in its labels.
        digest(with_asset(tasks=["some/3"]), weights="1"),
    ]
    assert len(set(digests)) == len(digests)
    assert digest(with_asset(licence="MIT", bytes=5), **here) == digests[0]
