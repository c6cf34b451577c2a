"""What generation leaves on disk: a folder with `generation.json`, `generations.jsonl` and `predictions.jsonl`.

`generations.jsonl` is what counts: a line per answer, with checksum, only ever appended to. `predictions.jsonl` is made
from it: a line per task that has all its answers, as `ml-bench evaluate` reads it. `generation.json` says which run it
is, and what it came to. `prompts.jsonl` has what was asked, `requests.jsonl` is a log.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from ml_bench_metric.sealed import cut_torn_line, seal, unseal
from ml_bench_metric.store import OtherRunError, RunError, differences, take_folder
from ml_bench_metric.whole_files import DRAFT_SUFFIX, write_whole
from ml_bench_solvers.generation.answers import Answer
from ml_bench_solvers.generation.request_log import LOG_FILE
from ml_bench_solvers.prompt import Prompt
from ml_bench_solvers.prompt_table import row_of

RUN_FILE = "generation.json"
ANSWERS_FILE = "generations.jsonl"
PREDICTIONS_FILE = "predictions.jsonl"
PROMPTS_FILE = "prompts.jsonl"
_LOCK_FILE = ".generation.lock"

_SHOWN_DIFFERENCES = 5

Keys = Mapping[str, Sequence[str]]
"""`task_id` -> the keys of its answers, in their order; tasks in theirs."""


class GenerationFolder:
    """The folder of one generation, held by one process at a time.

    Answers are stored as they arrive. Of several lines for one answer the last counts.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any], about: Mapping[str, Any], keys: Keys) -> None:
        """Open a folder, new or to go on with.

        Args:
            path: of the folder; made where it does not exist.
            identity: what must be equal for answers to belong together: plain JSON values.
            about: what else is to stand in `generation.json`.
            keys: the answers that are wanted.

        Raises:
            RunError: it cannot be made or written, is in use, is another kind of folder, or an answer in it is damaged.
            OtherRunError: it holds another generation.
        """
        self.path = path
        self._identity = json.loads(json.dumps(identity))
        self._about = about
        self._keys = keys
        self._place = {key: task_id for task_id, wanted in keys.items() for key in wanted}
        self._written: set[str] = set()
        self._predictions: IO[str] | None = None
        self.answers: dict[str, Answer] = {}
        """Key -> answer, of those that are wanted."""
        self.paid = Paid()
        """Of all answers in the folder, those that another one has replaced among them."""
        self._lock = take_folder(path, _LOCK_FILE, "generation")
        try:
            self._check_identity()
            self._read_answers()
            try:
                self.write_summary({})
                self._file = (path / ANSWERS_FILE).open("a", encoding="ascii", newline="\n")
                self.write_predictions()
            except OSError as error:
                _refuse(path, error)
        except BaseException:
            self._lock.close()
            raise

    def add(self, answer: Answer) -> None:
        """Store an answer, and the prediction of its task where that has all its answers now.

        Raises:
            RunError: it cannot be written.
        """
        try:
            self._file.write(seal(answer.to_json()) + "\n")
            self._file.flush()
            self._take(answer)
            task_id = self._place[answer.key]
            if self._predictions is not None and task_id not in self._written and self.is_complete(task_id):
                self._predictions.write(self._prediction(task_id))
                self._predictions.flush()
                self._written.add(task_id)
        except OSError as error:
            # Closing writes what is left of the line, and would fail once more later.
            for file in (self._file, self._predictions):
                if file is not None:
                    with suppress(OSError):
                        file.close()
            _refuse(self.path, error)

    def is_complete(self, task_id: str) -> bool:
        """Return whether all answers to a task are known, failures to get one among them."""
        return all(key in self.answers for key in self._keys[task_id])

    def keep(self, prompts: Iterable[Prompt]) -> None:
        """Store prompts, beside those that are stored already.

        Raises:
            RunError: the file cannot be written or read; it is as it was.
        """
        path = self.path / PROMPTS_FILE
        try:
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            new = [json.dumps(row_of(prompt)) for prompt in prompts]
            write_whole(path, "".join(f"{line}\n" for line in dict.fromkeys([*lines, *new])))
        except OSError as error:
            _refuse(path, error)

    def write_predictions(self) -> None:
        """Write the predictions anew, in the order of the tasks.

        Raises:
            RunError: they cannot be written; the old ones are as they were.
        """
        complete = [task_id for task_id in self._keys if self.is_complete(task_id)]
        try:
            if self._predictions is not None:
                self._predictions.close()
            write_whole(self.path / PREDICTIONS_FILE, "".join(map(self._prediction, complete)))
            # Only now: the file of this name is another one.
            self._predictions = (self.path / PREDICTIONS_FILE).open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            _refuse(self.path / PREDICTIONS_FILE, error)
        self._written = set(complete)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write `generation.json`, whole or not at all.

        Raises:
            RunError: it cannot be written.
        """
        facts = {"identity": self._identity, **self._about, **summary}
        try:
            write_whole(self.path / RUN_FILE, json.dumps(facts, indent=2) + "\n")
        except OSError as error:
            _refuse(self.path / RUN_FILE, error)

    def close(self) -> None:
        """Give the folder free."""
        try:
            for file in (self._file, self._predictions):
                if file is not None and not file.closed:
                    with suppress(OSError):  # what could not be written was said when it was
                        os.fsync(file.fileno())
                    file.close()
        finally:
            self._lock.close()

    def __enter__(self) -> GenerationFolder:
        """Return self."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def _prediction(self, task_id: str) -> str:
        # What failed is the empty text, which keeps the places of the others.
        texts = [self.answers[key].text for key in self._keys[task_id]]
        return json.dumps({"task_id": task_id, "output": texts}, ensure_ascii=False) + "\n"

    def _take(self, answer: Answer) -> None:
        self.paid.add(answer)
        if answer.key in self._place:
            self.answers[answer.key] = answer

    def _check_identity(self) -> None:
        path = self.path / RUN_FILE
        if not path.exists():
            ours = (_LOCK_FILE, RUN_FILE + DRAFT_SUFFIX, LOG_FILE)
            strangers = sorted(entry.name for entry in self.path.iterdir() if entry.name not in ours)
            if strangers:
                raise RunError(
                    f"{self.path} holds {strangers[0]!r} and no {RUN_FILE}: no generation's folder; give another --out"
                )
            return
        try:
            stored = dict(json.loads(path.read_text(encoding="utf-8"))["identity"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise RunError(f"{path} cannot be read ({error}); give another --out") from error
        differing = [
            line
            for name in sorted(stored.keys() | self._identity)
            for line in differences(name, stored.get(name, "absent"), self._identity.get(name, "absent"))
        ]
        if differing:
            more = len(differing) - _SHOWN_DIFFERENCES
            raise OtherRunError(
                f"{self.path} holds another generation ({', '.join(differing[:_SHOWN_DIFFERENCES])}"
                f"{f', and {more} more' if more > 0 else ''}); give another --out, the same settings to go on, "
                "or --restart to put those answers aside"
            )

    def _read_answers(self) -> None:
        path = self.path / ANSWERS_FILE
        try:
            cut_torn_line(path)
            for answer in _answers(path):
                self._take(answer)
        except OSError as error:
            _refuse(path, error)


class Paid:
    """Adds up what answers cost."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._cost = 0.0
        self.without_usage = 0
        """Answers of which the server did not say how many tokens they took."""

    @property
    def cost(self) -> float:
        """What is known of their cost, to nine places: ten tenths are one."""
        return round(self._cost, 9)

    def add(self, answer: Answer) -> None:
        """Take the next one."""
        self._cost += answer.cost or 0.0
        if answer.usage is not None:
            self.prompt_tokens += answer.usage.prompt_tokens
            self.completion_tokens += answer.usage.completion_tokens
        elif answer.status != "error":
            self.without_usage += 1


def read_answers(folder: Path) -> list[Answer]:
    """Return the answers of a folder in the order in which they arrived; of several for one key, the last.

    Raises:
        RunError: one is damaged, or the file cannot be read.
    """
    try:
        return list({answer.key: answer for answer in _answers(folder / ANSWERS_FILE)}.values())
    except OSError as error:
        raise RunError(f"{folder / ANSWERS_FILE} cannot be read: {error.strerror or error}") from error


def _answers(path: Path) -> Iterator[Answer]:
    if not path.exists():
        return
    with path.open(encoding="ascii", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n"):
                return
            try:
                yield Answer.from_json(unseal(line))
            except ValueError as error:
                reason = str(error).splitlines()[0]
                raise RunError(
                    f"{path}:{number}: no whole answer of this version ({reason}); remove the line to have that answer "
                    "asked for again"
                ) from error


def _refuse(path: Path, error: OSError) -> NoReturn:
    raise RunError(
        f"{path} cannot be written: {error.strerror or error}; what was stored before is kept: mend that, and the same "
        "command goes on, or give another --out"
    ) from error
