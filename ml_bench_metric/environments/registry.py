"""The recipes that come with the package, and which of them serves a repository."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ml_bench_metric.environments.recipe import (
    FILE_NAME,
    SET_FILE_NAME,
    Layer,
    PackageSet,
    Recipe,
    RecipeError,
    read_package_set,
    read_recipe,
)

_ROOT = Path(__file__).parent
_SETS = "packages"
_TO_ADD = f"To add one, make a folder with an {FILE_NAME} in {_ROOT}"

RESERVED = ("base", "packages")
"""Names of images that belong to no recipe."""


class EnvironmentUnknown(LookupError):  # noqa: N818 - it names the situation, and callers know it by this name
    """No recipe serves the repository. The message says what to do."""


@cache
def recipes(root: Path = _ROOT) -> tuple[Recipe, ...]:
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
    _require_one_for_each(found)
    return found


def _require_one_for_each(found: Iterable[Recipe]) -> None:
    """Look whether it is clear which recipe serves a repository, or a task that recipes name.

    Raises:
        RecipeError: two recipes serve the same.
    """
    serving: dict[str, str] = {}
    for recipe in found:
        for name in recipe.tasks or recipe.repositories:
            if name in serving:
                raise RecipeError(f"{recipe.folder / FILE_NAME}: {name} is served by {serving[name]!r} already")
            serving[name] = recipe.name


@cache
def package_sets(root: Path = _ROOT) -> dict[str, PackageSet]:
    """Return name -> package set.

    Args:
        root: the folder that has the folder `packages`.

    Raises:
        RecipeError: a set is faulty; the message names file and field.
    """
    found = (read_package_set(file.parent) for file in sorted(root.glob(f"{_SETS}/*/{SET_FILE_NAME}")))
    return {item.name: item for item in found}


def layers(layer: Layer) -> tuple[Layer, ...]:
    """Return what a recipe or package set is made of: the set on the base first, itself last.

    Raises:
        RecipeError: it, or what it extends, extends a set that does not exist, or itself.
    """
    sets = package_sets()
    chain = [layer]
    while chain[0].extends is not None:
        name = chain[0].extends
        file = chain[0].folder / (FILE_NAME if isinstance(chain[0], Recipe) else SET_FILE_NAME)
        if name not in sets:
            raise RecipeError(f"{file}: extends: there is no package set {name!r}; there are: {', '.join(sets)}")
        if sets[name] in chain:
            raise RecipeError(f"{file}: extends: {name!r} extends itself in the end")
        chain.insert(0, sets[name])
    return tuple(chain)


def recipe_for(repository: str, task_id: str | None = None) -> Recipe:
    """Return the recipe whose image serves a repository, given by its name in the data set, or a task of it.

    Raises:
        EnvironmentUnknown: there is none; the message says what to do.
        RecipeError: a recipe is faulty.
    """
    serving = [recipe for recipe in recipes() if repository in recipe.directories]
    for recipe in serving:
        if task_id in recipe.tasks:
            return recipe
    for recipe in serving:
        if not recipe.tasks:
            return recipe
    if serving:
        partial = ", ".join(recipe.name for recipe in serving)
        raise EnvironmentUnknown(
            f"no environment for {task_id or f'all tasks of {repository}'}: {partial} is for other tasks. {_TO_ADD}"
        )
    raise EnvironmentUnknown(
        _unknown(repository, list(dict.fromkeys(name for recipe in recipes() for name in recipe.directories)))
    )


def select(names: Iterable[str]) -> tuple[Recipe, ...]:
    """Return the recipes of some repositories or of that name, each once; of everything if no name is given.

    The name of a repository means all recipes that serve tasks of it.

    Raises:
        EnvironmentUnknown: a name is neither a recipe's nor that of a repository which one serves.
        RecipeError: a recipe is faulty.
    """
    by_name = {recipe.name: recipe for recipe in recipes()}
    chosen = [recipe for name in names for recipe in _called(name, by_name)] or list(recipes())
    return tuple({recipe.name: recipe for recipe in chosen}.values())


def _called(name: str, by_name: dict[str, Recipe]) -> list[Recipe]:
    serving = [recipe for recipe in by_name.values() if name in recipe.directories]
    if name in by_name and by_name[name] not in serving:
        return [by_name[name]]
    return serving or [recipe_for(name)]


def _unknown(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name.lower(), [other.lower() for other in known], n=1, cutoff=0.6)
    meant = [f" Did you mean {other}?" for other in known if other.lower() in close]
    return (
        f"no environment for repository {name!r}.{''.join(meant)} There are environments for: "
        f"{', '.join(known) or 'nothing'}. {_TO_ADD}"
    )
