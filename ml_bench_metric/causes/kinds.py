"""The causes of failures and the paper's classes of errors: two closed lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

FailureCause = Literal[
    "refusal_or_empty",
    "wrong_language",
    "syntax_error",
    "placeholder",
    "wrong_argument",
    "argument_missing",
    "missing_module",
    "missing_attribute",
    "undefined_name",
    "missing_file",
    "out_of_memory",
    "disk_limit",
    "output_limit",
    "needs_gpu",
    "needs_network",
    "crash_in_repository",
    "crash_in_program",
    "waits",
    "other",
]
"""Why a candidate failed.

`refusal_or_empty`: the answer holds no program. `wrong_language`: Python for a bash task or the other way round, or the
static check of the type fails. `syntax_error`: the program cannot be parsed, Markdown around it included.
`placeholder`: it has `/path/to/…`, `YOUR_DATASET` or the like, and its execution failed. `wrong_argument`: what was
called does not take an argument or its value. `argument_missing`: what was called needs an argument that is not there,
or the program does not use a value that the task asks for. `missing_module`, `missing_attribute`, `missing_file`: a
module; an attribute or a name of a module; a file, folder or command that is not there. `undefined_name`: a name that
the program uses and never defines. `out_of_memory`, `disk_limit`, `output_limit`: stopped at a limit, or out of a GPU's
memory. `needs_gpu`, `needs_network`: it wants what the sandbox has not. `crash_in_repository`, `crash_in_program`: an
error of another kind, whose last frame outside libraries is in the repository, or in the program. `waits`: still
running at the limit without having computed. `other`: none of these.
"""

CAUSES: tuple[FailureCause, ...] = get_args(FailureCause)

PaperClass = Literal["E1", "E2", "E3", "E4", "E5"]
"""The paper's classes of errors: hallucination; lack of knowledge or information; knowledge manipulation; syntax;
operational, such as giving up."""

PAPER_CLASSES: tuple[PaperClass, ...] = get_args(PaperClass)

OF_THE_PROGRAM: frozenset[FailureCause] = frozenset(
    {
        "syntax_error",
        "placeholder",
        "wrong_argument",
        "argument_missing",
        "missing_module",
        "missing_attribute",
        "undefined_name",
        "missing_file",
    }
)
"""Causes that an execution can show and that are faults of the program, whatever surrounds it."""

_LONGEST_EVIDENCE = 300


@dataclass(frozen=True)
class Finding:
    """Why a candidate failed."""

    cause: FailureCause
    evidence: str
    """The line that shows it, of the output, of the program, or about the checks: at most 300 characters, as it was
    written by whoever wrote it. `printable` makes it safe to show."""
    paper_class: PaperClass | None = None
    """None where the evidence does not decide it. E1: the program itself names a script, an attribute, an option or a
    module of an existing package that is not there. E2: it left a placeholder. E3: an argument's value is wrong or not
    used, though its name is right. E4: a syntax error. E5: there is no program."""

    @classmethod
    def of(cls, cause: FailureCause, evidence: str, paper_class: PaperClass | None = None) -> Finding:
        """Return a finding whose evidence is bounded."""
        line = evidence.strip()
        if len(line) > _LONGEST_EVIDENCE:
            line = line[: _LONGEST_EVIDENCE - 1] + "…"
        return cls(cause, line, paper_class)
