"""Recipe: what a repository's image is made of. One folder per recipe, with its facts in `environment.yaml`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, StringConstraints, ValidationError, model_validator

import ml_bench_dataset
from ml_bench_metric.sandbox.execution import Record

FILE_NAME = "environment.yaml"

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Pin = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.+!_-]+$")
]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*$")]


class RecipeError(ValueError):
    """A recipe's files are wrong; the message names file and field."""


@dataclass(frozen=True)
class Checkout:
    """A repository at its commit, and where it lies in the image."""

    name: str
    url: str
    commit: str
    directory: str
    """Its folder below `/workspace`."""


class Recipe(Record):
    """One environment: what `environment.yaml` says, checked."""

    name: Name
    """Name of the recipe, and of its folder."""
    python: str = Field(pattern=r"^3\.\d+$")
    """Python of the base image, such as `3.11`."""
    apt: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+:-]*(=\S+)?$")], ...] = ()
    """Debian packages."""
    pip: tuple[Pin, ...] = ()
    """Requirements from the package index, each pinned: `name==version`."""
    pip_index: str | None = Field(default=None, pattern=r"^https?://")
    """A further package index, asked only where the host's own indexes do not have every requirement."""
    scripts: tuple[Name, ...] = ()
    """Python files of the folder that are run as root after the requirements are installed."""
    imports: tuple[Module, ...] = ()
    """Modules that must import in the finished image; the build fails otherwise."""
    environment: Mapping[Variable, str] = {}
    """Environment variables of every candidate."""
    repositories: tuple[Name, ...] = ()
    """Names of the benchmark's repositories that the image serves; the data set knows their URL, commit and folder."""
    package: Module | None = None
    """In place of `repositories`: a Python package whose `repositories()` names a folder of repositories."""
    notes: str = ""
    """For people: what differs from the repository's own wishes, and why."""

    folder: Path = Field(exclude=True)
    """Where the recipe was read from."""

    @model_validator(mode="after")
    def _one_source(self) -> Recipe:
        if bool(self.repositories) == (self.package is not None):
            raise ValueError("give either repositories or package")
        for name in self.repositories:
            if name not in _pinned():
                raise ValueError(
                    f"repositories: the data set has no commit of {name!r}; it has: {', '.join(_pinned())}"
                )
        return self

    @property
    def image(self) -> str:
        """Name of the recipe's images, without the tag. Docker allows lower case only."""
        return f"ml-bench/{self.name.lower()}"

    @property
    def directories(self) -> dict[str, str]:
        """Name of each repository that the image serves -> its folder below `/workspace`.

        Raises:
            RecipeError: the recipe's package cannot be used.
        """
        if self.package is None:
            return {checkout.name: checkout.directory for checkout in self.checkouts}
        return {folder.name: folder.name for folder in sorted(self.package_folder().iterdir()) if folder.is_dir()}

    @property
    def checkouts(self) -> tuple[Checkout, ...]:
        """The repositories that come from git."""
        return tuple(_pinned()[name] for name in self.repositories)

    def package_folder(self) -> Path:
        """Return the folder of repositories of the recipe's package.

        Raises:
            RecipeError: the package is not installed, or has no such folder.
        """
        try:
            folder = Path(importlib.import_module(self.package or "").repositories())
        except (ImportError, AttributeError) as error:
            raise RecipeError(f"{self.folder / FILE_NAME}: package: {self.package} cannot be used: {error}") from error
        if not folder.is_dir():
            raise RecipeError(f"{self.folder / FILE_NAME}: package: {self.package} names {folder}, which is no folder")
        return folder


def _pinned() -> dict[str, Checkout]:
    return {
        item.name: Checkout(item.name, item.url, item.commit, item.directory or item.name)
        for item in ml_bench_dataset.REPOSITORIES
        if item.url and item.commit
    }


def read_recipe(folder: Path) -> Recipe:
    """Return the recipe of a folder.

    Raises:
        RecipeError: `environment.yaml` or a script is missing or faulty; the message names file and field.
    """
    file = folder / FILE_NAME
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{file}: cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise RecipeError(f"{file}: must be a mapping of field names to values")
    if "folder" in content:
        raise RecipeError(f"{file}: folder: is no field of a recipe")
    try:
        recipe = Recipe.model_validate({**content, "folder": folder})
    except ValidationError as error:
        faults = (f"{_field(fault['loc'])}: {fault['msg']}" for fault in error.errors(include_url=False))
        raise RecipeError(f"{file}: " + "; ".join(faults)) from error
    if recipe.name != folder.name:
        raise RecipeError(f"{file}: name: is {recipe.name!r}, but the folder is {folder.name!r}")
    for script in recipe.scripts:
        if not (folder / script).is_file():
            raise RecipeError(f"{file}: scripts: there is no file {folder / script}")
    return recipe


def _field(location: tuple[int | str, ...]) -> str:
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join(map(str, location))) or "recipe"
