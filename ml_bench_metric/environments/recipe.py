"""Recipe: what a repository's image is made of. One folder per recipe, with its facts in `environment.yaml`.

What several recipes install stands in a package set, a folder of `packages/` with a `packages.yaml`, which they extend.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import Field, StringConstraints, ValidationError, field_validator, model_validator

import ml_bench_dataset
from ml_bench_metric.checks import Rule
from ml_bench_metric.environments.requirements import RequirementsError, check_lock
from ml_bench_metric.sandbox.execution import Assets, Record

FILE_NAME = "environment.yaml"
SET_FILE_NAME = "packages.yaml"
REQUIREMENTS = "requirements.txt"
GPU_REQUIREMENTS = "requirements.gpu.txt"
STAND_INS = "stand_ins.py"

Device = Literal["cpu", "gpu"]
"""What an image's packages are made for."""

Cause = Literal["reference", "gpu", "assets", "packages"]
"""Why a reference does not pass: it is wrong wherever it runs; it needs CUDA; it needs real weights or data, which
stand-ins do not replace; it needs a package or a version that cannot be had."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
TaskId = Annotated[str, StringConstraints(pattern=r"^\S+/\d+$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Module = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


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


class Asset(Record):
    """Weights or data that references need and that no package brings."""

    name: Name
    """Unique in its recipe."""
    url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """Where it is downloaded from; None where no program can, see `how`."""
    how: str = ""
    """What a person has to do where there is no `url`."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Of the download; None where nobody published it."""
    bytes: int | None = Field(default=None, gt=0)
    """Size of the download, to 10 %; None where it is not known."""
    to: str
    """Absolute path in the image: of the file, or of the folder where it is unpacked."""
    unpack: Literal["none", "zip", "tar", "gz"] = "none"
    tasks: tuple[TaskId, ...] = ()
    """The tasks that need it; empty: all of the recipe's."""
    licence: str = ""

    @model_validator(mode="after")
    def _can_be_had(self) -> Asset:
        if self.url is None and not self.how.strip():
            raise ValueError("give a url, or say in how what a person has to do")
        return self

    @field_validator("to")
    @classmethod
    def _is_absolute(cls, value: str) -> str:
        if not value.startswith("/") or posixpath.normpath(value) != value or value == "/":
            raise ValueError(f"{value!r} is no plain absolute path below /")
        return value


class KnownIssue(Record):
    """References that are known not to pass in the finished image, and why."""

    tasks: tuple[TaskId, ...] = Field(min_length=1)
    cause: Cause
    reason: Text
    rules: tuple[Rule, ...] = ()
    """The rules under which they do not pass; empty: all."""

    def applies(self, *, assets: Assets, device: Device) -> bool:
        """Return whether it is to be expected in an image with such assets, made for such a device."""
        if self.cause == "gpu":
            return device == "cpu"
        return self.cause != "assets" or assets != "real"


class Layer(Record):
    """Packages on top of a base or of another layer."""

    name: Name
    """Of the recipe or set, and of its folder."""
    python: str | None = Field(default=None, pattern=r"^3\.\d+$")
    """Python of the base image, such as `3.11`, for a layer that stands on one."""
    extends: Name | None = None
    """In place of `python`: the package set on which it stands."""
    apt: tuple[Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+:-]*(=\S+)?$")], ...] = ()
    """Debian packages."""
    pip_index: str | None = Field(default=None, pattern=r"^https?://")
    """A further package index, asked only where the host's own indexes do not have every requirement."""
    scripts: tuple[Name, ...] = ()
    """Python files of the folder that are run as root after the requirements are installed."""
    imports: tuple[Module, ...] = ()
    """Modules that must import in the finished image; the build fails otherwise."""
    notes: str = ""
    """For people: what differs from the repository's own wishes, and why."""

    folder: Path = Field(exclude=True)
    """Where it was read from."""

    @model_validator(mode="after")
    def _stands_on_one(self) -> Layer:
        if (self.python is None) == (self.extends is None):
            raise ValueError("give either python or extends")
        return self

    def requirements(self, device: Device) -> str:
        """Return its locked requirements, `""` if it has none: one `name==version --hash=…` per line."""
        file = self.folder / GPU_REQUIREMENTS
        if device == "cpu" or not file.is_file():
            file = self.folder / REQUIREMENTS
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    @property
    def has_packages(self) -> bool:
        """Whether it adds anything to what it stands on."""
        files = (self.folder / REQUIREMENTS, self.folder / GPU_REQUIREMENTS)
        return bool(self.apt or self.scripts) or any(file.is_file() for file in files)


