"""The Croissant description of a data set's folder, made as the Hub makes its own, and checked by mlcroissant.

Nothing of it is published: the Hub describes every data set itself. The check tells whether it can.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ml_bench_hub.configs import read_configurations
from ml_bench_hub.errors import HubError, one_line
from ml_bench_hub.viewer import read_readme

_TYPES = {"int64": "INT64", "string": "TEXT", "double": "FLOAT64", "bool": "BOOL"}
"""Arrow's name of a type -> mlcroissant's, for the types that the Hub describes too."""


def check_croissant(folder: Path) -> list[str]:
    """Return one line for each fault that mlcroissant finds in a folder's description, or in reading its records by it.

    Raises:
        HubError: mlcroissant is not installed, or the folder has faults that `check_viewer` names.
    """
    try:
        # By its name, since it is an extra: what is not installed has no types.
        mlcroissant: Any = importlib.import_module("mlcroissant")
    except ImportError as error:
        raise HubError("--croissant needs the package mlcroissant: pip install 'ml-bench[croissant]'") from error
    files = _files(folder)
    with _quiet():
        try:
            description = _description(mlcroissant, folder, files).to_json()
            mapping = {path.relative_to(folder).as_posix(): str(path) for path in files.values()}
            dataset = mlcroissant.Dataset(jsonld=description, mapping=mapping)
        except (HubError, mlcroissant.ValidationError) as error:
            return [f"croissant: {one_line(error)}"]
        return [problem for name, path in files.items() for problem in _check_records(dataset, name, path)]


def _files(folder: Path) -> dict[str, Path]:
    """Return name of each record set -> its file."""
    metadata, _ = read_readme(folder)
    problems: list[str] = []
    configurations = read_configurations(folder, metadata, problems)
    if problems:
        raise HubError(problems[0])
    return {
        f"{configuration.name}/{split}" + (f"/{path.stem}" if len(paths) > 1 else ""): path
        for configuration in configurations
        for split, paths in configuration.splits.items()
        for path in paths
    }


def _description(mlcroissant: Any, folder: Path, files: dict[str, Path]) -> Any:
    metadata, _ = read_readme(folder)
    name = metadata.get("pretty_name") or folder.name
    distribution, record_sets = [], []
    for record_set, path in files.items():
        file = path.relative_to(folder).as_posix()
        distribution.append(
            mlcroissant.FileObject(
                id=file,
                name=file,
                content_url=file,
                encoding_formats=[mlcroissant.EncodingFormat.PARQUET],
                sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            )
        )
        fields = _fields(mlcroissant, record_set, path, file)
        record_sets.append(mlcroissant.RecordSet(id=record_set, name=record_set, fields=fields))
    return mlcroissant.Metadata(
        name=name,
        description=name,
        license=[str(metadata.get("license"))],
        url="https://huggingface.co/datasets",
        distribution=distribution,
        record_sets=record_sets,
    )


def _fields(mlcroissant: Any, record_set: str, path: Path, file: str) -> list[Any]:
    import pyarrow.parquet as pq

    fields = []
    for column in pq.read_schema(path):
        if str(column.type) not in _TYPES:
            raise HubError(f"{record_set}: column {column.name}: the Hub's Croissant skips columns of {column.type}")
        source = mlcroissant.Source(file_object=file, extract=mlcroissant.Extract(column=column.name))
        kind = getattr(mlcroissant.DataType, _TYPES[str(column.type)])
        name = f"{record_set}/{column.name}"
        fields.append(mlcroissant.Field(id=name, name=column.name, data_types=[kind], source=source))
    return fields


def _check_records(dataset: Any, name: str, path: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    try:
        found = sum(1 for _ in dataset.records(name))
    except Exception as error:  # Whatever mlcroissant raises here, its users meet.
        yield f"croissant: {name}: {type(error).__name__}: {one_line(error)}"
        return
    if found != (expected := pq.read_metadata(path).num_rows):
        yield f"croissant: {name}: gives {found} records of {expected}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep mlcroissant from recommending fields that only a page on the Hub has: when it was published, and as what."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
