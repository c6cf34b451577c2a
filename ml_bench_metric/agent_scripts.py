"""`run.sh`, what an agent leaves: that of a reference, and the scripts of its own that one names."""

from __future__ import annotations

import posixpath

from ml_bench_metric import syntax
from ml_bench_metric.checks import Checks, Rule, check_script, tokens
from ml_bench_metric.results import Program
from ml_bench_metric.sandbox import overlay_archive
from ml_bench_metric.sandbox.overlay import Overlay
from ml_bench_metric.sandbox.protocol import SandboxError
from ml_bench_metric.tasks import SCRIPT, Language, Task

MAX_SCRIPTS = 8
"""How many of the scripts that a `run.sh` names are looked at, in the order of their paths."""

_MAX_SCRIPT_BYTES = 4 * syntax.MAX_CHARACTERS
"""No character needs more: what is longer is not read by any check."""

_LANGUAGES: dict[str, Language] = {".py": "python", ".sh": "bash", ".bash": "bash"}
_REFERENCE = "ml_bench_reference.py"


def reference_script(task: Task) -> str:
    """Return the `run.sh` that does what a task's reference does: of a Python task, one that writes and runs it."""
    if task.language == "bash":
        return task.output
    end = "END_OF_FILE"
    while end in task.output.split("\n"):
        end += "_"
    return f"cat > {_REFERENCE} <<'{end}'\n{task.output}\n{end}\npython {_REFERENCE}\n"


def named_scripts(program: str, overlay: Overlay | None, task: Task) -> dict[str, str]:
    """Return the scripts of an overlay that a `run.sh` names: absolute path -> text.

    A script is a file that ends in `.py`, `.sh` or `.bash`. It is named by a word of the program that is the end of its
    path; what comes before the last part with a `$` is not known, and does not count. Those named by others are not
    among them, nor modules (`python -m`). None of an overlay that no sandbox would take.
    """
    if overlay is None or len(program) > syntax.MAX_CHARACTERS:
        return {}
    words = {_end_of_path(word) for word in tokens.of_program(program, "bash", task.variables)}
    named = tuple(f"/{word}" for word in words if posixpath.splitext(word)[1] in _LANGUAGES)
    own = posixpath.join(task.working_folder, SCRIPT)
    found: dict[str, str] = {}
    if not named:
        return found
    try:
        for entry in overlay_archive.entries(overlay):
            is_named = entry.facts.isreg() and entry.path.endswith(named) and entry.path != own
            if is_named and entry.facts.size <= _MAX_SCRIPT_BYTES:
                found[entry.path] = b"".join(entry.blocks()).decode("utf-8", "replace")
    except SandboxError:
        return {}
    return {path: found[path] for path in sorted(found)[:MAX_SCRIPTS]}


def _end_of_path(word: str) -> str:
    known = word.rpartition("$")[2].partition("/")[2] if "$" in word else word
    parts = [part for part in known.split("/") if part not in ("", ".", "..")]
    return "/".join(parts)


def language_of(path: str) -> Language:
    """Return what a script of an overlay is, by its name."""
    return _LANGUAGES.get(posixpath.splitext(path)[1], "bash")


def check_all(
    program: str | None, task: Task, rule: Rule, scripts: dict[str, str], commands: tuple[str, ...] = ()
) -> Checks:
    """Return the static checks of a `run.sh` with all that is known of it; see `check_script`.

    Args:
        program: its text; None where there is none.
        task: the task that it answers.
        rule: `original` or `strict`.
        scripts: see `named_scripts`.
        commands: see `Execution.commands`.
    """
    others: list[tuple[str, Language]] = [(text, language_of(path)) for path, text in scripts.items()]
    others += [(command, "bash") for command in commands]
    return check_script(program, task, rule, others)


def kept(scripts: dict[str, str]) -> dict[str, Program]:
    """Return the records of scripts, as results have them."""
    return {path: Program.of(text) for path, text in scripts.items()}
