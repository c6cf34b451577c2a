"""What an exception means for the program that ended with it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ml_bench_metric.causes.complaints import missing_file, refused_arguments
from ml_bench_metric.causes.kinds import FailureCause, Finding
from ml_bench_metric.causes.surroundings import any_of, lacking
from ml_bench_metric.causes.tracebacks import Place, RaisedException

_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
_OF_PARSERS = re.compile(r"(?:Illegal|Unrecognized|Unparsed|Duplicate)Flag\w*Error|(?:Argument|Usage)Error")
_NO_MODULE = any_of(
    r"no module named", r"requires? the .{1,80} (?:library|package)", r"is not installed", r"pip install"
)
_NO_FILE = any_of(
    r"no such file or directory",
    r"\b(?:file|path|folder|directory|checkpoint)\b.{0,300} (?:does not exist|doesn't exist|not found)",
    r"unable to (?:synchronously )?open file",
    # What TensorFlow says of a list of input files that no file matched.
    r"conversion requested dtype string for Tensor with dtype float32",
)
_TYPE_REQUIRED = re.compile(r"missing \d+ required|missing a required argument|required positional argument")
_TYPE_UNKNOWN = re.compile(r"unexpected keyword argument|invalid keyword argument")
_TYPE_WRONG = re.compile(
    r"takes (?:no|from|at (?:most|least)|exactly|\d+) .{0,40}argument|multiple values for (?:keyword )?argument"
)
_BUILT_IN = re.compile(r"'[a-z_]+' object has no attribute")
_QUOTED = re.compile(r"""['"`]([^'"`]{1,200})['"`]""")
_OPTION = re.compile(r"(?<![\w-])--[A-Za-z][\w-]+")
_WORD = re.compile(r"[\w./-]{2,200}")

_CRASHES: Mapping[Place | None, FailureCause] = {
    "program": "crash_in_program",
    "repository": "crash_in_repository",
    "library": "other",
    None: "other",
}


def finding(error: RaisedException, program: str) -> Finding:
    """Return what an exception means for a program."""
    kind, message, line = error.kind, error.message, error.line
    if cause := lacking(line):
        return Finding.of(cause, line)
    if kind in _SYNTAX_ERRORS and error.raised_in in ("program", None):
        return Finding.of("syntax_error", line, "E4")
    if _OF_PARSERS.fullmatch(kind):
        return refused_arguments(line)
    if kind in ("ModuleNotFoundError", "ImportError") and _NO_MODULE.search(message):
        return Finding.of("missing_module", line, "E1" if _is_of_a_package(message, program) else None)
    if kind in ("FileNotFoundError", "NotADirectoryError") or _NO_FILE.search(message):
        return missing_file(line, program)
    if kind == "NameError" and error.place == "program":
        return Finding.of("undefined_name", line)
    if _is_missing_attribute(error, program):
        # A list or a tuple that is taken for something else is no attribute that was made up.
        return Finding.of("missing_attribute", line, None if _BUILT_IN.match(message) else "E1")
    if kind == "TypeError" and error.place == "program":
        if _TYPE_REQUIRED.search(message):
            return Finding.of("argument_missing", line, "E3")
        if _TYPE_UNKNOWN.search(message):
            return Finding.of("wrong_argument", line, "E1")
        if _TYPE_WRONG.search(message):
            return Finding.of("wrong_argument", line, "E3")
    if _refuses_a_value(error, program):
        return Finding.of("wrong_argument", line, "E3")
    return Finding.of(_CRASHES[error.place], line)


def _is_of_a_package(message: str, program: str) -> bool:
    """Whether a package that is there lacks a module which the program names: only then is it made up."""
    return any("." in name and name in program for name in _QUOTED.findall(message))


def _is_missing_attribute(error: RaisedException, program: str) -> bool:
    quoted = _QUOTED.findall(error.message)
    if error.kind == "ImportError" and error.message.startswith("cannot import name"):
        return any(name in program for name in quoted[:1])
    # Of None nobody has asked an attribute on purpose: something before has gone wrong.
    if error.kind == "AttributeError" and "'NoneType'" not in error.message:
        return any(name in program for name in quoted[-1:])
    return False


def _refuses_a_value(error: RaisedException, program: str) -> bool:
    """Whether code outside the program refuses on purpose what the program gave it: the message names that.

    Where it names an option it is on purpose; else `raise` or `assert` says so, or a look-up fails.
    """
    if error.raised_in in ("program", None):
        return False
    named = set(_OPTION.findall(error.message))
    if error.kind in ("KeyError", "AssertionError") or error.source.startswith("raise "):
        named.update(name for name in _QUOTED.findall(error.message) if len(name) > 2)
        words = _WORD.findall(error.message) if error.raised_in == "repository" else []
        named.update(word for word in words if re.search(r"[\d_/]", word))
        if any(f"'{word}'" in program or f'"{word}"' in program for word in words):
            return True
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", program) for name in named)
