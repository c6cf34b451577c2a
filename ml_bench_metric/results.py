"""Result: the record of one candidate, a line of a run's `results.jsonl`."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ml_bench_metric.checks import Checks, Rule
from ml_bench_metric.sandbox.execution import Execution, Record
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.tasks import Form

RULES: tuple[Rule, ...] = get_args(Rule)
"""The rules, in the order in which they are shown."""

KEPT_PROGRAM_BYTES = 64 * 1024
"""How much of a program a result keeps, in bytes of UTF-8. The whole answer is in the predictions."""


def _joined(text: str) -> str:
    """Return a text in which two surrogates that form one character are that character.

    Python keeps them as two, JSON reads them as one: without this a text from a list and the same text from a file
    would differ. Lone surrogates stay.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _encoded(text: str) -> bytes:
    return _joined(text).encode("utf-8", "surrogatepass")


def text_sha256(text: str) -> str:
    """Return the SHA-256 (hex) of a text as UTF-8; a lone surrogate counts as its three bytes `ED A0..BF xx`."""
    return hashlib.sha256(_encoded(text)).hexdigest()


def candidate_sha256(text: str, overlay: Overlay | None) -> str:
    """Return the SHA-256 (hex) that tells candidates apart: of its text, and with an overlay of both digests.

    With one it is that of `<digest of the text> <digest of the overlay>` in ASCII.
    """
    digest = text_sha256(text)
    return digest if overlay is None else text_sha256(f"{digest} {overlay.digest}")


Text = Annotated[str, AfterValidator(_joined)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


AnyRecord = TypeVar("AnyRecord", bound="JsonRecord")


class JsonRecord(Record):
    """A record that is written as JSON and read again without any change.

    The JSON is plain ASCII. What UTF-8 cannot hold (a lone surrogate, which JSON allows and models do produce), NUL
    and characters beyond the basic plane are JSON escapes, so that no file, pipe or terminal meets them raw.
    """

    def to_json(self, indent: int | None = None) -> str:
        """Return the record as JSON: on one line, or indented.

        Raises:
            ValueError: a number is infinite or not a number.
        """
        # Not model_dump_json: it writes UTF-8 and fails at the first lone surrogate.
        return json.dumps(self.model_dump(), ensure_ascii=True, allow_nan=False, indent=indent)

    @classmethod
    def from_json(cls: type[AnyRecord], text: str | bytes) -> AnyRecord:
        """Return the record that `to_json` wrote.

        Raises:
            ValueError: it is not JSON, or not such a record; the message says where.
        """
        return cls.model_validate(json.loads(text))


class Program(Record):
    """The program that was taken out of a candidate's text."""

    text: Text
    """The program, or its first 64 KiB."""
    sha256: Sha256
    """Of the whole program, see `text_sha256`."""
    bytes: int = Field(ge=0)
    """Length of the whole program as UTF-8."""
    truncated: bool
    """True where `text` is only the beginning."""

    @classmethod
    def of(cls, text: str) -> Program:
        """Return the record of a program; a text that is too long is cut between two characters."""
        encoded = _encoded(text)
        end = len(encoded)
        if end > KEPT_PROGRAM_BYTES:
            end = KEPT_PROGRAM_BYTES
            while encoded[end] & 0xC0 == 0x80:  # the middle of a character
                end -= 1
        return cls(
            text=encoded[:end].decode("utf-8", "surrogatepass"),
            sha256=hashlib.sha256(encoded).hexdigest(),
            bytes=len(encoded),
            truncated=end < len(encoded),
        )


class Result(JsonRecord):
    """What became of one candidate: facts only. `verdicts.verdict` says what they mean under a rule."""

    task_id: str
    repository: str
    type: Literal["Bash Script", "Python Code"]
    candidate: int = Field(ge=0)
    """Position among the candidates of its task, from 0."""
    candidate_sha256: Sha256
    """Of the candidate as it was given, see `candidate_sha256`."""
    program: Program | None
    """None where the text holds no program."""
    extraction: Text
    """From where in the text the program was taken."""
    checks: dict[Rule, Checks]
    """The static checks, under every rule. Of a `run.sh` they depend on the commands of its execution too."""
    limit_seconds: float = Field(gt=0)
    """Time limit of the execution, in seconds of wall time: a verdict needs it."""
    execution: Execution | None
    """None where there was no program to run."""
    repeat: int = Field(default=0, ge=0)
    """Which of several executions of the candidate it is, from 0."""
    reused: bool = False
    """True where the execution is that of an identical candidate, of this run or an earlier one: its times were not
    spent again."""
    problems: tuple[Text, ...] = ()
    """What was noticed on the way, in plain words."""
    form: Form = "answer"
    """What the candidate is; also what it was in the results of versions that knew nothing else."""
    scripts: dict[Text, Program] = Field(default_factory=dict)
    """Of a `run.sh`: the scripts of its overlay that it names, by their absolute paths."""

    @model_serializer(mode="wrap")
    def _without_what_answers_have_not(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        if self.form == "answer":
            del written["form"], written["scripts"]
        return written

    @model_validator(mode="after")
    def _is_whole(self) -> Result:
        lacking = [rule for rule in RULES if rule not in self.checks]
        if lacking:
            raise ValueError(f"checks under rule {lacking[0]!r} are missing; a result has those of every rule")
        if (self.program is None) != (self.execution is None):
            raise ValueError(
                "a program and its execution belong together: "
                "a sandbox that failed is an execution with outcome environment_error"
            )
        return self
