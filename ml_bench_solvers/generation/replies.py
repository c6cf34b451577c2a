"""Reading what a server sent: any shape in, choices out. Servers differ, and some of them err."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ml_bench_solvers.generation.answers import Status, Usage

_REFUSED = ("content_filter", "safety", "refusal")
_CUT = ("length", "max_tokens", "model_length")


@dataclass(frozen=True)
class Call:
    """A call of a tool that a model asks for, as it came: nothing of it need make sense."""

    id: str
    name: str
    arguments: str
    """JSON, if the model kept to it."""


@dataclass(frozen=True)
class Choice:
    """One answer of a reply."""

    text: str
    finish_reason: str = ""
    refusal: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    """Calls of tools; they do not count for `status`, which is about the text."""

    @property
    def status(self) -> Status:
        """What kind of answer it is."""
        if self.refusal or self.finish_reason.lower() in _REFUSED:
            return "refusal"
        if self.finish_reason.lower() in _CUT:
            return "length"
        return "ok" if self.text.strip() else "empty"


@dataclass(frozen=True)
class Reply:
    """What one request brought."""

    choices: tuple[Choice, ...]
    """Perhaps fewer than were asked for; never none."""
    usage: Usage | None = None
    model: str = ""
    request_id: str = ""
    seconds: float = 0.0
    attempts: int = 1


def whole_choices(choices: object) -> tuple[Choice, ...]:
    """Return the choices of a reply that came in one piece, in the order of their indices, perhaps none."""
    found = [choice for choice in _listed(choices) if part(choice, "message") is not None]
    indices = [part(choice, "index") for choice in found]
    if all(isinstance(index, int) for index in indices) and len(set(indices)) == len(indices):
        found.sort(key=lambda choice: _integer(part(choice, "index")) or 0)
    return tuple(
        Choice(
            text=_text(part(choice, "message"), "content") or _text(part(choice, "message"), "refusal"),
            finish_reason=_text(choice, "finish_reason"),
            refusal=_text(part(choice, "message"), "refusal"),
            reasoning=_reasoning(part(choice, "message")),
            calls=tuple(map(_call, _listed(part(part(choice, "message"), "tool_calls")))),
        )
        for choice in found
    )


@dataclass
class _GrowingCall:
    id: str = ""
    name: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


@dataclass
class _Growing:
    text: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, _GrowingCall] = field(default_factory=dict)
    finish_reason: str = ""

    def add_calls(self, pieces: list[object]) -> None:
        """Take the next pieces of calls. One without a number belongs to the latest call, unless it has another id."""
        for piece in pieces:
            number = _integer(part(piece, "index"))
            if number is None:
                identity = _text(piece, "id")
                latest = max(self.calls, default=-1)
                begins = latest < 0 or bool(identity and self.calls[latest].id not in ("", identity))
                number = latest + 1 if begins else latest
            growing = self.calls.setdefault(number, _GrowingCall())
            function = part(piece, "function")
            growing.id = _text(piece, "id") or growing.id
            growing.name.append(_raw_text(part(function, "name")))
            growing.arguments.append(_arguments(part(function, "arguments")))


class StreamedReply:
    """Puts a reply together that comes in pieces."""

    def __init__(self) -> None:
        self._growing: dict[int, _Growing] = {}
        self.usage: Usage | None = None
        self.model = ""
        self.request_id = ""

    def add(self, chunk: object) -> None:
        """Take the next piece."""
        self.model = _text(chunk, "model") or self.model
        self.request_id = _text(chunk, "id") or self.request_id
        # Some servers count along in every piece: the last count is that of the whole.
        self.usage = read_usage(part(chunk, "usage")) or self.usage
        for choice in _listed(part(chunk, "choices")):
            growing = self._growing.setdefault(_integer(part(choice, "index")) or 0, _Growing())
            delta = part(choice, "delta")
            growing.text.append(_raw_text(part(delta, "content")))
            growing.refusal.append(_raw_text(part(delta, "refusal")))
            growing.reasoning.append(_raw_text(part(delta, "reasoning_content") or part(delta, "reasoning")))
            growing.add_calls(_listed(part(delta, "tool_calls")))
            growing.finish_reason = _text(choice, "finish_reason") or growing.finish_reason

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The choices that have come to their end: one without a reason for its end is half an answer."""
        return tuple(
            Choice(
                text=_joined(growing.text) or _joined(growing.refusal),
                finish_reason=growing.finish_reason,
                refusal=_joined(growing.refusal),
                reasoning=_joined(growing.reasoning),
                calls=tuple(
                    Call(call.id, _joined(call.name), _joined(call.arguments))
                    for _, call in sorted(growing.calls.items())
                ),
            )
            for _, growing in sorted(self._growing.items())
            if growing.finish_reason
        )

    def is_whole(self, wanted: int) -> bool:
        """Return whether as many choices have come to their end, and none is still on its way."""
        return len(self.choices) >= wanted and len(self.choices) == len(self._growing)


def read_usage(usage: object) -> Usage | None:
    """Return the tokens that a server counted; None where it says nothing that can be used."""
    prompt, completion = _integer(part(usage, "prompt_tokens")), _integer(part(usage, "completion_tokens"))
    if prompt is None or completion is None or prompt < 0 or completion < 0:
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion)


def part(holder: object, name: str) -> object:
    """Return a field of an object of whatever kind; None where it has none."""
    if type(holder) is dict:
        return holder.get(name)
    # Of huggingface_hub's types, which are dicts too, the attributes alone have the fields that it does not know.
    return getattr(holder, name, None)


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else []


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _reasoning(message: object) -> str:
    return _text(message, "reasoning_content") or _text(message, "reasoning")


def _text(holder: object, name: str) -> str:
    return _joined([_raw_text(part(holder, name))])


def _raw_text(value: object) -> str:
    """Return a text, also one that is given as a list of parts."""
    if isinstance(value, str):
        return value
    return "".join(_raw_text(part(piece, "text")) for piece in _listed(value))


def _call(call: object) -> Call:
    function = part(call, "function")
    return Call(_text(call, "id"), _text(function, "name"), storable(_arguments(part(function, "arguments"))))


def _arguments(value: object) -> str:
    """Return arguments as JSON, also those that a server has read already."""
    return json.dumps(value) if isinstance(value, dict) else _raw_text(value)


def storable(text: str) -> str:
    """Return a text that can be stored and sent: halves of characters are put together, or become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _joined(pieces: Iterable[str]) -> str:
    return storable("".join(pieces))
