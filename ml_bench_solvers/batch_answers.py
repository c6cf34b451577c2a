"""Reading answers that another engine gave: OpenAI's batch files, plain JSON lines, parquet; nothing fine is lost.

An answer has a place: its task and its position among the task's answers. Batch lines carry it in their custom id.
Plain entries name their `task_id`, and may name an `index`; without one their answers take the places in the order of
reading.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ml_bench_metric.tasks import TaskSet
from ml_bench_solvers.batch import BatchError
from ml_bench_solvers.batch_ids import known_names, places_of

AnswerProblemKind = Literal[
    "broken_line", "missing_field", "unknown", "duplicate", "errored", "empty", "refused", "cut"
]
"""What is to be said of an entry.

`broken_line`: no JSON object in UTF-8. `missing_field`: a field is not there, or holds what it cannot. `unknown`: of no
task of the set. `duplicate`: a second answer for one place; the first counts. `errored`: the server answered with an
error, and no other entry has that answer. `empty`, `refused`: the model said nothing, or that it would not; that is an
answer, which keeps its place and fails. `cut`: the answer ends where the tokens did; it counts as it is.
"""

KINDS: tuple[AnswerProblemKind, ...] = get_args(AnswerProblemKind)

LOST: frozenset[AnswerProblemKind] = frozenset({"broken_line", "missing_field", "unknown", "errored"})
"""The problems behind which an answer may be missing."""

ANSWER_FIELDS = ("answers", "answer", "output", "generations", "generation")
"""The fields that may hold an entry's answers, in the order in which they are looked for."""

_PARQUET = ".parquet"


@dataclass(frozen=True)
class AnswerProblem:
    """Something to be said of one entry."""

    where: str
    """`answers.jsonl:17`, or `answers.parquet, row 17`; both count from 1."""
    kind: AnswerProblemKind
    message: str


@dataclass
class Answers:
    """What was read."""

    by_task: dict[str, dict[int, str]] = field(default_factory=dict)
    """`task_id` -> position -> answer."""
    problems: list[AnswerProblem] = field(default_factory=list)

    def outputs(self, tasks: TaskSet) -> Iterator[tuple[str, list[str]]]:
        """Yield `task_id` and answers of each task that has some, in the order of the tasks and of the positions.

        A position without an answer is left out, and those behind it move up: an answer that a server failed to give
        is no candidate, as one that the sandbox failed to execute is none.
        """
        for task in tasks.tasks:
            if places := self.by_task.get(task.task_id):
                yield task.task_id, [places[index] for index in sorted(places)]

    def missing(self, tasks: TaskSet, answers: int | None = None) -> dict[str, int]:
        """Return the tasks that have fewer answers than they should -> how many they lack, in the order of the tasks.

        Args:
            tasks: those that should have answers.
            answers: how many each; None for as many as the task with the most has.
        """
        wanted = answers or max((len(places) for places in self.by_task.values()), default=1)
        lacking = {task.task_id: wanted - len(self.by_task.get(task.task_id, {})) for task in tasks.tasks}
        return {task_id: number for task_id, number in lacking.items() if number > 0}

    def counts(self) -> dict[AnswerProblemKind, int]:
        """Return how many problems there are of each kind that occurs, in the order of `KINDS`."""
        found = Counter(problem.kind for problem in self.problems)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def predictions(self, tasks: TaskSet) -> str:
        """Return the answers as a file of predictions, JSON lines."""
        return "".join(
            json.dumps({"task_id": task_id, "output": output}) + "\n" for task_id, output in self.outputs(tasks)
        )


def read_answers(files: Sequence[Path], tasks: TaskSet, *, answer_field: str | None = None) -> Answers:
    """Return the answers of some files, in whatever order they come.

    Args:
        files: OpenAI's batch output and error files, JSON lines or parquet, told by the suffix `.parquet` and by what
            the lines hold.
        tasks: the tasks that answers may be for.
        answer_field: the field with the answers of a plain entry; None looks for those in `ANSWER_FIELDS`.

    Raises:
        BatchError: a file cannot be read at all.
    """
    reader = _Reader(tasks, answer_field)
    for path in files:
        entries = _parquet_entries(path) if path.suffix.lower() == _PARQUET else _line_entries(path)
        for where, entry in entries:
            reader.take(where, entry)
    return reader.finished()


