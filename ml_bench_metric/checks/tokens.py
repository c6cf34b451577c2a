"""What the tokens of a program are: the words of a bash text, the names and constants of a Python text.

Comments are none, and neither are texts that stand for nothing: bare strings in Python (docstrings), the words of `:`
in bash with their here-document. Python inside bash (`python -c '...'`, a here-document that holds it) is read as
Python, bash inside bash (`bash -c '...'`, `eval`, other here-documents) as bash.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from ml_bench_metric import shell, syntax
from ml_bench_metric.tasks import Language

_DEEPEST = 5
"""Programs inside programs are read down to this depth."""
_LONGEST_INTEGER_BITS = 4096
"""Longer integers are no tokens: nobody asks for one, and Python refuses to turn one of 4,300 digits into text."""

_PYTHON = re.compile(r"(?:.*/)?i?python[\d.]*")
_SHELL = re.compile(r"(?:.*/)?(?:bash|sh|dash|zsh|ksh)")
_COMMAND_OPTION = re.compile(r"-[a-zA-Z]*c")
_PATH_CALLS = frozenset({"join", "joinpath", "Path", "PurePath", "PosixPath", "PurePosixPath"})


def of_program(program: str, language: Language, variables: Mapping[str, str]) -> list[str]:
    """Return the tokens of a program in their order.

    Args:
        program: at most `syntax.MAX_CHARACTERS` characters.
        language: what it should be. A text that is no Python is read as shell words even for a Python task, so that
            a missing argument and a wrong type stay two findings.
        variables: the environment that the task gives the program, for `$NAME`.
    """
    if language == "python" and (tree := syntax.python_tree(program)) is not None:
        return list(_of_python(tree))
    return list(_of_bash(program, variables, depth=0))


def _of_bash(program: str, variables: Mapping[str, str], depth: int) -> Iterator[str]:
    for command in shell.read(program, variables).commands:
        words = [word.text for word in command.words]
        head = words[command.assignments] if command.assignments < len(words) else ""
        if head == ":":
            continue
        interpreter = ""
        for position, word in enumerate(words):
            runs = interpreter and position > 0 and _COMMAND_OPTION.fullmatch(words[position - 1])
            if depth < _DEEPEST and (runs or (head == "eval" and word != head)):
                yield from _of_inner(word, variables, depth + 1, is_python=interpreter == "python")
            else:
                yield word
            if not word.startswith("-"):
                interpreter = "python" if _PYTHON.fullmatch(word) else "bash" if _SHELL.fullmatch(word) else ""
        for document in command.documents if depth < _DEEPEST else ():
            yield from _of_inner(document, variables, depth + 1, is_python=syntax.is_python_program(document))


def _of_inner(program: str, variables: Mapping[str, str], depth: int, *, is_python: bool) -> Iterator[str]:
    tree = syntax.python_tree(program) if is_python else None
    yield from _of_python(tree) if tree is not None else _of_bash(program, variables, depth)


def _of_python(tree: ast.Module) -> Iterator[str]:
    """Yield names and constants in the order of the text, without recursion: a tree may be very deep."""
    waiting: list[ast.AST | str] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, ast.Constant):
            yield from _of_constant(node.value, negative=False)
        elif (number := _negative(node)) is not None:
            yield from _of_constant(number, negative=True)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            if (path := _path(node)) is not None:
                yield path
            waiting.extend(reversed(_parts(node)))


def _parts(node: ast.AST) -> list[ast.AST | str]:
    """Return the names and the nodes that a node consists of, in the order of the text."""
    if isinstance(node, ast.Attribute):
        return _dotted(node)
    if isinstance(node, ast.Dict):
        return [part for pair in zip(node.keys, node.values, strict=True) for part in pair if part is not None]
    parts: list[ast.AST | str] = []
    for name, value in ast.iter_fields(node):
        if name != "type_comment":
            values = value if isinstance(value, list) else [value]
            parts.extend(part for part in values if isinstance(part, (ast.AST, str)))
    return parts


def _dotted(node: ast.Attribute) -> list[ast.AST | str]:
    """Return `a.b.c` as one token where it starts with a name, else what it starts with, then `b.c`."""
    names, inner = [node.attr], node.value
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        return [".".join([inner.id, *reversed(names)])]
    return [inner, ".".join(reversed(names))]


def _negative(node: ast.AST) -> int | float | None:
    """Return n where the node is `-n`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return None


def _of_constant(value: object, *, negative: bool) -> Iterator[str]:
    sign = "-" if negative else ""
    if isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, int) and not isinstance(value, bool):
        if value.bit_length() <= _LONGEST_INTEGER_BITS:
            yield sign + str(value)
    elif value is not Ellipsis:
        yield sign + str(value)


def _path(node: ast.AST) -> str | None:
    """Return the path that `os.path.join("a", "b")` or `Path("a", "b")` makes of constants alone."""
    if not isinstance(node, ast.Call) or len(node.args) < 2:
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    texts = [part.value for part in node.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return "/".join(texts) if name in _PATH_CALLS and len(texts) == len(node.args) else None
