"""Reading predictions: a file, a list or a data set of answers, and what is wrong with them, by file and line.

An entry is `{"task_id": "dgl/1", "output": ["...", ...]}` or, as upstream has it, `{"github_id": 1, "id": 1, "output":
["...", ...]}`; a single string stands for a list of one, and further fields are ignored. A faulty entry is reported and
the rest goes on. The order of an entry's candidates is kept, since the paper's Pass@k depends on it.

For tasks of split A a candidate is the text of `run.sh`, or a folder that has one: `{"folder": "path"}`, relative to
the file of predictions (in Python a `Path` too, relative to the current folder).
"""

from __future__ import annotations

import codecs
import json
import numbers
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from ml_bench_metric.overlay_folder import FolderCandidate, FolderError, read_folder
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.tasks import Form, Task, TaskSet, form_of

ProblemKind = Literal[
    "broken_line",
    "missing_field",
    "bad_id",
    "contradiction",
    "unknown_task",
    "duplicate",
    "empty",
    "not_text",
    "bad_folder",
]
"""What is wrong with an entry.

`broken_line`: no JSON object in UTF-8. `missing_field`: no id, or no `output`. `bad_id`: an id of a wrong type.
`contradiction`: `task_id` and `github_id`, `id` name different tasks. `unknown_task`: no task of the set.
`duplicate`: a second usable entry for a task; the first counts. `empty`: no candidate. `not_text`: `output` or a
candidate in it is not text. `bad_folder`: a candidate is a folder that is none, has no `run.sh` or is too large, or the
tasks are none of split A.
"""

_FIELDS = 'fields "task_id" (or "github_id" and "id") and "output"'
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(?::[\w.]+)?", re.ASCII)
_LINE_SUFFIXES = (".jsonl", ".ndjson")
_SHOWN_PROBLEMS = 20


class PredictionsError(ValueError):
    """The predictions cannot be used at all; the message names the source, what is wrong and the way out."""


@dataclass(frozen=True)
class Prediction:
    """A task's candidates, in their order."""

    task_id: str
    candidates: tuple[str, ...]
    """At least one. One that was no text is the empty text here, so that the others keep their places."""
    where: str
    """Where it was read, for example `predictions.jsonl:17`."""
    overlays: tuple[Overlay | None, ...] = ()
    """What each of them brings along; empty where none brings anything."""

    def overlay(self, index: int) -> Overlay | None:
        """Return what a candidate brings along."""
        return self.overlays[index] if self.overlays else None


@dataclass(frozen=True)
class Problem:
    """Something wrong with one entry."""

    where: str
    """For example `predictions.jsonl:17`; lines, items and rows of files count from 1, those of Python lists from 0."""
    kind: ProblemKind
    message: str
    task: str | None = None
    """The task that the entry names, as far as it could be told: `task_id`, or `github_id 1, id 1`."""


@dataclass
class Predictions:
    """What was read."""

    items: dict[str, Prediction] = field(default_factory=dict)
    """`task_id` -> its prediction, in the order of reading."""
    problems: list[Problem] = field(default_factory=list)
    form: Form = "answer"
    """What all of the candidates are."""

    @property
    def unknown_tasks(self) -> tuple[str, ...]:
        """The tasks that entries name and the set does not have, in the order of reading, each once."""
        unknown = (problem.task for problem in self.problems if problem.kind == "unknown_task")
        return tuple(dict.fromkeys(name for name in unknown if name is not None))

    def only(self, tasks: TaskSet) -> Predictions:
        """Return the predictions for some tasks; what was wrong stays known."""
        items = {task_id: prediction for task_id, prediction in self.items.items() if task_id in tasks.by_id}
        return Predictions(items=items, problems=self.problems, form=self.form)

    def missing(self, tasks: TaskSet) -> tuple[str, ...]:
        """Return the ids of the tasks without a prediction, in the order of the set."""
        return tuple(task.task_id for task in tasks.tasks if task.task_id not in self.items)