def unanswered(files: Sequence[Path], answers: Answers, tasks: TaskSet) -> Iterator[dict[str, Any]]:
    """Yield the requests of some files whose answers are not all there, as they are: they can be sent again.

    Raises:
        BatchError: a file cannot be read, or a line of it is no request of ours.
    """
    names = known_names(task.task_id for task in tasks.tasks)
    for path in files:
        for where, entry in _line_entries(path):
            text = entry.get("custom_id") if isinstance(entry, Mapping) else None
            places = places_of(text, names) if isinstance(text, str) else None
            if places is None or not isinstance(entry, dict):
                raise BatchError(
                    f"{where}: is no request that `ml-bench export-requests` wrote for these tasks; give the files "
                    "that were sent, and the --tasks and --split that they were made with"
                )
            known = answers.by_task.get(places.task_id, {})
            if any(index not in known for index in range(places.first, places.first + places.count)):
                yield entry


class _EntryError(Exception):
    """What makes an entry useless; it is reported, never raised to the caller."""

    def __init__(self, kind: AnswerProblemKind, message: str) -> None:
        super().__init__(message)
        self.kind: AnswerProblemKind = kind


class _Reader:
    def __init__(self, tasks: TaskSet, answer_field: str | None) -> None:
        self._answers = Answers()
        self._tasks = tasks
        self._names = known_names(task.task_id for task in tasks.tasks)
        self._fields = (answer_field,) if answer_field else ANSWER_FIELDS
        self._found_at: dict[tuple[str, int], str] = {}
        self._errors: list[tuple[str, str, range, str]] = []
        self._plain: list[tuple[str, str, str]] = []

    def take(self, where: str, entry: object) -> None:
        """Add an entry to the answers, or what is wrong with it to their problems."""
        try:
            if isinstance(entry, _Broken):
                raise _EntryError("broken_line", entry.reason)
            if not isinstance(entry, Mapping):
                raise _EntryError("broken_line", f"is {_shown(entry)}, where an object is expected")
            if "custom_id" in entry:
                self._take_batch(where, entry)
            else:
                self._take_plain(where, entry)
        except _EntryError as fault:
            self._report(where, fault.kind, str(fault))

    def finished(self) -> Answers:
        """Return the answers, when all entries were taken."""
        for where, task_id, text in self._plain:
            # Behind those with a place of their own, whichever file came first.
            self._put(where, task_id, max(self._answers.by_task.get(task_id, {}), default=-1) + 1, text)
        for where, task_id, places, message in self._errors:
            known = self._answers.by_task.get(task_id, {})
            lacking = [index for index in places if index not in known]
            if lacking:
                self._report(where, "errored", f"task {task_id}, answer {_listed(lacking)}: {message}; send it again")
        return self._answers

    def _report(self, where: str, kind: AnswerProblemKind, message: str) -> None:
        self._answers.problems.append(AnswerProblem(where, kind, message))

    def _put(self, where: str, task_id: str, index: int, text: str) -> bool:
        known = self._answers.by_task.setdefault(task_id, {})
        earlier = self._found_at.setdefault((task_id, index), where)
        if index in known:
            same = "the same" if known[index] == text else "another"
            self._report(
                where, "duplicate", f"is {same} answer {index} of task {task_id}, after that at {earlier}, which counts"
            )
            return False
        known[index] = text
        if not text.strip():
            self._report(where, "empty", f"task {task_id}, answer {index} is empty; it keeps its place and fails")
        return True

    # ------------------------------------------------------------ OpenAI's batch files

    def _take_batch(self, where: str, entry: Mapping[str, Any]) -> None:
        name = entry["custom_id"]
        places = places_of(name, self._names) if isinstance(name, str) else None
        if places is None:
            raise _EntryError(
                "unknown",
                f'"custom_id" is {_shown(name)}, which `ml-bench export-requests` writes for no task of split '
                f"{self._tasks.split!r} ({self._tasks.origin}); give the --tasks and --split of the export",
            )
        wanted = range(places.first, places.first + places.count)
        if error := _error_of(entry):
            self._errors.append((where, places.task_id, wanted, error))
            return
        choices = _choices(entry)
        for position, choice in enumerate(choices):
            number = choice.get("index", position) if isinstance(choice, Mapping) else position
            try:
                if not isinstance(number, int) or isinstance(number, bool) or number not in range(places.count):
                    raise _EntryError(
                        "missing_field",
                        f'"index" of choice {position} is {_shown(number)}, where {places.count} were asked for',
                    )
                self._take_choice(where, places.task_id, places.first + number, choice)
            except _EntryError as fault:
                self._report(where, fault.kind, str(fault))
        known = self._answers.by_task.get(places.task_id, {})
        if any(index not in known for index in wanted):
            self._errors.append((where, places.task_id, wanted, f"the response has {len(choices)} of {places.count}"))

    def _take_choice(self, where: str, task_id: str, index: int, choice: object) -> None:
        message = choice.get("message") if isinstance(choice, Mapping) else None
        if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
            raise _EntryError("missing_field", f'task {task_id}, answer {index}: its choice has no "message"')
        content = message.get("content")
        if content is not None and not isinstance(content, str):
            raise _EntryError(
                "missing_field", f'task {task_id}, answer {index}: "content" is {_shown(content)}, not a text'
            )
        if not self._put(where, task_id, index, content or ""):
            return
        if isinstance(message.get("refusal"), str):
            self._report(where, "refused", f"task {task_id}, answer {index}: {message['refusal'][:200]}")
        if choice.get("finish_reason") == "length":
            self._report(where, "cut", f"task {task_id}, answer {index} was cut at the limit of tokens")

    # ------------------------------------------------------------ plain entries

    def _take_plain(self, where: str, entry: Mapping[str, Any]) -> None:
        task_id = entry.get("task_id")
        if not isinstance(task_id, str):
            raise _EntryError(
                "missing_field",
                f'"task_id" is {_shown(task_id)}; an entry has the text "task_id" such as "dgl/1", or the "custom_id" '
                "of a batch",
            )
        if task_id not in self._tasks.by_id:
            raise _EntryError(
                "unknown", f"{task_id} is no task of split {self._tasks.split!r} ({self._tasks.origin}); mend --tasks"
            )
        name = next((name for name in self._fields if entry.get(name) is not None), None)
        if name is None:
            raise _EntryError(
                "missing_field",
                f"task {task_id}: none of the fields {', '.join(self._fields)} holds answers; name the one that does "
                "with --answer-field",
            )
        texts = _texts(entry[name])
        if texts is None:
            raise _EntryError(
                "missing_field", f'task {task_id}: "{name}" is {_shown(entry[name])}, not a text or a list of texts'
            )
        index = entry.get("index")
        if index is None:
            self._plain += [(where, task_id, text) for text in texts]
        elif isinstance(index, int) and not isinstance(index, bool) and index >= 0:
            for position, text in enumerate(texts, start=index):
                self._put(where, task_id, position, text)
        else:
            raise _EntryError("missing_field", f'task {task_id}: "index" is {_shown(index)}; positions count from 0')


