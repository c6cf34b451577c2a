"""What the Hub's data set viewer, and `datasets` itself, need of a folder.

The viewer cannot be run here. The limits are those of its production settings, and the order of its steps is that of
its source (huggingface/dataset-viewer, August 2026): names of configurations and splits, then the parquet files as they
are, then the first rows of each split.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_bench_hub.configs import Configuration, read_configurations
from ml_bench_hub.errors import HubError, one_line
from ml_bench_hub.front_matter import split_front_matter
from ml_bench_hub.tables import Progress

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAX_SCAN_BYTES = 300_000_000
"""How much the viewer reads to show a page: a larger row group needs a page index."""
MAX_COLUMNS = 1000
MAX_COLUMN_NAME = 500
FIRST_ROWS = 100
MAX_FIRST_ROWS_BYTES = 200_000
"""How large the answer with the first rows may be; rows are left out of it down to `MIN_FIRST_ROWS`."""
MIN_FIRST_ROWS = 10
MIN_CELL_BYTES = 100
"""To how much a cell is cut if that is not enough."""
MAX_CELL_BYTES = 10_000_000
"""A larger cell makes each page that it is on slow or impossible to show. Our figure; the viewer has the scan limit."""


def read_readme(folder: Path) -> tuple[dict[str, Any], str]:
    """Return front matter and text of a folder's README.

    Raises:
        HubError: there is none, or its front matter is broken.
    """
    path = folder / "README.md"
    try:
        return split_front_matter(path.read_text(encoding="utf-8"), "README.md")
    except (OSError, UnicodeDecodeError) as error:
        raise HubError(f"README.md: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def check_viewer(folder: Path, note: Progress = lambda line: None) -> list[str]:
    """Return one line for each thing that keeps a data set's folder from being loaded or shown.

    Args:
        folder: a data set repository.
        note: receives what is worth knowing, but no problem.
    """
    try:
        metadata, _ = read_readme(folder)
    except HubError as error:
        return [str(error)]
    problems = [
        f"{script.name}: a script: load_dataset refuses a repository with a script of its own name"
        for script in sorted(folder.glob("*.py"))
    ]
    if metadata.get("viewer") is False:
        problems.append("README.md: `viewer: false` switches the viewer off")
    configurations = read_configurations(folder, metadata, problems)
    infos = _infos(metadata, configurations, problems)
    for configuration in configurations:
        for split, files in configuration.splits.items():
            problems += _check_split(folder, f"{configuration.name}/{split}", files, note)
        if configuration.name in infos:
            problems += _check_info(configuration, infos[configuration.name])
    # What cannot be read says nothing new when it is loaded.
    return problems or list(_check_loading(folder, configurations, note))


def _infos(
    metadata: Mapping[str, Any], configurations: tuple[Configuration, ...], problems: list[str]
) -> dict[str, Mapping[str, Any]]:
    """Return configuration -> its entry of `dataset_info`, which may be a single mapping."""
    entries = metadata.get("dataset_info", [])
    names = {configuration.name for configuration in configurations}
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else [entries]:
        name = entry.get("config_name", "default") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in names:
            problems.append(f"README.md: dataset_info: {name!r} is none of the configurations")
        elif name in found:
            problems.append(f"README.md: dataset_info: {name!r} is there twice")
        else:
            found[name] = entry
    return found


def _check_split(folder: Path, where: str, files: list[Path], note: Progress) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schemas: dict[Path, pa.Schema] = {}
    for path in files:
        name = path.relative_to(folder).as_posix()
        if path.suffix != ".parquet":
            yield f"{where}: {name} is no parquet file: the Hub would convert the whole instead of showing it as it is"
            continue
        try:
            file = pq.ParquetFile(path)
            with file:
                schemas[path] = file.schema_arrow.remove_metadata()
                yield from _check_file(name, file, note)
        except (pa.ArrowException, OSError) as error:
            yield f"{where}: {name} is not a readable parquet file: {one_line(error)}"
    first = next(iter(schemas), None)
    for path, schema in schemas.items():
        if first is not None and schema != schemas[first]:
            names = f"{path.relative_to(folder).as_posix()} and {first.relative_to(folder).as_posix()}"
            yield f"{where}: the columns of {names} differ: {_schema_difference(schema, schemas[first])}"


def _schema_difference(schema: Any, other: Any) -> str:
    mine, theirs = ([f"{column.name}: {column.type}" for column in one] for one in (schema, other))
    differing = [column for column in (*mine, *theirs) if column not in mine or column not in theirs]
    return ", ".join(differing[:4]) or "their order"


def _check_file(name: str, file: pq.ParquetFile, note: Progress) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    metadata = file.metadata
    if metadata.num_rows == 0:
        yield f"{name}: has no rows"
    if metadata.num_columns > MAX_COLUMNS:
        yield f"{name}: has {metadata.num_columns} columns; the viewer takes {MAX_COLUMNS}"
    for column in file.schema_arrow.names:
        if len(column) > MAX_COLUMN_NAME:
            yield f"{name}: the name of column {column[:40]}… has {len(column)} characters, more than {MAX_COLUMN_NAME}"
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        indexed = all(group.column(index).has_offset_index for index in range(group.num_columns))
        if not indexed and group.total_byte_size > MAX_SCAN_BYTES:
            size = f"{group.total_byte_size:,} bytes and no page index"
            yield f"{name}: row group {number} has {size}: the viewer reads {MAX_SCAN_BYTES:,} to show a row"
        elif not indexed:
            note(f"{name}: row group {number} has no page index: the viewer reads all of it to show a row")
    for batch in file.iter_batches():
        for column, values in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
                longest = pc.max(pc.binary_length(values)).as_py() or 0
                if longest > MAX_CELL_BYTES:
                    yield f"{name}: column {column} has a cell of {longest:,} bytes; pages with it cannot be shown"


def _check_info(configuration: Configuration, info: Mapping[str, Any]) -> Iterator[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    stated = {str(split.get("name")): split for split in _mappings(info.get("splits"))}
    where = f"README.md: dataset_info of {configuration.name}"
    for split in sorted(stated.keys() - configuration.splits.keys()):
        yield f"{where}: split {split!r} is none of the configuration"
    for split, files in configuration.splits.items():
        try:
            rows = sum(pq.read_metadata(path).num_rows for path in files)
            columns = [(column.name, str(column.type)) for column in pq.read_schema(files[0])] if files else []
        except (pa.ArrowException, OSError):
            continue  # the split's own check has said so
        if split not in stated:
            yield f"{where}: split {split!r} is missing"
        elif stated[split].get("num_examples") != rows:
            number = stated[split].get("num_examples")
            yield f"{where}: split {split!r} has {rows} rows, not {number}: load_dataset would refuse it"
        yield from _check_features(where, split, info.get("features"), columns)


def _check_features(where: str, split: str, features: Any, columns: list[tuple[str, str]]) -> Iterator[str]:
    told = [(one.get("name"), one.get("dtype")) for one in _mappings(features)]
    # The notations of nested types differ; loading compares those.
    if not told or not columns or not all(isinstance(kind, str) for _, kind in told):
        return
    if len(told) != len(columns):
        yield f"{where}: lists {len(told)} columns, split {split!r} has {len(columns)}"
    for stated, found in zip(told, columns, strict=False):
        if stated != found:
            yield f"{where}: {stated[0]} ({stated[1]}) is {found[0]} ({found[1]}) in split {split!r}"
            return


def _mappings(entries: Any) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _check_loading(folder: Path, configurations: tuple[Configuration, ...], note: Progress) -> Iterator[str]:
    """Load every split as a user does; only the rows that the viewer shows first are read."""
    from datasets import get_dataset_config_names, load_dataset

    try:
        names = get_dataset_config_names(str(folder))
    except Exception as error:  # Whatever `datasets` raises here, its users meet.
        yield f"load_dataset fails: {type(error).__name__}: {one_line(error)}"
        return
    if sorted(names) != sorted(configuration.name for configuration in configurations):
        yield f"load_dataset finds the configurations {', '.join(map(str, names))}, not those of README.md"
    for configuration in configurations:
        for split in configuration.splits:
            where = f"{configuration.name}/{split}"
            try:
                data = load_dataset(str(folder), configuration.name, split=split, streaming=True)
                rows = list(islice(data, FIRST_ROWS))
            except Exception as error:  # As above.
                yield f"{where}: load_dataset fails: {type(error).__name__}: {one_line(error)}"
                continue
            cells = [[len(json.dumps(value, default=str)) for value in row.values()] for row in rows[:MIN_FIRST_ROWS]]
            if sum(min(size, MIN_CELL_BYTES) for row in cells for size in row) > MAX_FIRST_ROWS_BYTES:
                yield f"{where}: the first rows exceed {MAX_FIRST_ROWS_BYTES:,} bytes even when every cell is cut"
            elif (size := sum(map(sum, cells))) > MAX_FIRST_ROWS_BYTES:
                note(f"{where}: the first {len(cells)} rows have {size:,} bytes; the viewer will show their cells cut")
