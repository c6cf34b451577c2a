"""Taking the program out of a model's text. Deterministic; nothing is run, and prose never becomes a bash program.

Rules of mode `auto`, in their order (line ends become `\\n`; a byte order mark, a `<think>` part and a line with the
name of a language at the start are dropped):

1. A text that is a Python program as a whole is the program of a Python task.
2. Fenced blocks (``` and ~~~, indented, without an end). What a block is says its content first and its tag second, so
   that commands tagged `python` count as commands. Tagged blocks come first; untagged ones count only where no tagged
   one is of the task's language. Several blocks are joined in their order, as steps of one session; one that another
   one contains is a quotation and dropped, and so are untagged Python expressions beside untagged statements.
3. No block at all: the text itself. For a Python task without the sentences before and after the code; broken Python
   stays as it is, since `python` says what is wrong with it. For a bash task only where every command of the text can
   be one (`prose` has the rules), and in a mixture with sentences only where one of the commands is unmistakable.

In all of them `$ `, `>>> ` and `... ` prompts are taken off and the lines without one, the outputs, are dropped; so
are `!command` and `%magic` lines of notebooks in Python, while `!command` for bash loses its mark. Code within a
sentence is never taken: the sentence decides whether it is meant to be run.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Literal

from ml_bench_metric import prose, shell, syntax
from ml_bench_metric.tasks import Language

Mode = Literal["auto", "none"]
"""`auto` takes the program out of the text, `none` takes the text as it is, as upstream does."""

_TAGS: dict[str, Language] = {
    **dict.fromkeys(("python", "python3", "py", "py3", "ipython", "pycon", "python-repl"), "python"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console", "terminal", "shell-session", "shellsession"), "bash"),
}
_NO_TAGS = ("", "code")
_TAG = re.compile(r"\{?\s*\.?(?:lang(?:uage)?-)?([\w+-]*)")
_FENCE = re.compile(r"([ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(`{3,}(?=[^`]*$)|~{3,})(.*)")
_FENCE_AFTER_TEXT = re.compile(r"[^`]*[^`\s][ \t]+(`{3,})([\w+-]*)[ \t]*")
_CODE_SPAN = re.compile(r"(`{1,3})([^`\n]+)\1")
_PREAMBLE = re.compile(
    rf"\A\ufeff?(?:\s*<think>.*?</think>)?(?:\s*(?:{'|'.join(_TAGS)})[ \t]*\n)?", re.DOTALL | re.IGNORECASE
)
_SHELL_PROMPT = re.compile(r"[ \t]*(?:\([\w.-]+\) ?)?(?:[\w.-]+@[\w.-]+:[^\s$#]*)?\$ (?=\S)")
_SHELL_MARK = re.compile(r"([ \t]*)(?:!(?=[A-Za-z])|%(?=cd\b))")
_PYTHON_PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
_NOTEBOOK_LINE = re.compile(r"[ \t]*[!%]{1,2}(?=[A-Za-z])")


@dataclass(frozen=True)
class Extraction:
    """The program of a text, and where it was found."""

    program: str | None
    """None where the text holds no program of the task's language: the candidate fails and is not run."""
    source: str
    """For example `whole text`, `fenced block 2 of 3 (bash)`, `none: prose`."""


def extract(text: str, language: Language, mode: Mode) -> Extraction:
    """Return the program in a model's text. Never raises.

    Args:
        text: a candidate, as the model wrote it.
        language: what the task asks for.
        mode: `none` returns the text untouched, `auto` follows the module's rules.
    """
    if mode == "none":
        return Extraction(text, "whole text")
    text = _PREAMBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.strip():
        return Extraction(None, "none: empty")
    if len(text) > syntax.MAX_CHARACTERS:
        return Extraction(None, f"none: longer than {syntax.MAX_CHARACTERS:,} characters")
    if language == "python" and _is_python(text):
        return Extraction(text, "whole text")
    if blocks := _blocks(text):
        return _from_blocks(blocks, language)
    if span := _CODE_SPAN.fullmatch(text.strip()):
        inner = _clean(span[2], language)
        program = _commands(inner) if language == "bash" else inner if _is_python(inner.text) else None
        if program is not None:
            return Extraction(program.text, _source("code span", program.note))
    return _from_python_text(text) if language == "python" else _from_bash_text(text)


@dataclass(frozen=True)
class _Cleaned:
    """A piece of a text without prompts, outputs and notebook marks, and what was taken off."""

    text: str
    note: str = ""


