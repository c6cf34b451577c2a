"""The recipes that come with the package, and which of them serves a repository."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ml_bench_metric.environments.recipe import FILE_NAME, Recipe, RecipeError, read_recipe

RESERVED = ("base", "packages")
"""Names of images that belong to no recipe."""


class EnvironmentUnknown(LookupError):  # noqa: N818 - it names the situation, and callers know it by this name
    """No recipe serves the repository. The message says what to do."""


@cache
def recipes(root: Path = Path(__file__).parent) -> tuple[Recipe, ...]:
    """Return all recipes, ordered by name.

    Args:
        root: the folder that has one folder per recipe.

    Raises:
        RecipeError: a recipe is faulty, or two cannot be told apart; the message names file and field.
    """
    found = tuple(read_recipe(file.parent) for file in sorted(root.glob(f"*/{FILE_NAME}")))
    images: dict[str, Recipe] = {}
    for recipe in found:
        if recipe.name.lower() in RESERVED:
            raise RecipeError(f"{recipe.folder / FILE_NAME}: name: {recipe.name!r} is reserved")
        if recipe.image in images:
            other = images[recipe.image].name
            raise RecipeError(f"{recipe.folder / FILE_NAME}: name: differs from {other!r} in case only")
        images[recipe.image] = recipe
    return found


def recipe_for(repository: str) -> Recipe:
    """Return the recipe whose image serves a repository, given by its name in the data set.

    Raises:
        EnvironmentUnknown: there is none; the message says what to do.
        RecipeError: a recipe is faulty.
    """
    for recipe in recipes():
        if repository in recipe.directories:
            return recipe
    raise EnvironmentUnknown(_unknown(repository, [name for recipe in recipes() for name in recipe.directories]))


def select(names: Iterable[str]) -> tuple[Recipe, ...]:
    """Return the recipes of some repositories or of that name, each once; of everything if no name is given.

    Raises:
        EnvironmentUnknown: a name is neither a recipe's nor that of a repository which one serves.
        RecipeError: a recipe is faulty.
    """
    by_name = {recipe.name: recipe for recipe in recipes()}
    chosen = [by_name.get(name) or recipe_for(name) for name in names] or list(recipes())
    return tuple({recipe.name: recipe for recipe in chosen}.values())


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [other.lower() for other in known], n=1, cutoff=0.6)
    meant = [f" Did you mean {other}?" for other in known if other.lower() in close]
    return (
        f"no environment for repository {name!r}.{''.join(meant)} There are environments for: "
        f"{', '.join(known) or 'nothing'}. To add one, make a folder with an {FILE_NAME} in {Path(__file__).parent}"
    )
