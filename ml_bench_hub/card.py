"""The README of the data set's page: `dataset_card.md` with what only a build knows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Any

from ml_bench_hub.folder import File
from ml_bench_hub.front_matter import split_front_matter, with_front_matter
from ml_bench_hub.tables import Table

DEFAULT_CONFIGURATION = "default"

PLACEHOLDER = "<namespace>"
"""What the card says in place of the namespace that it will be published in."""

# The Hub's categories: up to how many rows -> the word for it.
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))


def resource(name: str) -> str:
    """Return a text file of this package; `dataset_card.md` and `LICENSE` are those of the project's root."""
    return (resources.files("ml_bench_hub") / name).read_text(encoding="utf-8")


def for_namespace(text: str, namespace: str | None) -> str:
    """Return a text with the namespace in its places; without one they stay as they are."""
    return text.replace(PLACEHOLDER, namespace) if namespace else text


def readme(written: Sequence[tuple[Table, File]], namespace: str | None) -> str:
    """Return the README of a data set repository.

    Args:
        written: all tables that are in it, and their files.
        namespace: of the repository; None: not known yet.
    """
    metadata, body = split_front_matter(resource("dataset_card.md"), "dataset_card.md")
    by_configuration: dict[str, list[tuple[Table, File]]] = {}
    for table, file in written:
        by_configuration.setdefault(table.configuration, []).append((table, file))
    rows = [sum(table.rows.num_rows for table, _ in members) for members in by_configuration.values()]
    metadata["size_categories"] = [_size_category(max(rows))]
    metadata["configs"] = [_config(name, members) for name, members in by_configuration.items()]
    metadata["dataset_info"] = [_dataset_info(name, members) for name, members in by_configuration.items()]
    return with_front_matter(metadata, for_namespace(body, namespace))


def _size_category(rows: int) -> str:
    return next((word for limit, word in _SIZES if rows < limit), "n>1M")


def _config(name: str, members: Sequence[tuple[Table, File]]) -> dict[str, Any]:
    files = [{"split": table.split, "path": f"{name}/{table.split}-*"} for table, _ in members]
    default = {"default": True} if name == DEFAULT_CONFIGURATION else {}
    return {"config_name": name, "data_files": files, **default}


def _dataset_info(name: str, members: Sequence[tuple[Table, File]]) -> dict[str, Any]:
    contents = hashlib.sha256("".join(file.sha256 for _, file in members).encode()).hexdigest()
    return {
        "config_name": name,
        # `datasets` knows a local folder by what its README says, not by its files: without this line, other rows of
        # the same size would be taken for those that are in its cache.
        "description": f"SHA-256 of the files: {contents}",
        "features": [{"name": column, "dtype": kind} for column, kind in members[0][0].columns],
        "splits": [
            {"name": table.split, "num_bytes": table.rows.nbytes, "num_examples": table.rows.num_rows}
            for table, _ in members
        ],
        "download_size": sum(file.size for _, file in members),
        "dataset_size": sum(table.rows.nbytes for table, _ in members),
    }