def _source(*parts: str) -> str:
    return "; ".join(dict.fromkeys(part for part in parts if part))


@dataclass(frozen=True)
class _Block:
    """A fenced block; `number` counts from 1."""

    number: int
    tag: str
    text: str


def _blocks(text: str) -> list[_Block]:
    """Return the fenced blocks of a Markdown text.

    As CommonMark has it, and beyond: a fence may open after text on the same line or after a list marker, and may
    close at the end of a line of code, since models write both.
    """
    blocks: list[_Block] = []
    lines: list[str] | None = None
    fence, tag, width = "", "", 0
    for line in text.split("\n"):
        if lines is None:
            if opening := _FENCE.fullmatch(line):
                fence, info, width = opening[2], opening[3], len(opening[1])
            elif opening := _FENCE_AFTER_TEXT.fullmatch(line):
                fence, info, width = opening[1], opening[2], 0
            else:
                continue
            match = _TAG.match(info.strip().lower())
            tag, lines = match[1] if match else "", []
            continue
        core = line.rstrip().rstrip(fence[0])
        closes = len(line.rstrip()) - len(core) >= len(fence) and (not core.strip() or fence[0] not in core)
        content = core if closes else line
        indentation = len(content) - len(content.lstrip())
        if not closes or core.strip():
            lines.append(content[min(width, indentation) :])
        if closes:
            blocks.append(_Block(len(blocks) + 1, tag, "\n".join(lines)))
            lines = None
    if lines is not None:
        blocks.append(_Block(len(blocks) + 1, tag, "\n".join(lines)))
    return blocks


def _from_blocks(blocks: list[_Block], language: Language) -> Extraction:
    tagged = [block for block in blocks if block.tag in _TAGS]
    untagged = [block for block in blocks if block.tag in _NO_TAGS]
    for group in (tagged, untagged):
        found = [(block, cleaned) for block in group if (cleaned := _program_of(block, language)) is not None]
        if group is untagged and language == "python":
            # `tensor([1])` without a tag is what the program beside it prints.
            found = [pair for pair in found if syntax.has_statement(pair[1].text)] or found
        if found:
            return _joined(found, len(blocks), language)
    tags = ", ".join(dict.fromkeys(block.tag or "no tag" for block in blocks))
    return Extraction(None, f"none: fenced blocks without {language} ({tags})")


def _program_of(block: _Block, language: Language) -> _Cleaned | None:
    """Return the program of a block, None where it is not of the language.

    The tag decides only what the content leaves open: broken Python, and programs that `prose` does not list.
    """
    tagged = _TAGS.get(block.tag) == language
    cleaned = _clean(block.text, language)
    if language == "bash":
        return _commands(cleaned, trusted=tagged) or (_commands_among_sentences(cleaned) if tagged else None)
    if _is_python(cleaned.text):
        return cleaned
    return cleaned if tagged and cleaned.text.strip() and _commands(_clean(block.text, "bash")) is None else None


def _joined(found: list[tuple[_Block, _Cleaned]], count: int, language: Language) -> Extraction:
    """Return the programs of several blocks as one, without those that another one contains."""
    by_lines: dict[str, tuple[_Block, _Cleaned]] = {}
    for block, cleaned in found:
        by_lines.setdefault(_lines_alone(cleaned.text), (block, cleaned))
    kept = [by_lines[part] for part in by_lines if not any(part in whole and part != whole for whole in by_lines)]
    numbers = ", ".join(str(block.number) for block, _ in kept)
    name = "fenced block" if len(kept) == 1 else "joined fenced blocks"
    source = _source(f"{name} {numbers} of {count} ({language})", *(cleaned.note for _, cleaned in kept))
    return Extraction("\n".join(cleaned.text for _, cleaned in kept), source)


def _lines_alone(text: str) -> str:
    """Return the lines of a text without blank ones and indentation, each between line ends."""
    return "\n" + "".join(line.strip() + "\n" for line in text.split("\n") if line.strip())


def _from_python_text(text: str) -> Extraction:
    lines = text.split("\n")
    first, last = 0, len(lines)
    while first < last and (not lines[first].strip() or prose.is_sentence(lines[first])):
        first += 1
    while first < last and (not lines[last - 1].strip() or prose.is_sentence(lines[last - 1])):
        last -= 1
    if first == last:
        return Extraction(None, "none: prose")
    if syntax.python_tree(text) is not None:
        return Extraction(None, "none: nothing to run")
    for begin, end, note in ((0, len(lines), ""), (first, last, "sentences around it dropped")):
        cleaned = _clean("\n".join(lines[begin:end]), "python")
        if _is_python(cleaned.text):
            return Extraction(cleaned.text, _source("whole text", note, cleaned.note))
    return Extraction(text, "whole text; not valid Python")