def read_predictions(source: object, tasks: TaskSet) -> Predictions:
    """Return the predictions of a source for a set of tasks.

    Args:
        source: the path of a JSONL or JSON file (a list of entries, or one entry); the Hub id of a data set with one
            split, or `namespace/name:split`, unless there is a folder `namespace` here; an iterable of entries such as
            a list of dicts or a `datasets.Dataset`; or a list of lists of candidates, one for each task in the order of
            the set.
        tasks: the tasks that predictions may be for.

    Raises:
        PredictionsError: the source cannot be read at all.
    """
    base = Path()
    if isinstance(source, (str, os.PathLike)):
        entries = _named_entries(os.fspath(source))
        base = Path(source).parent
    elif isinstance(source, Mapping):
        if source and all(hasattr(part, "column_names") for part in source.values()):
            entries = _dataset_entries(_only_split(source, "the data set"))
        else:
            entries = iter([("predictions", source)])
    elif isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray)):
        entries = _listed_entries(source, tasks)
    else:
        raise PredictionsError(
            f"predictions are a {type(source).__name__}; give the path of a JSONL or JSON file, a list or a data set"
        )
    reader = _Reader(tasks, base)
    for where, entry in entries:
        reader.take(where, entry)
    return reader.predictions


def folder_of(candidate: object) -> str | None:
    """Return the path of a candidate that is a folder, `{"folder": path}` or a `Path`; None where it is none."""
    if isinstance(candidate, Mapping) and list(candidate) == ["folder"]:
        candidate = candidate["folder"]
        return os.fspath(candidate) if isinstance(candidate, (str, Path)) else None
    return str(candidate) if isinstance(candidate, Path) else None


def require_clean(predictions: Predictions) -> None:
    """Raise where anything is wrong with the predictions, before anything is run.

    Raises:
        PredictionsError: there are problems; the message lists the first of them. Missing tasks are none.
    """
    problems = predictions.problems
    if problems:
        lines = [f"{problem.where}: {problem.message}" for problem in problems[:_SHOWN_PROBLEMS]]
        more = len(problems) - len(lines)
        raise PredictionsError(
            f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in the predictions:\n  "
            + "\n  ".join(lines)
            + (f"\n  and {more} more" if more else "")
            + "\nmend them, or do without strict input: what is wrong is then reported and left out"
        )


@dataclass(frozen=True)
class _Broken:
    """Stands for an entry that is no JSON."""

    reason: str


_Entries = Iterator[tuple[str, object]]
"""Pairs of where an entry was found and the entry."""


# ---------------------------------------------------------------- from entries to predictions


