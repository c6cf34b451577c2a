"""The strict static checks: every value is a token or literal of the program, and the type is decided by parsing.

How values are looked for says `matching`; what the tokens of a program are says `tokens`. The type is Python's own
parser's decision for a Python task and that of `bash -n` for a bash task, so it depends, for constructs younger than
Python 3.10 or bash 5.0, on the versions that the judge runs on.

What a static check cannot see passes: a value in an `echo`, in a branch that never runs, or on another flag.
"""

from __future__ import annotations

from collections.abc import Iterable

from ml_bench_metric import prose, shell, syntax
from ml_bench_metric.checks import matching, tokens
from ml_bench_metric.tasks import Language, Task


def missing_arguments(program: str, task: Task) -> tuple[str, ...]:
    """Return the names of the arguments that the program does not use.

    An argument without a value (the empty text, in the public data the flags of a script) asks for its name.
    All are missing from a program of more than `syntax.MAX_CHARACTERS` characters.
    """
    return missing_everywhere([(program, task.language)], task)


def missing_everywhere(texts: Iterable[tuple[str, Language]], task: Task) -> tuple[str, ...]:
    """Return the names of the arguments that none of some texts uses, each of a language.

    What is true of one of them counts: a value of several items must be in one text. Nothing is found in a text of more
    than `syntax.MAX_CHARACTERS` characters.
    """
    missing = dict(task.argument_values)
    for text, language in texts:
        if not missing:
            break
        if len(text) > syntax.MAX_CHARACTERS:
            continue
        found = matching.Haystack(tokens.of_program(text, language, task.variables))
        for name, value in list(missing.items()):
            wanted = str(value).strip()
            if found.has_value(wanted) if wanted else found.has_name(name):
                del missing[name]
    return tuple(missing)


def is_of_type(program: str, task: Task) -> bool:
    """Whether the program is one of the task's language.

    A Python program does more than name things. A bash program is accepted by `bash -n`, which accepts much that is
    no bash, so three kinds are told apart before: Python of which bash would take the lines for commands
    (`import torch`), a text that starts with a Markdown fence, and a text of which no line can be a command (`prose`
    has the rules).

    Raises:
        ml_bench_metric.syntax.BashMissingError: a bash task, and no bash on this machine.
    """
    if task.language == "python":
        tree = syntax.python_tree(program)
        return tree is not None and syntax.does_something(tree)
    if len(program) > syntax.MAX_CHARACTERS or program.lstrip().startswith(("```", "~~~")):
        return False
    script = shell.read(program)
    has_command = any(prose.reading(command, script.functions) != "sentence" for command in script.commands)
    is_python = syntax.is_python_program(program) and not prose.feeds_documents(script)
    return has_command and not is_python and syntax.bash_accepts(program)
