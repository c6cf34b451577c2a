"""Reading bash text without running it: commands, words, assignments, here-documents.

The words are those that bash itself would make, as far as the text alone decides it: quotes and escapes are removed,
comments and line continuations dropped, `$NAME` and `${NAME}` replaced where the text or the caller says what NAME is.
What only a running shell knows (other expansions, globs, the output of `$(...)`) is left out or left as it stands.
The grammar is that of the bash manual, sections 3.1 to 3.6; `syntax.bash_accepts` asks bash whether a text is valid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_DEEPEST = 40
"""Substitutions nested deeper than this are not read: the text counts as incomplete."""
_EXPANDED = 1_000_000
"""All expansions of a text together make at most so many characters, so that `A=$B$B; B=$A$A; ...` stays harmless."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^]]*\])?(\+?)=")
_ORDINARY = re.compile(r"""[^\\'"$`;&|<>() \t\n]+""")
_IN_DOUBLE_QUOTES = re.compile(r"""[^\\"$`]+""")
_FUNCTION = re.compile(r"\([ \t]*\)")
_REDIRECTION = re.compile(r"<<<|<<-|<<|<>|[<>]&(?:\d+-?|-)?|>>|>\||<|>")
_PARAMETER = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::?-(.*))?", re.DOTALL)
_IN_DOCUMENT = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ANSI_C = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_C_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|([abefnrtv\\'\"?]))")
_ANSI_C_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BEFORE_ARITHMETIC = frozenset({"if", "then", "elif", "else", "while", "until", "do", "for", "{", "!"})
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, after quote removal and the expansions that the text decides."""

    text: str
    quoted: bool
    """True where a part of it was quoted, escaped or the output of a substitution, which is left out of the text."""


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: its words (leading assignments and targets of redirections included), its here-documents."""

    words: tuple[Word, ...]
    assignments: int
    """Number of leading words of the form `NAME=value`."""
    documents: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Script:
    """What a bash text consists of."""

    commands: tuple[Command, ...]
    """The simple commands in the order of their ends; those of a `$(...)` come before the command that holds it."""
    functions: frozenset[str]
    """Names of the functions that the text defines."""
    complete: bool
    """False where a quote, a substitution or a bracket has no partner."""
    backticks: bool
    """True where something is substituted by back-ticks, the mark-up of code in prose."""


def read(text: str, variables: Mapping[str, str] | None = None) -> Script:
    """Return the commands of a bash text. Any text is read; nothing is raised and nothing is run.

    Args:
        text: the script.
        variables: variables of its environment; the text's own assignments come on top.
    """
    scanner = _Scanner(text, _Variables(dict(variables or {})), level=0)
    scanner.script(closing=False)
    return Script(tuple(scanner.commands), frozenset(scanner.functions), scanner.complete, scanner.has_backticks)


class _Variables:
    """The variables known so far, and how much text may still be made of them."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values
        self._left = _EXPANDED

    def value(self, name: str, otherwise: str) -> str:
        """Return the value of a variable, or `otherwise` where it is unknown or the budget is used up."""
        value = self._values.get(name, otherwise)
        if len(value) > self._left:
            return ""
        self._left -= len(value)
        return value

    def assign(self, words: tuple[Word, ...]) -> None:
        """Take over the assignments among some words."""
        for word in words:
            if match := _ASSIGNMENT.match(word.text):
                before = self.value(match[1], "") if match[2] else ""
                self._values[match[1]] = before + word.text[match.end() :]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A here-document whose body starts after the next end of line."""

    delimiter: Word
    strip_tabs: bool
    documents: list[str]


@dataclass(slots=True)
class _Draft:
    """The command that is being read."""

    words: list[Word] = field(default_factory=list)
    assignments: int = 0
    documents: list[str] = field(default_factory=list)
    in_array: bool = False
    """True between the brackets of `NAME=( ... )`, where a line end does not end the command."""

    def add(self, text: str, quoted: bool) -> None:
        """Add a word; an unquoted expansion that is empty makes none."""
        if text or quoted:
            if self.assignments == len(self.words) and _ASSIGNMENT.match(text):
                self.assignments += 1
            self.words.append(Word(text, quoted))

    def takes_assignments(self) -> bool:
        """Whether a word `NAME=value` at this place assigns, and is not a mere argument."""
        return self.assignments == len(self.words) or self.words[0].text in _DECLARING


class _Scanner:
    def __init__(self, text: str, variables: _Variables, level: int) -> None:
        self.commands: list[Command] = []
        self.functions: set[str] = set()
        self.complete = True
        self.has_backticks = False
        self._text = text
        self._at = 0
        self._level = level
        self._variables = variables
        self._draft = _Draft()
        self._pending: list[_Pending] = []
        self._open_cases = 0

    def script(self, *, closing: bool) -> None:
        """Read up to the end of the text or, where `closing`, up to and with the `)` that ends a substitution."""
        text, open_groups = self._text, 0
        while self._at < len(text):
            char = text[self._at]
            if char == "\n":
                if not self._draft.in_array:
                    self._end_command()
                self._at += 1
                self._read_documents()
            elif text.startswith("\\\n", self._at):
                self._at += 2
            elif char in " \t" or text.startswith("&>", self._at):
                self._at += 1
            elif char == "#":
                self._skip_line()
            elif char in ";&|":
                self._end_command()
                self._at += 1
            elif char == "(":
                open_groups += self._open_group()
            elif char == ")":
                self._at += 1
                if self._draft.in_array:
                    self._draft.in_array = False
                    continue
                if self._open_cases and not open_groups:
                    self._draft = _Draft()  # it held the pattern of a `case` branch
                    continue
                self._end_command()
                if self._open_cases and not open_groups:
                    continue  # that was `case WORD in PATTERN)`
                if closing and not open_groups:
                    return
                self.complete = self.complete and open_groups > 0
                open_groups = max(0, open_groups - 1)
            elif char in "<>":
                self._redirection()
            else:
                self._word()
        if open_groups or closing or self._draft.in_array:
            self.complete = False
        self._end_command()

    def _skip_line(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _give_up(self) -> None:
        """Stop at something that never ends."""
        self.complete = False
        self._at = len(self._text)

    def _end_command(self) -> None:
        draft, self._draft = self._draft, _Draft()
        if draft.words:
            command = Command(tuple(draft.words), draft.assignments, draft.documents)
            head = command.words[0].text
            self._open_cases = max(0, self._open_cases + (head == "case") - (head == "esac"))
            self._variables.assign(command.words if head in _DECLARING else command.words[: command.assignments])
            self.commands.append(command)

    def _open_group(self) -> int:
        """Read `((...))`, the `()` of a function definition, or a `(` that opens a group; return the groups opened."""
        words = self._draft.words
        if self._text.startswith("((", self._at) and (not words or words[-1].text in _BEFORE_ARITHMETIC):
            self._arithmetic()
            return 0
        definition = _FUNCTION.match(self._text, self._at)
        if definition and words:
            self.functions.add(words[-1].text)
            self._draft = _Draft()
            self._at = definition.end()
            return 0
        self._end_command()
        self._at += 1
        return 1

    def _redirection(self) -> None:
        match = _REDIRECTION.match(self._text, self._at)
        assert match is not None  # the caller saw `<` or `>`
        self._at = match.end()
        if match[0] in ("<", ">") and self._text.startswith("(", self._at):
            self._substitution()
        elif match[0] in ("<<", "<<-"):
            while self._text.startswith((" ", "\t"), self._at):
                self._at += 1
            words = self._draft.words
            count = len(words)
            self._word()
            if len(words) > count:
                self._pending.append(_Pending(words.pop(), match[0] == "<<-", self._draft.documents))

    def _read_documents(self) -> None:
        for pending in self._pending:
            lines: list[str] = []
            while self._at < len(self._text):
                start = self._at
                self._skip_line()
                line = self._text[start : self._at]
                line = line.lstrip("\t") if pending.strip_tabs else line
                self._at += 1
                if line == pending.delimiter.text:
                    break
                lines.append(line)
            body = "\n".join(lines)
            if not pending.delimiter.quoted:
                body = _IN_DOCUMENT.sub(lambda m: self._variables.value(m[1] or m[2], m[0]), body)
            pending.documents.append(body)
        self._pending.clear()

    def _word(self) -> None:
        text, parts, quoted, substituted, start = self._text, [""], False, False, self._at
        assigns = _ASSIGNMENT.match(text, start)
        while self._at < len(text):
            char = text[self._at]
            if char == "(" and assigns and assigns.end() == self._at:
                self._draft.in_array = True
                self._at += 1
                break
            if char in " \t\n;&|<>()":
                break
            if char == "\\":
                if not text.startswith("\\\n", self._at):
                    parts.append(text[self._at + 1 : self._at + 2] or "\\")
                    quoted = True
                self._at += 2
            elif char in "'\"" or text.startswith(("$'", '$"'), self._at):
                parts.append(self._quotation())
                quoted = True
            elif char == "$":
                substituted = substituted or text.startswith("$(", self._at)
                value = self._dollar()
                if assigns and self._draft.takes_assignments():
                    parts.append(value)  # bash splits no value of an assignment
                else:
                    first, *rest = re.split(r"[ \t\n]+", value)
                    parts.append(first)
                    for piece in rest:
                        self._draft.add("".join(parts), quoted)
                        parts[:] = [piece]
            elif char == "`":
                substituted = True
                self._backticks()
            else:
                ordinary = _ORDINARY.match(text, self._at)
                assert ordinary is not None  # every other character is ordinary
                parts.append(ordinary[0])
                self._at = ordinary.end()
        is_descriptor = text[self._at : self._at + 1] in ("<", ">") and text[start : self._at].isdecimal()
        if not is_descriptor:
            self._draft.add("".join(parts), quoted or substituted)

    def _quotation(self) -> str:
        """Read a quoted string in any of its four forms."""
        if self._text[self._at] == '"' or self._text.startswith('$"', self._at):
            self._at = self._text.index('"', self._at) + 1
            return self._double_quoted()
        if self._text[self._at] == "$" and (match := _ANSI_C.match(self._text, self._at + 1)):
            self._at = match.end()
            return _ANSI_C_ESCAPE.sub(_decode, match[1])
        start = self._text.index("'", self._at) + 1
        end = self._text.find("'", start)
        if end < 0:
            self._give_up()
            return self._text[start:]
        self._at = end + 1
        return self._text[start:end]

    def _double_quoted(self) -> str:
        text, parts = self._text, [""]
        while self._at < len(text):
            char = text[self._at]
            if char == '"':
                self._at += 1
                return "".join(parts)
            if char == "\\":
                following = text[self._at + 1 : self._at + 2]
                if following != "\n":
                    parts.append(following if following in '$`"\\' else "\\" + following)
                self._at += 2
            elif char == "$":
                parts.append(self._dollar())
            elif char == "`":
                self._backticks()
            else:
                literal = _IN_DOUBLE_QUOTES.match(text, self._at)
                assert literal is not None  # every other character is literal
                parts.append(literal[0])
                self._at = literal.end()
        self.complete = False
        return "".join(parts)

    def _dollar(self) -> str:
        """Read what a `$` starts; return its value, or the text as it stands where the value is not known."""
        text, start = self._text, self._at
        self._at += 1
        if text.startswith("((", self._at):
            self._arithmetic()
            return text[start : self._at]
        if text.startswith("(", self._at):
            self._substitution()
            return ""
        if text.startswith("{", self._at):
            return self._braces(start)
        if match := _NAME.match(text, self._at):
            self._at = match.end()
            return self._variables.value(match[0], text[start : self._at])
        return "$"

    def _braces(self, start: int) -> str:
        depth, end = 1, self._at + 1
        while depth and end < len(self._text):
            depth += (self._text[end] == "{") - (self._text[end] == "}")
            end += 1
        if depth:
            self._give_up()
            return self._text[start:]
        self._at = end
        match = _PARAMETER.fullmatch(self._text, start + 2, end - 1)
        if match is None:
            return self._text[start:end]
        return self._variables.value(match[1], self._text[start:end] if match[2] is None else match[2])

    def _arithmetic(self) -> None:
        """Skip the `((...))` that starts here."""
        depth, end = 2, self._at + 2
        while depth and end < len(self._text):
            depth += (self._text[end] == "(") - (self._text[end] == ")")
            end += 1
        self._at = end
        self.complete = self.complete and not depth

    def _substitution(self) -> None:
        """Read the commands of the `(...)` that starts here."""
        if self._level >= _DEEPEST:
            self._give_up()
            return
        outer = self._draft, self._open_cases
        self._draft, self._open_cases = _Draft(), 0
        self._level += 1
        self._at += 1
        self.script(closing=True)
        self._level -= 1
        self._draft, self._open_cases = outer

    def _backticks(self) -> None:
        self.has_backticks = True
        match = _BACKTICKS.match(self._text, self._at)
        if match is None or self._level >= _DEEPEST:
            self._give_up()
            return
        self._at = match.end()
        inner = _Scanner(re.sub(r"\\([`\\$])", r"\1", match[1]), self._variables, self._level + 1)
        inner.script(closing=False)
        self.commands.extend(inner.commands)
        self.functions |= inner.functions
        self.complete = self.complete and inner.complete


def _decode(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else _ANSI_C_LETTERS.get(escape[3], escape[3])