class _EntryError(Exception):
    """What makes an entry useless; it is reported, never raised to the caller."""

    def __init__(self, kind: ProblemKind, message: str, task: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.task = task


class _Reader:
    def __init__(self, tasks: TaskSet, base: Path) -> None:
        self.predictions = Predictions(form=form_of(tasks.split))
        self._tasks = tasks
        self._base = base

    def take(self, where: str, entry: object) -> None:
        """Add an entry to the predictions, or what is wrong with it to their problems."""
        try:
            self._take(where, entry)
        except _EntryError as fault:
            self._report(where, fault.kind, str(fault), fault.task)

    def _report(self, where: str, kind: ProblemKind, message: str, task: str | None) -> None:
        self.predictions.problems.append(Problem(where, kind, message, task))

    def _take(self, where: str, entry: object) -> None:
        if isinstance(entry, _Broken):
            raise _EntryError("broken_line", entry.reason)
        if not isinstance(entry, Mapping):
            raise _EntryError("broken_line", f"is {_named(entry)}, where an object with the {_FIELDS} is expected")
        task = self._task_of(entry)
        task_id = task.task_id
        if "output" not in entry:
            raise _EntryError("missing_field", 'has no field "output"', task_id)
        candidates = list(self._candidates(where, entry["output"], task))
        if not candidates:
            raise _EntryError("empty", '"output" holds no candidate', task_id)
        if earlier := self.predictions.items.get(task_id):
            raise _EntryError(
                "duplicate", f"task {task_id} has a prediction at {earlier.where} already, which counts", task_id
            )
        overlays = tuple(candidate.overlay for candidate in candidates)
        self.predictions.items[task_id] = Prediction(
            task_id, tuple(candidate.text for candidate in candidates), where, overlays if any(overlays) else ()
        )

    def _candidates(self, where: str, output: object, task: Task) -> Iterator[FolderCandidate]:
        task_id = task.task_id
        if isinstance(output, (str, bytes, Mapping, Set)) or not isinstance(output, Iterable):
            if not isinstance(output, str) and folder_of(output) is None:
                raise _EntryError("not_text", f'"output" is {_named(output)}, not a list of texts', task_id)
            output = [output]
        for number, candidate in enumerate(output):
            if isinstance(candidate, str) and _is_encodable(candidate):
                yield FolderCandidate(str(candidate), None)
                continue
            if (folder := folder_of(candidate)) is not None:
                yield self._of_folder(where, number, folder, task)
                continue
            what = "holds half of a surrogate pair" if isinstance(candidate, str) else f"is {_named(candidate)}"
            self._report(
                where, "not_text", f"candidate {number} {what}, not a text; it keeps its place and fails", task_id
            )
            yield FolderCandidate("", None)

    def _of_folder(self, where: str, number: int, folder: str, task: Task) -> FolderCandidate:
        """Return the candidate that a folder is; one that is none keeps its place and fails."""
        try:
            if self.predictions.form != "run.sh":
                raise FolderError(f"folders are for tasks of split A, and this is split {self._tasks.split}")
            return read_folder(self._base / folder, task.working_folder)
        except FolderError as error:
            self._report(
                where,
                "bad_folder",
                f'candidate {number}, "folder" {folder!r}: {error}; it keeps its place and fails',
                task.task_id,
            )
            return FolderCandidate("", None)

    def _task_of(self, entry: Mapping[Any, object]) -> Task:
        named: dict[str, Task | None] = {}
        if entry.get("task_id") is not None:
            task_id = entry["task_id"]
            if not isinstance(task_id, str):
                raise _EntryError("bad_id", f'"task_id" is {_named(task_id)}, not a text such as "dgl/1"')
            named[task_id] = self._tasks.by_id.get(task_id)
        if entry.get("github_id") is not None and entry.get("id") is not None:
            key = _integer(entry, "github_id"), _integer(entry, "id")
            named[f"github_id {key[0]}, id {key[1]}"] = self._tasks.by_key.get(key)
        if not named:
            raise _EntryError("missing_field", f"does not say which task it is for: it needs the {_FIELDS}")
        found = list(named.values())
        if found[0] is None and found[-1] is None:
            name = next(iter(named))
            raise _EntryError(
                "unknown_task", f"{name} is no task of split {self._tasks.split!r} ({self._tasks.origin})", name
            )
        if found[0] is None or found[0] is not found[-1]:
            raise _EntryError("contradiction", " and ".join(named) + " are not the same task")
        return found[0]


def _integer(entry: Mapping[Any, object], name: str) -> int:
    value = entry[name]
    if isinstance(value, str) and len(value) < 20 and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise _EntryError("bad_id", f'"{name}" is {_named(value)}, not a whole number')


def _is_encodable(text: str) -> bool:
    """Whether a text can be written to a file, which half of a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _named(value: object) -> str:
    """Return a short description of a value for a message."""
    if value is None:
        return "null"
    shown = repr(value) if isinstance(value, (bool, int, float, str)) else ""
    return f"{type(value).__name__} {shown[:40]}".strip()


# ---------------------------------------------------------------- from sources to entries


def _named_entries(name: str) -> _Entries:
    path = Path(name)
    if path.is_dir():
        raise PredictionsError(f"{name} is a folder; give the JSONL or JSON file with the predictions")
    if path.exists():
        return _file_entries(path)
    if path.parent.is_dir():
        raise PredictionsError(f"{name}: no such file in folder {path.parent}; give the path of a JSONL or JSON file")
    if _HUB_ID.fullmatch(name) and path.suffix not in (*_LINE_SUFFIXES, ".json"):
        return _hub_entries(name)
    raise PredictionsError(f"{name}: no such file; give the path of a JSONL or JSON file with predictions")


def _file_entries(path: Path) -> _Entries:
    try:
        with path.open("rb") as file:
            start = file.read(2)
            if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                raise PredictionsError(f"{path} is in UTF-16; save it as UTF-8")
            file.seek(0)
            if path.suffix.lower() in _LINE_SUFFIXES:
                yield from _line_entries(path.name, file)
                return
            data = file.read()
    except OSError as error:
        raise PredictionsError(f"{path} cannot be read: {error.strerror or error}") from error
    whole = _parsed(data)
    if isinstance(whole, list):
        for number, entry in enumerate(whole, start=1):
            yield f"{path.name}, item {number}", entry
    elif isinstance(whole, dict):
        yield path.name, whole
    elif b"\n" in data.strip() and isinstance(_parsed(data.strip().split(b"\n", 1)[0]), dict):
        yield from _line_entries(path.name, data.split(b"\n"))
    else:
        reason = whole.reason if isinstance(whole, _Broken) else f"it holds {_named(whole)}"
        raise PredictionsError(
            f"{path} is no file of predictions: {reason}; it must hold a JSON list, or one JSON object a line, "
            f"of objects with the {_FIELDS}"
        )


def _line_entries(name: str, lines: Iterable[bytes] | IO[bytes]) -> _Entries:
    for number, line in enumerate(lines, start=1):
        if line.removeprefix(codecs.BOM_UTF8).strip():
            yield f"{name}:{number}", _parsed(line)


def _parsed(data: bytes) -> object:
    """Return what a JSON text holds, a `_Broken` where it is none. Stricter than `json`: no NaN, no field twice."""
    try:
        return json.loads(
            data.decode("utf-8-sig"), parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated_fields
        )
    except UnicodeDecodeError as error:
        return _Broken(f"is not UTF-8 (byte {error.start + 1})")
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        return _Broken(f"is not JSON: {error.msg} ({place})")
    except (ValueError, RecursionError) as error:
        return _Broken(f"is not JSON: {error}")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


def _refuse_repeated_fields(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return fields


def _listed_entries(source: Iterable[object], tasks: TaskSet) -> _Entries:
    if hasattr(source, "column_names"):
        yield from _dataset_entries(source)
        return
    entries = list(source)
    if any(isinstance(entry, Mapping) for entry in entries):
        for index, entry in enumerate(entries):
            yield f"predictions[{index}]", entry
        return
    if len(entries) != len(tasks.tasks):
        raise PredictionsError(
            f"{len(entries)} lists of candidates for {len(tasks.tasks)} tasks: give one for each task in the order of "
            f"the tasks, or dicts with the {_FIELDS}"
        )
    for index, (entry, task) in enumerate(zip(entries, tasks.tasks, strict=True)):
        yield f"predictions[{index}]", {"task_id": task.task_id, "output": entry}


def _dataset_entries(dataset: Iterable[object]) -> _Entries:
    names = getattr(dataset, "column_names", None)
    if names is not None and ("output" not in names or not ("task_id" in names or {"github_id", "id"} <= set(names))):
        raise PredictionsError(f"the data set has the columns {', '.join(names)}, where it needs the {_FIELDS}")
    for number, row in enumerate(dataset, start=1):
        yield f"row {number}", row


def _hub_entries(name: str) -> _Entries:
    import datasets  # loading it takes a second, and only this source needs it

    repository, _, split = name.partition(":")
    try:
        loaded = datasets.load_dataset(repository, split=split or None)
    except Exception as error:
        raise PredictionsError(
            f"{name} is no file, and no data set could be loaded from the Hub: {error}; "
            "check the spelling, or give the path of a JSONL or JSON file"
        ) from error
    return _dataset_entries(_only_split(loaded, name) if isinstance(loaded, Mapping) else loaded)


def _only_split(splits: Mapping[Any, Any], name: str) -> Iterable[object]:
    if len(splits) != 1:
        raise PredictionsError(
            f"{name} has the splits {', '.join(map(str, splits))}; say which one: NAMESPACE/NAME:SPLIT for the Hub, "
            "or pass the split itself"
        )
    dataset: Iterable[object] = next(iter(splits.values()))
    return dataset