def _from_bash_text(text: str) -> Extraction:
    cleaned = _clean(text, "bash")
    program = _commands(cleaned) or _commands_among_sentences(cleaned)
    if program is not None:
        return Extraction(program.text, _source("whole text", program.note))
    if syntax.is_python_program(text):
        return Extraction(None, "none: Python, but the task asks for bash")
    return Extraction(None, "none: prose, or no bash")


def _is_python(text: str) -> bool:
    tree = syntax.python_tree(text)
    return tree is not None and syntax.does_something(tree)


def _readings(script: shell.Script) -> set[prose.Reading]:
    return {prose.reading(command, script.functions) for command in script.commands}


def _commands(cleaned: _Cleaned, *, trusted: bool = False) -> _Cleaned | None:
    """Return a text that consists of shell commands, None where it does not.

    `trusted` (a tag says that it does) admits programs that are not listed, and back-ticks. What has an open quote is
    a command still where an unmistakable one is in it: bash will say what is wrong, and does not run what the quote
    has swallowed.
    """
    script = shell.read(cleaned.text)
    readings = _readings(script)
    allowed = {"unmistakable", "command"} | ({"unknown"} if trusted else set())
    if not readings or not readings <= allowed or (script.backticks and not trusted):
        return None
    if syntax.is_python_program(cleaned.text) and not prose.feeds_documents(script):
        return None
    if script.complete:
        return cleaned
    broken = _Cleaned(cleaned.text, _source("not valid bash", cleaned.note))
    return broken if "unmistakable" in readings else None


def _commands_among_sentences(cleaned: _Cleaned) -> _Cleaned | None:
    """Return the commands of a text, one of them unmistakable, whose other lines are sentences; else None."""
    lines: list[str] = []
    for line in cleaned.text.split("\n"):
        if lines and lines[-1].endswith("\\"):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    kept: list[str] = []
    sure = False
    for line in lines:
        script = shell.read(line)
        readings = _readings(script)
        if "sentence" in readings or (prose.is_sentence(line) and not script.complete):
            continue
        if not readings <= {"unmistakable", "command"} or script.backticks or not script.complete:
            return None
        if readings:
            kept.append(line)
            sure = sure or "unmistakable" in readings
    return _Cleaned("\n".join(kept), _source("sentences dropped", cleaned.note)) if sure else None


def _clean(text: str, language: Language) -> _Cleaned:
    """Return a text without the prompts and outputs of a console session and the marks of a notebook."""
    return _clean_bash(text) if language == "bash" else _clean_python(text)


def _clean_bash(text: str) -> _Cleaned:
    lines = text.split("\n")
    notes: list[str] = []
    if any(_SHELL_PROMPT.match(line) for line in lines):
        session: list[str] = []
        for line in lines:
            goes_on = bool(session) and session[-1].endswith("\\")
            if prompt := _SHELL_PROMPT.match(line):
                session.append(line[prompt.end() :])
            elif goes_on:
                session.append(line.removeprefix("> "))
        lines = session
        notes.append("prompts and outputs dropped")
    if any(_SHELL_MARK.match(line) for line in lines):
        lines = [_SHELL_MARK.sub(r"\1", line, count=1) if _SHELL_MARK.match(line) else line for line in lines]
        notes.append("notebook marks dropped")
    return _Cleaned("\n".join(lines), _source(*notes))


def _clean_python(text: str) -> _Cleaned:
    if syntax.python_tree(text) is not None:
        return _Cleaned(text)
    lines = textwrap.dedent(text).split("\n")
    notes: list[str] = []
    if any(line.lstrip().startswith(">>> ") for line in lines):
        lines = [line[prompt.end() :] for line in lines if (prompt := _PYTHON_PROMPT.match(line))]
        notes.append("prompts and outputs dropped")
    if any(_NOTEBOOK_LINE.match(line) for line in lines):
        lines = [line for line in lines if not _NOTEBOOK_LINE.match(line)]
        notes.append("notebook lines dropped")
    return _Cleaned("\n".join(lines), _source(*notes))
