"""The rows of every configuration, and their parquet files."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_bench_dataset import CONFIGURATIONS, Split, read_split
from ml_bench_hub.errors import HubError
from ml_bench_hub.folder import File, describe

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[str], None]
"""Receives one line for a person."""

ROW_GROUP_ROWS = 1000
"""Rows in a row group; without a page index the viewer reads whole ones."""

_WITHOUT_SOURCE = ("repositories", "sample")
_SAMPLE = ("default", "repositories", "sample")


@dataclass(frozen=True)
class Origin:
    """Where the rows of a build come from, pinned: all of its reads see the same rows."""

    source: str
    """As `ml_bench_dataset.read_split` takes it: a Hub id with its commit, a folder, or `sample`."""
    splits: dict[str, Split]
    """`L` and `A`, read and checked."""

    @property
    def public_name(self) -> str:
        """What can be told to everybody: the path of a local folder is nobody's business."""
        return "a local folder" if Path(self.source).is_absolute() else self.source

    @property
    def digests(self) -> dict[str, str]:
        """Split -> SHA-256 of its rows."""
        return {name: split.digest for name, split in self.splits.items()}


def open_origin(source: str | None, revision: str | None, progress: Progress) -> Origin:
    """Return where rows come from, having read both of the splits that every source must have.

    Args:
        source: `sample`, a folder or a Hub id, see `ml_bench_dataset.read_split`.
        revision: of the Hub repository.
        progress: receives what is not as published.

    Raises:
        HubError: the source is a single file, which can hold one split only.
        DataError: the source cannot be read, or its rows are faulty.
    """
    tasks = read_split(source, "L", revision=revision)
    if Path(tasks.origin).is_file():
        raise HubError(
            f"{tasks.origin} is one file, which holds one split; give the folder that has both: {tasks.split} and A"
        )
    origin = Origin(tasks.origin, {"L": tasks, "A": read_split(tasks.origin, "A")})
    for split in origin.splits.values():
        for warning in split.warnings:
            progress(f"warning: {warning}")
    return origin


@dataclass(frozen=True)
class Table:
    """The rows of one split of one configuration."""

    configuration: str
    split: str
    rows: pa.Table

    @property
    def path(self) -> str:
        """Where its file lies below the folder."""
        return f"{self.configuration}/{self.split}-00000-of-00001.parquet"

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Name and type of each column, as `datasets` names them."""
        return [(column.name, str(column.type)) for column in self.rows.schema]


def tables(origin: Origin, progress: Progress) -> Iterator[Table]:
    """Yield all splits that there are of all configurations, in their order.

    Raises:
        DataError: rows are faulty.
    """
    from ml_bench_dataset import MLBench  # this loads `datasets`

    configurations = tuple(CONFIGURATIONS)
    if origin.source == "sample":
        configurations = _SAMPLE
        left_out = ", ".join(name for name in CONFIGURATIONS if name not in _SAMPLE)
        progress(f"left out: {left_out}, whose splits the sample does not have")
    known = {warning for split in origin.splits.values() for warning in split.warnings}
    # A cache of its own: what the builder leaves in it is of no use to anybody.
    with tempfile.TemporaryDirectory(prefix="ml-bench-hub-") as cache, _warnings_to(progress, known):
        for configuration in configurations:
            source = None if configuration in _WITHOUT_SOURCE else origin.source
            builder: Any = MLBench(config_name=configuration, source=source, cache_dir=cache)
            for split, rows in builder.as_streaming_dataset().items():
                yield Table(configuration, split, _table(list(rows), builder.info.features))


@contextmanager
def _warnings_to(progress: Progress, known: set[str]) -> Iterator[None]:
    """Show what the data set's module warns of as progress, each warning once, and nowhere else."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (text := record.getMessage()) not in known:
                known.add(text)
                progress(f"warning: {text}")

    logger, handler = logging.getLogger("ml_bench_dataset"), Handler()
    logger.addHandler(handler)
    logger.propagate, before = False, logger.propagate
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(handler)


def _table(rows: list[dict[str, Any]], features: Any) -> pa.Table:
    import pyarrow as pa

    # The schema of `datasets` carries its own description of the columns in the file's metadata.
    return pa.Table.from_pylist(rows, schema=features.arrow_schema)


def write_table(table: Table, folder: Path) -> File:
    """Write a table's parquet file below a folder, and return what it is. Equal rows give equal bytes."""
    import pyarrow.parquet as pq

    path = folder / table.path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Page index: with it the viewer fetches the pages of some rows instead of whole row groups.
    pq.write_table(table.rows, path, row_group_size=ROW_GROUP_ROWS, write_page_index=True)
    return describe(path.read_bytes())
