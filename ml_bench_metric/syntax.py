"""Whether a text is valid Python or bash: asked of Python's own parser and of `bash -n`. No text is ever run."""

from __future__ import annotations

import ast
import shutil
import subprocess
import threading
import warnings

MAX_CHARACTERS = 100_000
"""Longer texts are not parsed. The parser's C stack grows with the nesting of an expression: on Python 3.10 some
200,000 characters (`1+1+1...`) crash the interpreter, and with it the judge. Answers of a model have a few thousand."""

_BASH_SECONDS = 10.0

_quiet = threading.Lock()


class BashMissingError(RuntimeError):
    """The host has no bash, which the strict check of bash candidates needs."""


def python_tree(text: str) -> ast.Module | None:
    """Return the syntax tree of a Python program, None where the text is none.

    The grammar is that of the running interpreter. A text of more than `MAX_CHARACTERS`, or nested too deeply for
    Python's parser, is no program here.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    # The parser warns about invalid escapes, and would raise where warnings are errors. `catch_warnings` changes
    # the state of the whole process, hence the lock.
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def does_something(tree: ast.Module) -> bool:
    """Whether a program holds more than names, constants, operators and `pass`, as `Sorry` or `ls -l` do."""
    return any(isinstance(node, (ast.Call, ast.Await)) or _is_statement(node) for node in ast.walk(tree))


def has_statement(text: str) -> bool:
    """Whether a text is a Python program with a statement that is more than an expression or `pass`."""
    tree = python_tree(text)
    return tree is not None and any(_is_statement(node) for node in ast.walk(tree))


def _is_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt) and not isinstance(node, (ast.Expr, ast.Pass))


def is_python_program(text: str) -> bool:
    """Whether a text is Python and beyond doubt meant as Python: it imports, defines or calls something.

    `A=1` and `ls -l` are valid Python too, but no Python program in this sense.
    """
    tree = python_tree(text)
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Call)
    return tree is not None and any(isinstance(node, kinds) for node in ast.walk(tree))


def bash_accepts(text: str) -> bool:
    """Whether `bash -n` finds no syntax error in a text of at most `MAX_CHARACTERS`. Costs a process, about 2 ms.

    Raises:
        BashMissingError: there is no bash on the host.
    """
    if len(text) > MAX_CHARACTERS or "\0" in text:
        return False
    bash = shutil.which("bash")
    if bash is None:
        raise BashMissingError(
            "the strict check of bash candidates needs `bash` on the PATH of this machine: install it "
            "(Debian, Ubuntu: apt-get install bash)"
        )
    # An empty environment, so that neither BASH_ENV nor an exported function gets in; `-n` reads and runs nothing.
    try:
        done = subprocess.run(
            [bash, "--noprofile", "--norc", "-n"],
            input=text.encode("utf-8", "surrogatepass"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8"},
            timeout=_BASH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