def _texts(value: object) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    return None


def _error_of(entry: Mapping[str, Any]) -> str:
    """Return what kept a batch line from having an answer; empty where nothing did."""
    if entry.get("error"):
        return _of_error(entry["error"])
    response = entry.get("response")
    if not isinstance(response, Mapping):
        raise _EntryError("missing_field", f'{entry["custom_id"]}: "response" is {_shown(response)}, not an object')
    status = response.get("status_code", 200)
    if status == 200:
        return ""
    body = response.get("body")
    return f"status {status}: {_of_error(body.get('error') if isinstance(body, Mapping) else body)}"


def _of_error(error: object) -> str:
    if isinstance(error, Mapping):
        parts = [str(error[name]) for name in ("code", "message") if error.get(name)]
        if parts:
            return ": ".join(parts)[:300]
    return json.dumps(error)[:300]


def _choices(entry: Mapping[str, Any]) -> list[object]:
    body = entry["response"].get("body")
    choices = body.get("choices") if isinstance(body, Mapping) else None
    if not isinstance(choices, list):
        raise _EntryError(
            "missing_field", f'{entry["custom_id"]}: "response.body.choices" is {_shown(choices)}, not a list'
        )
    return choices


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _shown(value: object) -> str:
    if value is None:
        return "not there"
    shown = repr(value)
    return f"{shown[:60]}{'…' if len(shown) > 60 else ''}"


# ---------------------------------------------------------------- from files to entries


@dataclass(frozen=True)
class _Broken:
    """Stands for a line that is no JSON."""

    reason: str


def _line_entries(path: Path) -> Iterator[tuple[str, object]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path.name}:{number}", _parsed(line)
    except OSError as error:
        raise BatchError(f"{path} cannot be read: {error.strerror or error}") from error


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return _Broken(f"is not UTF-8 (byte {error.start + 1}); save the file as UTF-8")
    except json.JSONDecodeError as error:
        return _Broken(f"is not JSON: {error.msg} (column {error.colno}); it may have been cut, fetch the file again")
    except (ValueError, RecursionError) as error:
        return _Broken(f"is not JSON: {error}")


def _parquet_entries(path: Path) -> Iterator[tuple[str, object]]:
    import pyarrow as pa  # loading it takes a while, and only this needs it
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=1000):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path.name}, row {number}", row
    except (OSError, pa.ArrowException) as error:
        raise BatchError(f"{path} cannot be read as parquet: {error}") from error
