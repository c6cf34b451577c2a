"""Recipes, package sets, repositories and the engine's records, as the tests of environments need them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ml_bench_metric.environments import images
from ml_bench_metric.environments.recipe import (
    FILE_NAME,
    REQUIREMENTS,
    SET_FILE_NAME,
    PackageSet,
    Recipe,
    read_package_set,
    read_recipe,
)

PACKAGE = "some_repositories"
"""The package whose repositories the recipes of the tests serve, where they name no others."""

HASH = "--hash=sha256:" + "a" * 64


class RecipeFolder:
    """A folder with recipes and package sets, and the one of a package's repositories."""

    def __init__(self, root: Path) -> None:
        self.root = root / "environments"
        self.repositories = root / "repositories"
        for folder in (self.root, self.repositories):
            folder.mkdir()

    def repository(self, name: str, text: str = "print('first')\n") -> Path:
        """Make a repository of the package, and return its only file."""
        file = self.repositories / name / "run.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return file

    def recipe(self, name: str, files: dict[str, str] | None = None, **facts: object) -> Recipe:
        """Write a recipe, and return it; see `write`."""
        return read_recipe(self.write(self.root / name, FILE_NAME, files, facts))

    def package_set(self, name: str, files: dict[str, str] | None = None, **facts: object) -> PackageSet:
        """Write a package set, and return it; see `write`."""
        return read_package_set(self.write(self.root / "packages" / name, SET_FILE_NAME, files, facts))

    def write(self, folder: Path, file_name: str, files: dict[str, str] | None, facts: dict[str, object]) -> Path:
        """Write what a layer consists of, and return its folder.

        What its fields may say is `name`, `python` and `package`, if the test does not.
        """
        said: dict[str, object] = {"name": folder.name}
        if "extends" not in facts:
            said["python"] = "3.11"
        if file_name == FILE_NAME and "repositories" not in facts:
            said["package"] = PACKAGE
        texts = {file_name: json.dumps({**said, **facts}), **(files or {})}
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder


def lock(*pins: str) -> dict[str, str]:
    """Return the file of locked requirements."""
    return {REQUIREMENTS: "".join(f"{pin} {HASH}\n" for pin in pins)}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return what it prints."""
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def take_away(mirror: Path, *names: str) -> None:
    """Remove objects from a git repository, by name: `HEAD:run.sh` for the contents of a file."""
    for name in names:
        content = git(mirror, "rev-parse", name)
        ((mirror / ".git" if (mirror / ".git").exists() else mirror) / "objects" / content[:2] / content[2:]).unlink()


def environment_record(
    recipe: str,
    digit: str = "a",
    *,
    kind: str = "",
    created: int = 1,
    latest: bool = False,
    repositories: str = "",
    tasks: str = "",
    assets: str = "not_needed",
    device: str = "cpu",
    gpu: str = "optional",
    lacking: str = "",
    platform: str = "",
    checkout: bool | str = True,
    missing: int = 0,
) -> dict[str, Any]:
    """Return what the engine says of an environment's image. A hex digit stands for its digests."""
    digest = digit * 64
    name = images.image_name(f"ml-bench/{recipe}", digest, kind)
    return {
        "Id": "sha256:" + digest,
        "RepoTags": [name[:-12] + images.LATEST, name] if latest else [name],
        "Labels": {
            images.LAYER: "environment",
            images.RECIPE: digest,
            images.RECIPE_NAME: recipe,
            images.REPOSITORIES: repositories or recipe,
            images.TASKS: tasks,
            images.ASSETS: assets,
            images.DEVICE: device,
            images.GPU: gpu,
            images.LACKING: lacking,
            images.PLATFORM: platform,
            images.CHECKOUT: checkout if isinstance(checkout, str) else "yes" if checkout else "no",
            images.MISSING: str(missing),
        },
        "Created": created,
        "Size": 1,
    }


class FakeEngine:
    """Answers with given records of images, and refuses every pull."""

    def __init__(self, *records: dict[str, Any], refusal: str = "no such host") -> None:
        self.api = SimpleNamespace(images=lambda filters: list(records), pull=self.pull, timeout=60)
        self.refusal = refusal

    def pull(self, *_: object, **__: object) -> Iterator[dict[str, str]]:
        yield {"error": self.refusal}
