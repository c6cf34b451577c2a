"""The lines in which shells, argument parsers and programs say what is wrong, where no exception does."""

from __future__ import annotations

import re

from ml_bench_metric.causes.kinds import Finding
from ml_bench_metric.causes.surroundings import any_of, lacking

PROGRAM_FILE = "ml_bench_candidate"
"""What the sandboxes call the file of a program, without its suffix."""

_SHELL_SYNTAX = any_of(
    r"\S{0,200}(?:sh|environment): (?:-c: )?(?:command substitution: )?line \d+: "
    r"(?:syntax error|unexpected eof|unexpected token|.{0,200}: (?:ambiguous redirect|bad substitution))"
)
_FLAG_FOR_A_COMMAND = any_of(
    r"\S{0,200}(?:sh|environment): (?:-c: )?line \d+: -.{0,400}: (?:command not found|no such file)"
)
"""Flags with no program before them, or on lines that a backslash should have joined to it."""

_NO_FILE = any_of(
    r".{1,400}: (?:command )?not found$",
    r".{1,400}: no such file or directory$",
    r".{1,400}: (?:not a directory|cannot execute: required file not found)$",
    r".{0,60}python[\d.]*: can't open file",
    r"(?:unzip|tar|gzip|cat|ls|cp|mv): +(?:cannot (?:find or )?(?:open|access|stat)|can't open)",
)
_NO_MODULE = any_of(r"\S{0,200}python[\d.]*: (?:no module named|error while finding module specification)")
_PARSER = re.compile(
    r"[^\s:]{1,200}(?: [\w-]{1,40}){0,3}: error: |FATAL Flags parsing error|flag --\w"
    r"|Error: (?:No such option|Invalid value|Missing|Got unexp)"
)
_REQUIRED = any_of(
    r"the following arguments are required",
    r"one of the arguments .{1,200} is required",
    r"missing (?:option|argument|parameter)\b",
    r"too few arguments",
    r"must have a value other than none",
    r"must be specified",
)
_UNKNOWN_OPTION = any_of(
    r"unrecogni[sz]ed (?:arguments|option)",
    r"unknown command line flag",
    r"no such option",
    r"unknown option",
    r"got unexpected extra argument",
)
_SHELLS_AND_PARSERS = (_PARSER, _SHELL_SYNTAX, _NO_FILE, _NO_MODULE)
_NO_COMPLAINT = any_of("warning", "dlerror")
"""What lines have that look like a complaint, and after which a program goes on."""

_SCRIPT = re.compile(r"[\w./-]{1,200}\.(?:py|sh)\b")


def is_complaint(line: str) -> bool:
    """Whether a line, without white space around it, says what is wrong."""
    if not line or _NO_COMPLAINT.search(line):
        return False
    return any(pattern.match(line) for pattern in _SHELLS_AND_PARSERS) or lacking(line) is not None


def finding(line: str, program: str) -> Finding:
    """Return what a complaint means for a program."""
    if cause := lacking(line):
        return Finding.of(cause, line)
    if _PARSER.match(line):
        return refused_arguments(line)
    if _SHELL_SYNTAX.match(line) or _FLAG_FOR_A_COMMAND.match(line):
        return Finding.of("syntax_error", line, "E4")
    if _NO_MODULE.match(line):
        return Finding.of("missing_module", line)
    return missing_file(line, program)


def refused_arguments(line: str) -> Finding:
    """Return the finding of what an argument parser says: an argument lacks, or it does not take one or its value."""
    if _REQUIRED.search(line):
        return Finding.of("argument_missing", line, "E3")
    return Finding.of("wrong_argument", line, "E1" if _UNKNOWN_OPTION.search(line) else "E3")


def missing_file(line: str, program: str) -> Finding:
    """Return the finding of a file that is not there.

    A script that the program names and that is not there is made up. Of data nobody can say: the task may name it.
    """
    scripts = [name.rsplit("/", 1)[-1] for name in _SCRIPT.findall(line) if PROGRAM_FILE not in name]
    return Finding.of("missing_file", line, "E1" if any(name in program for name in scripts) else None)
