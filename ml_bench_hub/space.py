"""The metric's Space: the files of `ml_bench_metric` that are published, as a folder to push."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from ml_bench_hub.build import checked_namespace, write_texts
from ml_bench_hub.card import for_namespace
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import About, Manifest, read_manifest, writing
from ml_bench_hub.front_matter import split_front_matter
from ml_bench_metric.judge import harness_version

SPACE_NAME = "ml_bench"
"""Name of the Space, without its namespace. `evaluate.load` looks for a script of the same name in it."""

SPACE_FILES = ("README.md", "index.html", "ml_bench.py", "requirements.txt")
"""Files of `ml_bench_metric` that the Space has: card, page, the module for `evaluate`, and the package it needs."""

PAGE_FOLDER = "space"
"""Folder of `ml_bench_metric` that the Space has whole: what the page loads."""


def build_space(out: Path, namespace: str | None) -> Manifest:
    """Write the Space's files into a folder, and return its manifest.

    Args:
        out: new, empty, or written by this function and unchanged since.
        namespace: of the Space.

    Raises:
        HubError: `out` is something else, or a file of the Space is missing in the package.
    """
    about = About(
        kind="space",
        name=SPACE_NAME,
        namespace=checked_namespace(namespace),
        source="ml_bench_metric",
        digests={},
        harness=harness_version(),
    )
    with writing(out, about) as folder:
        package = resources.files("ml_bench_metric")
        try:
            texts = {name: (package / name).read_text(encoding="utf-8") for name in SPACE_FILES}
            for file in (package / PAGE_FOLDER).iterdir():
                texts[f"{PAGE_FOLDER}/{file.name}"] = file.read_text(encoding="utf-8")
        except OSError as error:
            raise HubError(f"the package ml_bench_metric lacks what its Space needs: {error}") from error
        write_texts(folder, {name: for_namespace(text, namespace) for name, text in texts.items()})
    return read_manifest(out)


def space_sdk(folder: Path) -> str:
    """Return the SDK that the README of a Space names.

    Raises:
        HubError: it names none.
    """
    metadata, _ = split_front_matter((folder / "README.md").read_text(encoding="utf-8"), "README.md of the Space")
    sdk = metadata.get("sdk")
    if not isinstance(sdk, str):
        raise HubError("README.md of the Space: its front matter has no `sdk`; a page without a server is `static`")
    return sdk
