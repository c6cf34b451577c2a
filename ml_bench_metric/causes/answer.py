"""What an answer's text says by itself: no program, the wrong language, Markdown around it, placeholders."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ml_bench_metric.causes.kinds import Finding
from ml_bench_metric.extraction import extract
from ml_bench_metric.results import Result
from ml_bench_metric.tasks import Language

_NOT_VALID = "not valid"
"""In the words of an extraction: it is of the language for want of another, and its parser does not take it."""

_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_PYTHON_LINE = re.compile(r"(?:import|from)[ \t]+[A-Za-z_.]|(?:class|def)[ \t]+\w+.*:[ \t]*$")
_FIRST_LINES = 10
"""So many lines decide whether a text that no parser takes is meant as Python."""

_COMMENT = re.compile(r"(?:^|\s)#.*$")
_PLACEHOLDER = re.compile(
    r"""
    /?path[/_-]to[/_-]?[\w./-]*                                   # /path/to/data, path_to_image.jpg
    | (?<![A-Za-z])your[_/-]\w[\w./-]* | (?<![A-Za-z])/your\b      # your_dataset, YOUR_NAME
    | <(?=[^<>\n]*(?:[ _-]|\b(?:path|name|dir|file|data|dataset|model|url|token|key|id)\b|(?-i:[A-Z]{3})))
      (?!/)[A-Za-z][\w ./|-]{1,60}>                               # <dataset name>, <DATASET_NAME>
    | \[(?:your|insert|path|name)[ _-][\w ./-]{1,60}\]             # [your dataset]
    | \b(?:INSERT|REPLACE|FILL)_[A-Z_]{2,60}\b | \b[A-Z_]{2,60}_HERE\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_TOKENS_OF_MODELS = re.compile(r"<\|?(?:im_start|im_end|end_of_text|endoftext|start_of_text)\|?>")
_SHORTEST_NAMED = 4
"""A shorter placeholder would be in an error by chance."""

_LONGEST_LINE = 1000
_MOST_LINES = 2000


@dataclass(frozen=True)
class Placeholder:
    """Something in a program that was to be filled in."""

    line: str
    is_in_the_error: bool
    """Whether the error names it, so that it is why the program failed."""


def fault(result: Result) -> Finding | None:
    """Return why a result has no answer that could be judged: there is no program, or it is in the wrong language."""
    if result.program is None:
        return _of_extraction(result.extraction)
    text, language = result.program.text, _language(result)
    if not text.strip():
        return Finding.of("refusal_or_empty", "the answer is empty", "E5")
    if result.form == "run.sh":
        # Bash by its name, whatever the task's type. What is wrong with it, its execution says.
        return None
    own = extract(text, language, "auto")
    if own.program is not None and _NOT_VALID not in own.source:
        return None
    other: Language = "python" if language == "bash" else "bash"
    swapped = extract(text, other, "auto")
    meant = _NOT_VALID not in swapped.source or (other == "python" and _looks_python(text))
    if swapped.program is not None and meant:
        return Finding.of("wrong_language", _first_line(swapped.program))
    if own.program is None and own.source.startswith(("none: prose", "none: empty", "none: nothing")):
        return Finding.of("refusal_or_empty", _first_line(text), "E5")
    return None


def _language(result: Result) -> Language:
    return "bash" if result.type == "Bash Script" else "python"


def _of_extraction(said: str) -> Finding | None:
    """Return what the extraction's own words mean for an answer without a program."""
    if "longer than" in said:
        return Finding.of("other", said)
    if said.startswith("none: Python") or (said.startswith("none: fenced blocks") and "(no tag)" not in said):
        return Finding.of("wrong_language", said)
    return Finding.of("refusal_or_empty", said, "E5")


def _looks_python(text: str) -> bool:
    lines = [line for line in code_lines(text) if not _FENCE.match(line)][:_FIRST_LINES]
    return any(_PYTHON_LINE.match(line) for line in lines)


def _first_line(text: str) -> str:
    return next((line for line in code_lines(text) if not _FENCE.match(line)), text.strip().split("\n")[0])


def code_lines(text: str) -> list[str]:
    """Return the first lines of a program that have more than a comment, without it; each of bounded length."""
    found = (_COMMENT.sub("", line[:_LONGEST_LINE]) for line in text.split("\n")[:_MOST_LINES])
    return [line for line in found if line.strip()]


def markdown(text: str) -> str | None:
    """Return the line with a Markdown fence that a program has, None where it has none."""
    return next((line for line in text.split("\n")[:_MOST_LINES] if _FENCE.match(line)), None)


def placeholder(text: str, error: str) -> Placeholder | None:
    """Return the placeholder of a program, outside comments, that an error names, else its first one, else None.

    An error may name only the folder of a path, as in `/path/to: not found` where the program has `/path/to/data`.
    """
    lines = [line for line in code_lines(text) if _placeholders(line)]
    cores = [core for core in _placeholders(error) if len(core) >= _SHORTEST_NAMED]
    for line in lines:
        mine = [core for core in _placeholders(line) if len(core) >= _SHORTEST_NAMED]
        if any(core in error for core in mine) or any(core in line for core in cores):
            return Placeholder(line, is_in_the_error=True)
    return Placeholder(lines[0], is_in_the_error=False) if lines else None


def _placeholders(line: str) -> list[str]:
    return [match[0].strip("<>[]/") for match in _PLACEHOLDER.finditer(_TOKENS_OF_MODELS.sub("", line))]
