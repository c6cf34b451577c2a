"""The wording of prompts: Jinja2 templates, this project's own or a user's.

A folder of templates has `user.jinja`, the user's message, and may have `system.jinja`, the system's, a file `VERSION`,
and further `*.jinja` that these include. A single file is the user's message, without any other.

A template sees what `prompts.py` gives it, as values: what is in them is never taken for template text. It runs in
Jinja's sandbox, and a name that does not exist is an error.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ml_bench_metric.printable import printable
from ml_bench_solvers.prompt import Message
from ml_bench_solvers.prompt_error import PromptError

if TYPE_CHECKING:
    from jinja2 import Environment

OWN = Path(__file__).parent / "templates"
NAME = "ml-bench"
"""Of this project's own."""

_SUFFIX = ".jinja"
_USER, _SYSTEM, _VERSION = f"user{_SUFFIX}", f"system{_SUFFIX}", "VERSION"


@dataclass(frozen=True)
class Template:
    """Templates, read and compiled."""

    name: str
    """Name, version and the first 12 hex digits of the digest over all files: `ml-bench/1-0123456789ab`."""
    sources: dict[str, str]
    """File name -> text."""
    folder: Path
    """Where the files are, for messages."""
    environment: Environment
    user: str
    """Name of the file with the user's message."""

    def render(self, values: dict[str, object]) -> tuple[Message, ...]:
        """Return the messages of a prompt. Blank ones are left out.

        Raises:
            PromptError: a template failed; the message names file and line.
        """
        messages = (Message(role="system", content=self._text(_SYSTEM, values)),) if _SYSTEM in self.sources else ()
        return tuple(
            message
            for message in (*messages, Message(role="user", content=self._text(self.user, values)))
            if message["content"]
        )

    def _text(self, name: str, values: dict[str, object]) -> str:
        from jinja2 import TemplateSyntaxError

        try:
            return self.environment.get_template(name).render(values).strip()
        except TemplateSyntaxError as error:
            place = self.folder / (error.name or name)
            raise PromptError(f"{printable(str(place))}:{error.lineno}: {error.message}") from error
        except Exception as error:  # whatever a template's expressions may raise is its author's to mend
            line = self._line(error.__traceback__)
            raise PromptError(f"{line or printable(str(self.folder / name))}: {_reason(error)}") from error

    def _line(self, trace: TracebackType | None) -> str:
        """Return file and line of the innermost template in a trace."""
        found = ""
        while trace is not None:
            file = Path(trace.tb_frame.f_code.co_filename)
            if file.name in self.sources and file.parent == self.folder:
                found = f"{printable(str(file))}:{trace.tb_lineno}"
            trace = trace.tb_next
        return found


def read_template(path: Path | None = None) -> Template:
    """Return the templates of a folder or file, by default this project's own.

    Raises:
        PromptError: they cannot be read, or the syntax of one is wrong; the message names file and line.
    """
    from jinja2 import FunctionLoader, StrictUndefined, TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    place = OWN if path is None else path
    folder = place if place.is_dir() else place.parent
    sources = _read(place)
    user = _USER if place.is_dir() else place.name
    environment = ImmutableSandboxedEnvironment(
        loader=FunctionLoader(
            lambda name: (sources[name], str(folder / name), lambda: True) if name in sources else None
        ),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    environment.filters["fenced"] = fenced
    for name in sources:
        try:
            if name != _VERSION:
                environment.get_template(name)
        except TemplateSyntaxError as error:
            raise PromptError(f"{printable(str(folder / name))}:{error.lineno}: {error.message}") from error
    digest = hashlib.sha256()
    for name, source in sorted(sources.items()):
        for part in (name.encode(), source.encode("utf-8", "surrogatepass")):
            digest.update(len(part).to_bytes(8, "big") + part)
    title = NAME if path is None else printable(place.resolve().stem)
    version = printable(sources.get(_VERSION, "").strip()) or "0"
    return Template(f"{title}/{version}-{digest.hexdigest()[:12]}", sources, folder, environment, user)


def fenced(text: str, language: str = "") -> str:
    """Return a text in a Markdown fence that is longer than any in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _read(place: Path) -> dict[str, str]:
    try:
        if place.is_dir():
            files = {file.name: file for file in place.iterdir() if file.suffix == _SUFFIX or file.name == _VERSION}
            if _USER not in files:
                raise PromptError(f"{printable(str(place))} has no {_USER}, which is the user's message")
        else:
            files = {place.name: place}
        return {name: file.read_bytes().decode("utf-8").replace("\r\n", "\n") for name, file in files.items()}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PromptError(f"template {printable(str(place))} cannot be read: {reason}") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
