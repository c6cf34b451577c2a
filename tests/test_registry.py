"""Which recipe serves a repository or a task, and what packages it stands on."""

from __future__ import annotations

from pathlib import Path

import pytest

from ml_bench_metric.environments.recipe import FILE_NAME, RecipeError
from ml_bench_metric.environments.registry import EnvironmentUnknown, layers, package_sets, recipe_for, recipes, select
from tests.recipe_builders import RecipeFolder


def test_an_unknown_repository_names_the_known_ones_and_the_likely_one() -> None:
    with pytest.raises(EnvironmentUnknown) as error:
        recipe_for("external-attention-pytorh")
    assert "Did you mean External-Attention-pytorch?" in str(error.value)
    assert "tiny-gan" in str(error.value)


def test_selection_takes_recipes_and_repositories_each_once() -> None:
    assert [recipe.name for recipe in select(["tiny-gan", "sample", "tiny-text"])] == ["sample"]
    assert select([]) == recipes()
    with pytest.raises(EnvironmentUnknown):
        select(["sample", "nothing"])


@pytest.mark.parametrize("name", ["base", "Packages"])
def test_a_recipe_cannot_take_the_name_of_a_layer(recipe_folder: RecipeFolder, name: str) -> None:
    recipe_folder.recipe(name)
    with pytest.raises(RecipeError, match="reserved"):
        recipes.__wrapped__(recipe_folder.root)


def test_recipes_that_differ_in_case_only_are_refused_because_their_images_would_be_one(
    recipe_folder: RecipeFolder,
) -> None:
    for name in ("one", "ONE"):
        recipe_folder.recipe(name)
    with pytest.raises(RecipeError, match="case only"):
        recipes.__wrapped__(recipe_folder.root)


# ---------------------------------------------------------------- package sets


def test_a_recipe_stands_on_the_sets_that_it_extends_the_lowest_first(recipe_folder: RecipeFolder) -> None:
    recipe_folder.package_set("low")
    recipe_folder.package_set("middle", extends="low")
    recipe = recipe_folder.recipe("r", extends="middle")
    assert [layer.name for layer in layers(recipe)] == ["low", "middle", "r"]
    assert [layer.python for layer in layers(recipe)] == ["3.11", None, None]
    # A recipe may have the name of a set, and stand on it.
    assert [layer.name for layer in layers(recipe_folder.recipe("middle", extends="middle"))] == [
        *("low", "middle"),
        "middle",
    ]


def test_a_set_that_does_not_exist_is_named_with_the_file_that_asks_for_it_and_those_that_do(
    recipe_folder: RecipeFolder,
) -> None:
    recipe_folder.package_set("low", extends="nothing")
    recipe = recipe_folder.recipe("r", extends="low")
    with pytest.raises(RecipeError) as error:
        layers(recipe)
    file = recipe_folder.root / "packages" / "low" / "packages.yaml"
    assert str(error.value) == f"{file}: extends: there is no package set 'nothing'; there are: low"
    with pytest.raises(RecipeError, match=r"r/environment\.yaml: extends: there is no package set 'other'"):
        layers(recipe_folder.recipe("r", extends="other"))


@pytest.mark.parametrize("chain", [("a",), ("a", "b"), ("a", "b", "c")])
def test_sets_that_extend_each_other_are_an_error_and_not_a_hang(
    recipe_folder: RecipeFolder, chain: tuple[str, ...]
) -> None:
    for name, below in zip(chain, (*chain[1:], chain[0]), strict=True):
        recipe_folder.package_set(name, extends=below)
    with pytest.raises(RecipeError, match=r"packages\.yaml: extends: 'a' extends itself in the end"):
        layers(recipe_folder.recipe("r", extends="a"))


def test_a_faulty_set_is_told_though_nothing_extends_it(recipe_folder: RecipeFolder) -> None:
    recipe_folder.package_set("fine")
    folder = recipe_folder.root / "packages" / "faulty"
    folder.mkdir()
    (folder / "packages.yaml").write_text("name: faulty")
    with pytest.raises(RecipeError, match=r"faulty/packages\.yaml: recipe: .*give either python or extends"):
        package_sets.__wrapped__(recipe_folder.root)


# ---------------------------------------------------------------- several recipes for one repository


@pytest.fixture
def divided(recipe_folder: RecipeFolder) -> RecipeFolder:
    """A repository with a recipe for two of its tasks, in alphabetical order before the one for all others."""
    recipe_folder.repository("some-repo")
    recipe_folder.recipe("some-part", tasks=["some-repo/1", "some-repo/12"])
    recipe_folder.recipe("some-whole")
    return recipe_folder


@pytest.mark.parametrize(
    ("task_id", "recipe"),
    [("some-repo/1", "some-part"), ("some-repo/12", "some-part"), ("some-repo/2", "some-whole"), (None, "some-whole")],
)
def test_a_recipe_for_some_tasks_serves_these_and_no_others(
    divided: RecipeFolder, task_id: str | None, recipe: str
) -> None:
    assert recipe_for("some-repo", task_id).name == recipe


def test_the_name_of_a_repository_selects_all_its_recipes_and_that_of_a_recipe_itself(divided: RecipeFolder) -> None:
    assert [recipe.name for recipe in select(["some-repo"])] == ["some-part", "some-whole"]
    assert [recipe.name for recipe in select(["some-part"])] == ["some-part"]
    # A recipe that has the name of a repository, as most have, does not hide the others.
    divided.repository("some-whole")
    assert [recipe.name for recipe in select(["some-whole"])] == ["some-part", "some-whole"]


def test_a_task_that_no_recipe_names_is_told_as_that(recipe_folder: RecipeFolder) -> None:
    recipe_folder.repository("some-repo")
    recipe_folder.recipe("some-part", tasks=["some-repo/1"])
    with pytest.raises(EnvironmentUnknown) as error:
        recipe_for("some-repo", "some-repo/2")
    assert "some-repo/2" in str(error.value)
    assert "Did you mean" not in str(error.value)


def test_two_recipes_for_the_same_repository_or_task_are_refused(tmp_path: Path) -> None:
    def write(name: str, more: str = "") -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / FILE_NAME).write_text(f'name: {name}\npython: "3.11"\nrepositories: [dgl]\n{more}')

    write("one")
    write("two", "tasks: [dgl/1]")
    assert len(recipes.__wrapped__(tmp_path)) == 2
    write("three", "tasks: [dgl/2, dgl/1]")
    with pytest.raises(RecipeError, match=r"two/environment\.yaml: dgl/1 is served by 'three' already"):
        recipes.__wrapped__(tmp_path)
    (tmp_path / "three" / FILE_NAME).unlink()
    write("four")
    with pytest.raises(RecipeError, match="dgl is served by 'four' already"):
        recipes.__wrapped__(tmp_path)
