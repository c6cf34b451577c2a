"""The configurations that the front matter of a data set's README declares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SPLIT_NAME = re.compile(r"\w+(\.\w+)*")
_FORBIDDEN = re.compile(r"[<>:/\\|?*]")

MAX_CONFIGURATIONS = 4000
MAX_SPLITS = 30
"""What the viewer shows of a configuration; both figures are the production settings of huggingface/dataset-viewer."""


@dataclass
class Configuration:
    """One entry of `configs`."""

    name: str
    default: bool
    splits: dict[str, list[Path]] = field(default_factory=dict)
    """Split -> its files, in order."""


def read_configurations(folder: Path, metadata: Mapping[str, Any], problems: list[str]) -> tuple[Configuration, ...]:
    """Return the configurations that can be made out, and add a line for each fault to the problems."""
    entries = metadata.get("configs")
    if not isinstance(entries, list) or not entries:
        problems.append("README.md: `configs` lists no configuration: `datasets` would guess splits from file names")
        return ()
    found = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("config_name"), str):
            problems.append(f"README.md: configs, entry {number}: has no config_name")
            continue
        configuration = Configuration(entry["config_name"], entry.get("default") is True)
        _read_splits(folder, configuration, entry.get("data_files"), problems)
        found.append(configuration)
    problems += _faults(found)
    return tuple(found)


def _faults(found: list[Configuration]) -> Iterator[str]:
    for name, count in Counter(configuration.name for configuration in found).items():
        if count > 1:
            yield f"README.md: configs: {name!r} is there {count} times"
        if not name or _FORBIDDEN.search(name):
            yield rf"README.md: configs: {name!r} is no name of a configuration: none of <>:/\|?* may be in it"
    if len(found) > MAX_CONFIGURATIONS:
        yield f"README.md: configs: there are {len(found)}; the viewer takes {MAX_CONFIGURATIONS}"
    defaults = [configuration.name for configuration in found if configuration.default]
    if len(found) > 1 and not defaults and all(configuration.name != "default" for configuration in found):
        yield "README.md: configs: several and none has `default: true`: load_dataset needs to be told one"
    if len(defaults) > 1:
        yield f"README.md: configs: {', '.join(defaults)} all have `default: true`; one may"
    for configuration in found:
        if len(configuration.splits) > MAX_SPLITS:
            yield f"{configuration.name}: has {len(configuration.splits)} splits; the viewer shows {MAX_SPLITS}"


def _read_splits(folder: Path, configuration: Configuration, data_files: Any, problems: list[str]) -> None:
    for split, patterns in _patterns(data_files):
        where = f"{configuration.name}/{split}"
        if not isinstance(split, str) or not _SPLIT_NAME.fullmatch(split):
            problems.append(f"{where}: is no name of a split: letters, digits, _ and single dots may be in it")
            continue
        if split in configuration.splits:
            problems.append(f"{where}: the split is there twice")
            continue
        files: list[Path] = []
        for pattern in patterns:
            matching = _matching(folder, pattern)
            if not matching:
                problems.append(f"{where}: no file matches {pattern!r}")
            files += matching
        configuration.splits[split] = files
    if not configuration.splits:
        problems.append(f"{configuration.name}: `data_files` names no split")


def _matching(folder: Path, pattern: object) -> list[Path]:
    """Return the files in a folder that match a pattern; none for one that leads out of it."""
    if not isinstance(pattern, str) or not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
        return []
    try:
        return sorted(path for path in folder.glob(pattern) if path.is_file())
    except (ValueError, OSError):  # no pattern, or one with a name that no file can have
        return []


def _patterns(data_files: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield (split, patterns) of the forms that `datasets` takes: a pattern, several, or a list of splits."""
    entries = data_files if isinstance(data_files, list) else [] if data_files is None else [data_files]
    if entries and all(isinstance(entry, str) for entry in entries):
        yield "train", entries
        return
    for entry in entries:
        if isinstance(entry, dict):
            path = entry.get("path")
            yield entry.get("split"), path if isinstance(path, list) else [path]
        else:
            yield None, []
