"""The sample: a small benchmark written for this project, as data. README.md says what its files hold."""

from __future__ import annotations

from pathlib import Path


def path() -> Path:
    """Return the folder that holds `tasks_l.jsonl`, `tasks_a.jsonl`, `predictions.jsonl` and `expected.jsonl`.

    The package must be unpacked on disk, as pip and git leave it; it is of no use from within a zip archive.
    """
    return Path(__file__).parent


def repositories() -> Path:
    """Return the folder of the miniature repositories, one folder each, named as in `Task.directory`."""
    return path() / "repositories"


def predictions() -> Path:
    """Return the file of answers to all tasks of split L, five to each, in upstream's format."""
    return path() / "predictions.jsonl"


def scripts() -> Path:
    """Return the file of answers to some tasks of split A: texts of `run.sh`, and folders that have one."""
    return path() / "predictions_a.jsonl"