class PackageSet(Layer):
    """Packages that several recipes share: what `packages.yaml` says, checked."""


class Recipe(Layer):
    """One environment: what `environment.yaml` says, checked."""

    environment: Mapping[Variable, str] = {}
    """Environment variables of every candidate."""
    repositories: tuple[Name, ...] = ()
    """Names of the benchmark's repositories that the image serves; the data set knows their URL, commit and folder."""
    package: Module | None = None
    """In place of `repositories`: a Python package whose `repositories()` names a folder of repositories."""
    tasks: tuple[TaskId, ...] = ()
    """The only tasks that it serves; empty: all those of its repositories that no other recipe names."""
    gpu: Literal["none", "optional", "required"] = "none"
    """Whether references use CUDA. `required`: none of them can do its work without."""
    assets: tuple[Asset, ...] = ()
    known_issues: tuple[KnownIssue, ...] = ()
    licences: str = ""
    """Of packages, weights and data, where they are worth knowing."""

    @model_validator(mode="after")
    def _is_whole(self) -> Recipe:
        if bool(self.repositories) == (self.package is not None):
            raise ValueError("give either repositories or package")
        for name in self.repositories:
            if name not in _pinned():
                raise ValueError(
                    f"repositories: the data set has no commit of {name!r}; it has: {', '.join(_pinned())}"
                )
        names = [asset.name for asset in self.assets]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"assets: there are two called {name!r}")
        return self

    @property
    def image(self) -> str:
        """Name of the recipe's images, without the tag. Docker allows lower case only."""
        return f"ml-bench/{self.name.lower()}"

    @property
    def stand_ins(self) -> str | None:
        """The program that makes stand-ins for the assets; None if the recipe has none."""
        file = self.folder / STAND_INS
        return file.read_text(encoding="utf-8") if file.is_file() else None

    @property
    def needs_assets(self) -> bool:
        """Whether anything that its tasks do needs weights or data."""
        return bool(self.assets) or self.stand_ins is not None

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


AnyLayer = TypeVar("AnyLayer", bound=Layer)


def read_recipe(folder: Path) -> Recipe:
    """Return the recipe of a folder.

    Raises:
        RecipeError: `environment.yaml` or a file that it needs is missing or faulty; the message names file and field.
    """
    return _read(folder / FILE_NAME, Recipe)


def read_package_set(folder: Path) -> PackageSet:
    """Return the package set of a folder.

    Raises:
        RecipeError: `packages.yaml` or a file that it needs is missing or faulty; the message names file and field.
    """
    return _read(folder / SET_FILE_NAME, PackageSet)


def _read(file: Path, kind: type[AnyLayer]) -> AnyLayer:
    folder = file.parent
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
        layer = kind.model_validate({**content, "folder": folder})
    except ValidationError as error:
        faults = (f"{_field(fault['loc'])}: {fault['msg']}" for fault in error.errors(include_url=False))
        raise RecipeError(f"{file}: " + "; ".join(faults)) from error
    if layer.name != folder.name:
        raise RecipeError(f"{file}: name: is {layer.name!r}, but the folder is {folder.name!r}")
    for script in layer.scripts:
        if not (folder / script).is_file():
            raise RecipeError(f"{file}: scripts: there is no file {folder / script}")
    for name in (REQUIREMENTS, GPU_REQUIREMENTS):
        if (folder / name).is_file():
            try:
                check_lock((folder / name).read_text(encoding="utf-8"))
            except (RequirementsError, UnicodeDecodeError) as error:
                raise RecipeError(f"{folder / name}: {error}") from error
    return layer


def _field(location: tuple[int | str, ...]) -> str:
    return re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", ".".join(map(str, location))) or "recipe"
